package couchdb_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/couch2hudi/couch2hudi/changes"
	"github.com/couch2hudi/couch2hudi/changes/couchdb"
)

const secret = "hunter2/&?#"

func TestAuthentication(t *testing.T) {
	file := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(file, []byte(secret+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(o *couchdb.Options){
		"from the URL": func(o *couchdb.Options) {
			o.URL = strings.Replace(o.URL, "http://", "couchdb://reader:hunter2%2F%26%3F%23@", 1)
		},
		"from fields": func(o *couchdb.Options) { o.User, o.Password = "reader", secret },
		"from a file": func(o *couchdb.Options) { o.User, o.PasswordFile = "reader", file },
		"from a func": func(o *couchdb.Options) { o.Credentials = given("reader", secret) },
		"by cookie":   func(o *couchdb.Options) { o.User, o.Password, o.Auth = "reader", secret, couchdb.AuthCookie },
		"field over URL": func(o *couchdb.Options) {
			o.URL = strings.Replace(o.URL, "http://", "http://reader:wrong@", 1)
			o.Password = secret
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newServer(t, normal("1-a", 0, row("1-a", "a", "1-a")))
			s.password = secret
			o := options(s)
			change(&o)
			src := open(t, o)
			if id, err := src.Identify(t.Context()); err != nil || id.Name != "db" {
				t.Errorf("identify: %+v, %v", id, err)
			}
			if b := next(t, src, "", changes.Limit{}); ids(b) != "a" {
				t.Errorf("got %q", ids(b))
			}
			if want := map[bool]int{true: 1, false: 0}[o.Auth == couchdb.AuthCookie]; s.logins != want {
				t.Errorf("%d log-ins, want %d", s.logins, want)
			}
		})
	}
}

func given(user, password string) func(context.Context) (couchdb.Credentials, error) {
	return func(context.Context) (couchdb.Credentials, error) {
		return couchdb.Credentials{User: user, Password: password}, nil
	}
}

// TestExpiredSession: the server forgets a session at any moment.
func TestExpiredSession(t *testing.T) {
	s := newServer(t)
	s.password = secret
	o := options(s)
	o.User, o.Password, o.Auth = "reader", secret, couchdb.AuthCookie
	loggedIn := 0
	o.Events.LoggedIn = func() { loggedIn++ }
	src := open(t, o)
	for i := range 3 {
		s.set(func() {
			s.script = append(s.script, normal("1-a", 0, row("1-a", fmt.Sprint("a", i), "1-a")))
			s.cookie = "expired"
		})
		if b := next(t, src, "", changes.Limit{}); len(b.Changes) != 1 {
			t.Fatalf("got %q", ids(b))
		}
	}
	if s.logins != 3 || loggedIn != 2 { // the first log-in is no second one
		t.Errorf("%d log-ins at the server, %d told", s.logins, loggedIn)
	}
}

// TestRotatedSecret: the file is read again when the server refuses.
func TestRotatedSecret(t *testing.T) {
	for _, auth := range []couchdb.Auth{couchdb.AuthBasic, couchdb.AuthCookie} {
		t.Run(string(auth), func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "password")
			write := func(p string) {
				if err := os.WriteFile(file, []byte(p), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			write("first")
			s := newServer(t)
			s.password = "first"
			o := options(s)
			o.User, o.PasswordFile, o.Auth = "reader", file, auth
			src := open(t, o)
			next(t, src, "", changes.Limit{})
			s.set(func() { s.password, s.cookie = "second", "" })
			write("second\r\n")
			next(t, src, "", changes.Limit{})
			s.set(func() { s.password, s.cookie = "third", "" })
			if _, err := tryNext(src, "", changes.Limit{}); !errors.Is(err, changes.ErrUnauthorized) {
				t.Errorf("got %v", err)
			}
			write("third")
			next(t, src, "", changes.Limit{})
		})
	}
}

// TestNoSecretIsTold looks for the password in everything that is printed.
func TestNoSecretIsTold(t *testing.T) {
	var told []string
	tell := func(v ...any) { told = append(told, fmt.Sprintf("%v %+v %#v %s", v, v, v, v)) }
	for _, auth := range []couchdb.Auth{couchdb.AuthBasic, couchdb.AuthCookie} {
		s := newServer(t, fail(503, "busy", "x"), fail(502, "x", "y"), cutOff(""))
		s.password = "another"
		for _, o := range []couchdb.Options{
			{URL: strings.Replace(s.URL, "://", "://reader:hunter2@", 1) + "/db"},
			{URL: s.URL + "/db", User: "reader", Password: "hunter2"},
			{URL: "http://reader:hunter2@127.0.0.1:1/db"},
			{URL: "http://reader:hunter2@no.such.host.invalid/db"},
		} {
			o.Auth = auth
			o.Events.Retried = func(r couchdb.Retried) { tell(r.Err) }
			tell(o)
			src := open(t, o)
			tell(src.String(), fmt.Sprintf("%v %+v", src, src))
			ctx, cancel := context.WithTimeout(t.Context(), 50e6)
			_, err := src.Next(ctx, "", changes.Limit{})
			cancel()
			if err == nil {
				t.Error("no error")
			}
			tell(err)
			ctx, cancel = context.WithTimeout(t.Context(), 50e6)
			_, err = src.Identify(ctx)
			cancel()
			tell(err)
		}
	}
	for _, url := range []string{
		"couchdb://reader:hunter2#@host/db", "couchdb://reader:hunter2%zz@host/db", "couchdb://reader:hunter2@host", "ftp://reader:hunter2@host/db",
		"http://reader:hunter2@/db", "http://reader:hunter2@host:port/db", "http://reader:hunter2@host/db?x=hunter2", "http://reader:hunter2@host/a:b", "\x7f://hunter2",
	} {
		_, err := couchdb.Open(t.Context(), couchdb.Options{URL: url})
		if !errors.Is(err, couchdb.ErrOptions) {
			t.Errorf("%q: got %v", url, err)
		}
		tell(err, couchdb.Options{URL: url})
	}
	for _, text := range told {
		if strings.Contains(text, "hunter2") || strings.Contains(text, "cmVhZGVyOmh1bnRlcjI") {
			t.Errorf("a password is told: %s", text)
		}
	}
}

func TestOpenRefuses(t *testing.T) {
	const url = "http://host/db"
	for name, o := range map[string]couchdb.Options{
		"no URL":        {},
		"auth":          {URL: url, Auth: "digest"},
		"heartbeat":     {URL: url, Heartbeat: 1},
		"timeout":       {URL: url, Timeout: -1},
		"batch rows":    {URL: url, BatchRows: -1},
		"seq interval":  {URL: url, SeqInterval: -1},
		"row bytes":     {URL: url, MaxRowBytes: -1},
		"password file": {URL: url, User: "a", PasswordFile: filepath.Join(t.TempDir(), "none")},
		"credentials": {URL: url, Credentials: func(context.Context) (couchdb.Credentials, error) {
			return couchdb.Credentials{}, errors.New("vault is sealed")
		}},
		"no database":    {URL: "http://host/"},
		"scheme alone":   {URL: "couchdb://"},
		"bare host:port": {URL: "host:5984/db"},
	} {
		if _, err := couchdb.Open(t.Context(), o); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// TestPaths: names with special characters, with and without a path prefix,
// reach the server escaped as CouchDB wants them, in every kind of request.
func TestPaths(t *testing.T) {
	for in, want := range map[string]string{
		"/db":                "/db",
		"/a%2Fb":             "/a%2Fb",
		"/a%2Bb":             "/a%2Bb",
		"/a+b":               "/a%2Bb",
		"/db/":               "/db",
		"/couch/a%2Fb%2B":    "/couch/a%2Fb%2B",
		"/couch/couch":       "/couch/couch",
		"/my%20proxy/a%2Fb/": "/my%20proxy/a%2Fb",
	} {
		t.Run(in, func(t *testing.T) {
			seen := map[string]bool{}
			o := couchdb.Options{URL: "http://u:p@host.invalid" + in, Auth: couchdb.AuthCookie, Transport: through(func(r *http.Request) (*http.Response, error) {
				path := r.URL.EscapedPath()
				seen[path] = true
				prefix := want[:strings.LastIndex(want, "/")]
				switch path {
				case prefix + "/_session":
					return response(r, `{"ok":true}`, "AuthSession=x; Path=/"), nil
				case want:
					return response(r, `{"db_name":"x","instance_start_time":"1"}`), nil
				case want + "/_changes":
					return response(r, normalBody("1-a", 0, `{"seq":"1-a","id":"i+/d","changes":[{"rev":"1-a"}]}`)), nil
				case want + "/i%2B%2Fd":
					return response(r, `{"_id":"i+/d","_rev":"1-a"}`), nil
				}
				return failed(r, http.StatusTeapot, "unexpected path "+path), nil
			})}
			o.Events.Retried = func(r couchdb.Retried) { t.Error(r.Err) }
			b, err := tryNext(open(t, o), "", changes.Limit{Rows: 1})
			if err != nil || ids(b) != "i+/d" || b.Changes[0].Body == nil || len(seen) != 4 {
				t.Errorf("got %+v, %v; paths %v", b, err, seen)
			}
		})
	}
}
