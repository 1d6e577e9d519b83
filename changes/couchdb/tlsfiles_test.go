package couchdb_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"log/slog"
	"math/big"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/couch2hudi/couch2hudi/changes"
	"github.com/couch2hudi/couch2hudi/changes/couchdb"
	"github.com/couch2hudi/couch2hudi/internal/couchfake"
)

// authority signs certificates of clients.
type authority struct {
	key  *ecdsa.PrivateKey
	cert *x509.Certificate
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{}
	key, cert := a.sign(t, "authority")
	a.key, a.cert = key, cert
	return a
}

// sign makes a certificate, the authority's own when it has none yet.
func (a *authority) sign(t *testing.T, name string) (*ecdsa.PrivateKey, *x509.Certificate) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
		IsCA:        a.cert == nil, BasicConstraintsValid: true,
	}
	parent, by := a.cert, a.key
	if parent == nil {
		parent, by = c, key
		c.KeyUsage = x509.KeyUsageCertSign
	}
	der, err := x509.CreateCertificate(rand.Reader, c, parent, key.Public(), by)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return key, cert
}

// issue writes a client's certificate and key.
func (a *authority) issue(t *testing.T, name, certFile, keyFile string) {
	t.Helper()
	key, cert := a.sign(t, name)
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	put(t, certFile, toPEM("CERTIFICATE", cert.Raw))
	put(t, keyFile, toPEM("PRIVATE KEY", der))
}

func toPEM(kind string, der []byte) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
}

// secured is a guarded database behind TLS that demands certificates of an
// authority; seen is the name in the last one.
func secured(t *testing.T, a *authority) (srv *httptest.Server, fake *couchfake.Server, seen *atomic.Value) {
	t.Helper()
	fake, _ = guarded(t, couchfake.HeaderAuth{})
	seen = &atomic.Value{}
	srv = httptest.NewUnstartedServer(fake)
	pool := x509.NewCertPool()
	pool.AddCert(a.cert)
	srv.TLS = &tls.Config{ClientCAs: pool, ClientAuth: tls.RequireAndVerifyClientCert, MinVersion: tls.VersionTLS12,
		VerifyConnection: func(s tls.ConnectionState) error {
			seen.Store(s.PeerCertificates[0].Subject.CommonName)
			return nil
		}}
	srv.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, 0)
	srv.StartTLS()
	t.Cleanup(srv.Close)
	return srv, fake, seen
}

func TestClientCertificates(t *testing.T) {
	dir := t.TempDir()
	ca, cert, key := filepath.Join(dir, "ca"), filepath.Join(dir, "cert"), filepath.Join(dir, "key")
	trusted := newAuthority(t)
	srv, _, seen := secured(t, trusted)
	put(t, ca, toPEM("CERTIFICATE", srv.Certificate().Raw))
	trusted.issue(t, "first", cert, key)
	o := options(newServer(t))
	o.URL = strings.Replace(srv.URL, "https://", "couchdbs://reader:first@", 1) + "/db"
	o.TLSFiles = couchdb.TLSFiles{CA: ca, Cert: cert, Key: key}
	src := open(t, o)
	b := next(t, src, "", changes.Limit{})
	if ids(b) != "a" || seen.Load() != "first" {
		t.Errorf("got %q of %v", ids(b), seen.Load())
	}
	// A new certificate is taken for the next connection.
	trusted.issue(t, "second", cert, key)
	srv.CloseClientConnections()
	next(t, src, b.Last, changes.Limit{})
	if seen.Load() != "second" {
		t.Errorf("the server saw %v", seen.Load())
	}
	// One that the server does not trust is not waited for.
	newAuthority(t).issue(t, "stranger", cert, key)
	srv.CloseClientConnections()
	if _, err := tryNext(src, b.Last, changes.Limit{}); !errors.Is(err, changes.ErrUnauthorized) || !strings.Contains(err.Error(), "source.tls.cert") {
		t.Errorf("got %v", err)
	}
}

func TestServerName(t *testing.T) {
	s := &server{t: t, born: "1"}
	s.Server = httptest.NewTLSServer(s)
	t.Cleanup(s.Close)
	ca := filepath.Join(t.TempDir(), "ca")
	put(t, ca, toPEM("CERTIFICATE", s.Certificate().Raw))
	for name, c := range map[string]struct {
		files  couchdb.TLSFiles
		works  bool
		warned int
	}{
		"the CA file":         {couchdb.TLSFiles{CA: ca}, true, 0},
		"its other name":      {couchdb.TLSFiles{CA: ca, ServerName: "example.com"}, true, 0},
		"another's name":      {couchdb.TLSFiles{CA: ca, ServerName: "example.org"}, false, 0},
		"the system's CAs":    {couchdb.TLSFiles{ServerName: "example.com"}, false, 0},
		"no verifying at all": {couchdb.TLSFiles{InsecureSkipVerify: true}, true, 1},
	} {
		o := options(s)
		o.TLSFiles = c.files
		warned := 0
		o.Events.Warned = func(string) { warned++ }
		_, err := open(t, o).Identify(t.Context())
		var untrusted *tls.CertificateVerificationError
		if c.works != (err == nil) || !c.works && !errors.As(err, &untrusted) || warned != c.warned {
			t.Errorf("%s: %v, %d warnings", name, err, warned)
		}
	}
}

func TestTLSFilesRefuse(t *testing.T) {
	dir := t.TempDir()
	none, junk := filepath.Join(dir, "none"), filepath.Join(dir, "junk")
	put(t, junk, "junk")
	for name, o := range map[string]couchdb.Options{
		"no TLS":                {URL: "http://h/db", TLSFiles: couchdb.TLSFiles{InsecureSkipVerify: true}},
		"a transport":           {URL: "https://h/db", TLSFiles: couchdb.TLSFiles{ServerName: "x"}, Transport: through(nil)},
		"a CA that is not":      {URL: "https://h/db", TLSFiles: couchdb.TLSFiles{CA: none}},
		"a CA without PEM":      {URL: "https://h/db", TLSFiles: couchdb.TLSFiles{CA: junk}},
		"no key":                {URL: "https://h/db", TLSFiles: couchdb.TLSFiles{Cert: junk}},
		"no certificate":        {URL: "https://h/db", TLSFiles: couchdb.TLSFiles{Key: junk}},
		"a junk certificate":    {URL: "https://h/db", TLSFiles: couchdb.TLSFiles{Cert: junk, Key: junk}},
		"a missing certificate": {URL: "https://h/db", TLSFiles: couchdb.TLSFiles{Cert: none, Key: none}},
	} {
		if _, err := couchdb.Open(t.Context(), o); !errors.Is(err, couchdb.ErrOptions) {
			t.Errorf("%s: got %v", name, err)
		}
	}
}
