package main

import (
	"testing"
	"time"

	"github.com/couch2hudi/couch2hudi/changes/couchdb"
	"github.com/couch2hudi/couch2hudi/config"
)

// The fields of the config reach the driver.
func TestSourceOptions(t *testing.T) {
	c, err := config.Parse([]byte(`source:
  url: couchdbs://h/db
  seq_interval: 50
  max_row_bytes: 1MiB
  timeout: 20s
  auth: {kind: proxy, user: ann, secret: s, hash: sha256, roles: [a, b]}
  tls: {ca: ca.pem, cert: cert.pem, key: key.pem, server_name: couch}
`))
	if err != nil {
		t.Fatal(err)
	}
	o := sourceOptions(c)
	if o.SeqInterval != 50 || o.MaxRowBytes != 1<<20 || o.Timeout != 20*time.Second || o.Auth != couchdb.AuthProxy || o.ProxyHash != couchdb.HashSHA256 || len(o.Roles) != 2 {
		t.Errorf("%+v", []any{o.SeqInterval, o.MaxRowBytes, o.Timeout, o.Auth, o.ProxyHash, o.Roles})
	}
	if want := (couchdb.TLSFiles{CA: "ca.pem", Cert: "cert.pem", Key: "key.pem", ServerName: "couch"}); o.TLSFiles != want {
		t.Errorf("%+v", o.TLSFiles)
	}
	c.Columns.Seq = true
	if o := sourceOptions(c); o.SeqInterval != 1 {
		t.Errorf("with columns.seq, a sequence on each %d. row", o.SeqInterval)
	}
}

// The environment wins over source.auth, and source.auth over the URL; each is
// read anew.
func TestCredentials(t *testing.T) {
	t.Setenv("COUCH2HUDI_USER", "")
	t.Setenv("TEST_PASSWORD", "old")
	c, err := config.Parse([]byte("source:\n  url: couchdb://u:p@h/db\n  auth: {password: \"${TEST_PASSWORD}\", password_file: f}\n"))
	if err != nil {
		t.Fatal(err)
	}
	ask := credentials(c.Source)
	check := func(user, password string) {
		t.Helper()
		got, err := ask(t.Context())
		if err != nil || got.User != user || got.Password != password {
			t.Errorf("%s with %q, %v", got.User, got.Password, err)
		}
	}
	check("u", "old")
	t.Setenv("TEST_PASSWORD", "new")
	check("u", "new")
	if o := sourceOptions(c); o.PasswordFile != "f" {
		t.Error("the password file is lost")
	}
	t.Setenv("COUCH2HUDI_USER", "env")
	t.Setenv("COUCH2HUDI_PASSWORD", "secret")
	check("env", "secret")
	if o := sourceOptions(c); o.PasswordFile != "" {
		t.Error("the config's password file with the environment's user")
	}
}
