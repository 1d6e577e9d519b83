package couchdb_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/couch2hudi/couch2hudi/changes"
	"github.com/couch2hudi/couch2hudi/changes/couchdb"
)

func TestTLS(t *testing.T) {
	s := &server{t: t, born: "1"}
	s.Server = httptest.NewTLSServer(s)
	t.Cleanup(s.Close)
	o := couchdb.Options{URL: strings.Replace(s.URL, "https://", "couchdbs://", 1) + "/db"}

	// A certificate that nobody vouches for is not waited for.
	_, err := open(t, o).Identify(t.Context())
	var untrusted *tls.CertificateVerificationError
	if !errors.As(err, &untrusted) {
		t.Errorf("got %v", err)
	}

	pool := x509.NewCertPool()
	pool.AddCert(s.Certificate())
	o.TLS = &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
	src := open(t, o)
	if id, err := src.Identify(t.Context()); err != nil || id.Incarnation != "1" {
		t.Errorf("got %+v, %v", id, err)
	}
	if b := next(t, src, "", changes.Limit{}); !b.CaughtUp {
		t.Errorf("got %+v", b)
	}
}

// TestDefaultPorts: couchdb:// means the server's own ports.
func TestDefaultPorts(t *testing.T) {
	for url, want := range map[string]string{
		"couchdb://host/db":            "http://host:5984/db",
		"couchdbs://host/db":           "https://host:6984/db",
		"couchdb://u:p@host:80/db":     "http://host:80/db",
		"couchdb://[::1]/db":           "http://[::1]:5984/db",
		"http://host/db":               "http://host/db",
		"https://u:p@host/proxy/a%2Fb": "https://host/proxy/a%2Fb",
	} {
		src := open(t, couchdb.Options{URL: url})
		if got := fmt.Sprintf("%v %#v", src, src); got != want+" "+want {
			t.Errorf("%s: got %q, want %q", url, got, want)
		}
	}
}

// TestGivingUp: the caller's own reason is in the error, and so is what failed.
func TestGivingUp(t *testing.T) {
	enough := errors.New("enough")
	s := newServer(t)
	s.set(func() { s.info = fail(500, "nodedown", "progress not possible") })
	src := open(t, options(s))
	for name, call := range map[string]func(context.Context) error{
		"next":     func(ctx context.Context) error { _, err := src.Next(ctx, "", changes.Limit{}); return err },
		"identify": func(ctx context.Context) error { _, err := src.Identify(ctx); return err },
	} {
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(30*time.Millisecond, func() { cancel(enough) })
		err := call(ctx)
		if !errors.Is(err, enough) || !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "progress not possible") && name == "identify" {
			t.Errorf("%s: got %v", name, err)
		}
		if errors.As(err, new(*couchdb.Error)) {
			t.Errorf("%s: %v matches what was only being retried", name, err)
		}
	}
}

// TestNowRetries: a server that sends rows, breaks off or fails is asked again.
func TestNowRetries(t *testing.T) {
	s := newServer(t, fail(500, "nodedown", "x"), cutOff("{\"results\":[\n"), normal("5-x", 0, row("5-x", "a", "1-a")))
	if got, err := open(t, options(s)).Now(t.Context()); err != nil || got != "5-x" {
		t.Errorf("got %q, %v", got, err)
	}
}
