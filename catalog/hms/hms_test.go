package hms_test

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"

	"github.com/couch2hudi/couch2hudi/catalog"
	"github.com/couch2hudi/couch2hudi/catalog/catalogtest"
	"github.com/couch2hudi/couch2hudi/catalog/hms"
)

func open(t *testing.T, o hms.Options) *hms.Store {
	t.Helper()
	s, err := hms.Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestSuite(t *testing.T) {
	f := &fake{}
	address := f.start(t)
	catalogtest.Run(t, "file:///data", catalogtest.Many, func(t *testing.T) catalog.Metastore {
		return open(t, hms.Options{Addresses: []string{address}})
	})
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.largest != 500 {
		t.Errorf("a request of %d partitions, want at most 500", f.largest)
	}
}

// Hive 2 lacks one of the ways to ask for a table, and Hive 4 the other.
func TestVersions(t *testing.T) {
	for _, unknown := range []string{"get_table", "get_table_req"} {
		f := &fake{unknown: []string{unknown}}
		address := f.start(t)
		catalogtest.Run(t, "file:///data", 8, func(t *testing.T) catalog.Metastore {
			return open(t, hms.Options{Addresses: []string{address}})
		})
	}
}

// The first metastore that answers is taken, and it is told who asks.
func TestOpen(t *testing.T) {
	gone := func() string {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = l.Close() }()
		return l.Addr().String()
	}()
	f := &fake{}
	s := open(t, hms.Options{Addresses: []string{gone, f.start(t)}, User: "etl"})
	defer func() { _ = s.Close() }()
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.user != "etl" {
		t.Errorf("the user is %q", f.user)
	}
	if _, err := hms.Open(t.Context(), hms.Options{Addresses: []string{gone}}); err == nil || !strings.Contains(err.Error(), gone) {
		t.Errorf("%v", err)
	}
}

// A metastore that hangs holds nobody whose context ends, logging in or asking.
func TestEndsWithContext(t *testing.T) {
	f := &fake{stuck: make(chan struct{})}
	s := open(t, hms.Options{Addresses: []string{f.start(t)}})
	ctx, cancel := context.WithCancel(t.Context())
	asked := make(chan error, 1)
	go func() {
		_, err := s.Table(ctx, "default", "x")
		asked <- err
	}()
	cancel()
	if err := <-asked; !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	close(f.stuck)
	if _, err := s.Table(t.Context(), "default", "x"); err == nil {
		t.Error("a connection that was given up answers")
	}
	if err := s.Close(); err != nil {
		t.Errorf("%v", err)
	}
	ctx, cancel = context.WithCancel(t.Context())
	address := silent(t)
	go func() {
		_, err := hms.Open(ctx, hms.Options{Addresses: []string{address}, Auth: hms.AuthPlain, User: "u", Password: "p"})
		asked <- err
	}()
	cancel()
	if err := <-asked; err == nil {
		t.Error("logged in where nobody answers")
	}
}
