package couchdb_test

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/couch2hudi/couch2hudi/changes"
	"github.com/couch2hudi/couch2hudi/changes/couchdb"
	"github.com/couch2hudi/couch2hudi/internal/couchfake"
)

// guarded is a database that "reader" alone may see besides the admin.
func guarded(t *testing.T, a couchfake.HeaderAuth) (*couchfake.Server, *couchfake.Database) {
	t.Helper()
	s, err := couchfake.Start(couchfake.Options{
		Admins: map[string]string{"admin": "top"}, Users: map[string]string{"reader": "first"}, HeaderAuth: a,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	db, err := s.Create("db")
	if err != nil {
		t.Fatal(err)
	}
	db.SetMembers("reader")
	write(t, db, "a")
	return s, db
}

func write(t *testing.T, db *couchfake.Database, id string) {
	t.Helper()
	if _, err := db.Put(id, []byte(`{}`)); err != nil {
		t.Fatal(err)
	}
}

// quick are options for a guarded server.
func quick(t *testing.T, s *couchfake.Server) couchdb.Options {
	o := options(newServer(t))
	o.URL = s.URL() + "/db"
	return o
}

func put(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func jwt(key string) string { return couchfake.SignJWT(key, `{"sub":"reader"}`) }

func TestKinds(t *testing.T) {
	s, _ := guarded(t, couchfake.HeaderAuth{ProxySecret: "shared", JWTKey: "key"})
	token := filepath.Join(t.TempDir(), "token")
	put(t, token, jwt("key")+"\n")
	for name, c := range map[string]struct {
		change func(o *couchdb.Options)
		hint   string // of the refusal; empty when there is none
	}{
		"basic":        {func(o *couchdb.Options) { o.User, o.Password = "reader", "first" }, ""},
		"cookie":       {func(o *couchdb.Options) { o.User, o.Password, o.Auth = "reader", "first", couchdb.AuthCookie }, ""},
		"proxy, SHA-1": {func(o *couchdb.Options) { o.User, o.Secret, o.Auth = "reader", "shared", couchdb.AuthProxy }, ""},
		"proxy, by role": {func(o *couchdb.Options) {
			o.User, o.Secret, o.Auth, o.Roles = "nobody", "shared", couchdb.AuthProxy, []string{"x", "_admin"}
		}, ""},
		"proxy, SHA-256": {func(o *couchdb.Options) {
			o.User, o.Secret, o.Auth, o.ProxyHash = "reader", "shared", couchdb.AuthProxy, couchdb.HashSHA256
		}, ""},
		"proxy, wrong secret": {func(o *couchdb.Options) { o.User, o.Secret, o.Auth = "reader", "x", couchdb.AuthProxy }, "source.auth.secret must be"},
		"proxy, no secret":    {func(o *couchdb.Options) { o.User, o.Auth = "reader", couchdb.AuthProxy }, "source.auth.secret must be"},
		"jwt":                 {func(o *couchdb.Options) { o.Token, o.Auth = jwt("key"), couchdb.AuthJWT }, ""},
		"jwt, from a file":    {func(o *couchdb.Options) { o.TokenFile, o.Auth = token, couchdb.AuthJWT }, ""},
		"jwt, wrong key":      {func(o *couchdb.Options) { o.Token, o.Auth = jwt("x"), couchdb.AuthJWT }, "check the token"},
		"jwt, expired": {func(o *couchdb.Options) {
			o.Token, o.Auth = couchfake.SignJWT("key", `{"sub":"reader","exp":1}`), couchdb.AuthJWT
		}, "check the token"},
		"iam": {func(o *couchdb.Options) { o.TokenFile, o.Auth = token, couchdb.AuthIAM }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			o := quick(t, s)
			c.change(&o)
			b, err := tryNext(open(t, o), "", changes.Limit{})
			switch {
			case c.hint == "" && (err != nil || ids(b) != "a"):
				t.Errorf("got %q, %v", ids(b), err)
			case c.hint != "" && (!errors.Is(err, changes.ErrUnauthorized) || !strings.Contains(err.Error(), c.hint)):
				t.Errorf("got %v", err)
			}
			if err != nil && (strings.Contains(err.Error(), "shared") || strings.Contains(err.Error(), jwt("x"))) {
				t.Errorf("a secret is told: %v", err)
			}
		})
	}
}

func TestKindsRefuse(t *testing.T) {
	none := filepath.Join(t.TempDir(), "none")
	empty := filepath.Join(t.TempDir(), "empty")
	put(t, empty, "\n")
	for name, o := range map[string]couchdb.Options{
		"cookie without a user": {Auth: couchdb.AuthCookie},
		"proxy without a user":  {Auth: couchdb.AuthProxy, Secret: "x"},
		"jwt without a token":   {Auth: couchdb.AuthJWT, User: "u"},
		"iam without its file":  {Auth: couchdb.AuthIAM, TokenFile: none},
		"iam with an empty one": {Auth: couchdb.AuthIAM, TokenFile: empty},
		"two lines of a token":  {Auth: couchdb.AuthJWT, Token: "a\r\nX-Evil: b"},
		"two lines of a user":   {Auth: couchdb.AuthProxy, User: "a\nb"},
		"a comma in a role":     {Auth: couchdb.AuthProxy, User: "a", Roles: []string{"a,_admin"}},
		"an unknown hash":       {Auth: couchdb.AuthProxy, User: "a", ProxyHash: "md5"},
	} {
		o.URL = "http://host/db"
		if _, err := couchdb.Open(t.Context(), o); err == nil || strings.Contains(err.Error(), "Evil") {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

// TestPublicDatabase: the rows are to be had, but not as whom we said we are.
func TestPublicDatabase(t *testing.T) {
	nobody := text(`{"ok":true,"userCtx":{"name":null,"roles":[]}}`)
	for name, c := range map[string]struct {
		who     http.HandlerFunc
		auth    couchdb.Auth
		refused bool
		warned  int32
	}{
		"known":              {text(`{"userCtx":{"name":"reader","roles":[]}}`), couchdb.AuthBasic, false, 0},
		"nobody":             {nobody, couchdb.AuthBasic, true, 0},
		"nobody by cookie":   {nobody, couchdb.AuthCookie, true, 0},
		"nobody by proxy":    {nobody, couchdb.AuthProxy, true, 0},
		"nobody by token":    {nobody, couchdb.AuthJWT, true, 0},
		"nobody by IAM":      {nobody, couchdb.AuthIAM, false, 1},
		"an admin party":     {text(`{"userCtx":{"name":null,"roles":["_admin"]}}`), couchdb.AuthBasic, false, 0},
		"a gateway's page":   {text(`<html>hello</html>`), couchdb.AuthBasic, false, 0},
		"a gateway's 404":    {fail(404, "not_found", "x"), couchdb.AuthBasic, false, 0},
		"a gateway's 403":    {fail(403, "forbidden", "x"), couchdb.AuthBasic, false, 0},
		"a malformed header": {fail(400, "bad_request", "Malformed token"), couchdb.AuthJWT, true, 0},
		"a refusal":          {fail(401, "unauthorized", "no"), couchdb.AuthBasic, true, 0},
	} {
		t.Run(name, func(t *testing.T) {
			s := newServer(t, normal("1-a", 0, row("1-a", "a", "1-a")))
			s.who = c.who
			o := options(s)
			o.User, o.Password, o.Token, o.Auth = "reader", "", jwt("x"), c.auth
			var warned atomic.Int32
			o.Events.Warned = func(string) { warned.Add(1) }
			src := open(t, o)
			b, err := tryNext(src, "", changes.Limit{})
			if c.refused {
				if !errors.Is(err, changes.ErrUnauthorized) {
					t.Errorf("got %q, %v", ids(b), err)
				}
				if _, err := src.Identify(t.Context()); !errors.Is(err, changes.ErrUnauthorized) {
					t.Errorf("identify: %v", err)
				}
				return
			}
			if err != nil || ids(b) != "a" || warned.Load() != c.warned {
				t.Errorf("got %q, %v, %d warnings", ids(b), err, warned.Load())
			}
		})
	}
}

// TestBusySession: that the server is busy with the question says nothing.
func TestBusySession(t *testing.T) {
	s := newServer(t, normal("1-a", 0, row("1-a", "a", "1-a")))
	asked := 0
	s.who = func(w http.ResponseWriter, r *http.Request) {
		if asked++; asked < 3 {
			fail(503, "busy", "x")(w, r)
			return
		}
		text(`{"userCtx":{"name":"reader","roles":[]}}`)(w, r)
	}
	o := options(s)
	o.User = "reader"
	if b := next(t, open(t, o), "", changes.Limit{}); ids(b) != "a" || asked != 3 {
		t.Errorf("got %q, asked %d times", ids(b), asked)
	}
}

// TestExpiredCookieOfAPublicDatabase: the feed would go on as anybody's.
func TestExpiredCookieOfAPublicDatabase(t *testing.T) {
	s, db := guarded(t, couchfake.HeaderAuth{})
	db.SetMembers()
	o := quick(t, s)
	o.User, o.Password, o.Auth = "reader", "first", couchdb.AuthCookie
	var again atomic.Int32
	o.Events.LoggedIn = func() { again.Add(1) }
	src := open(t, o)
	b := next(t, src, "", untilRows)
	s.ExpireSessions()
	write(t, db, "b")
	if b = next(t, src, b.Last, changes.Limit{}); ids(b) != "b" || again.Load() != 0 {
		t.Fatalf("got %q, %d log-ins", ids(b), again.Load())
	}
	next(t, src, b.Last, aMoment) // opens a live feed
	if again.Load() != 1 {
		t.Errorf("%d log-ins", again.Load())
	}
	s.SetPassword("reader", "second")
	next(t, src, b.Last, changes.Limit{}) // ends the live feed
	if _, err := tryNext(src, b.Last, aMoment); !errors.Is(err, changes.ErrUnauthorized) {
		t.Errorf("got %v", err)
	}
}

// TestRotationWhileFollowing: the secret changes at the server and in the file
// while a live feed is open; no row is lost.
func TestRotationWhileFollowing(t *testing.T) {
	for name, c := range map[string]struct {
		auth   couchdb.Auth
		first  string
		second string
		rotate func(s *couchfake.Server)
	}{
		"basic":  {couchdb.AuthBasic, "first", "second", func(s *couchfake.Server) { s.SetPassword("reader", "second") }},
		"cookie": {couchdb.AuthCookie, "first", "second", func(s *couchfake.Server) { s.SetPassword("reader", "second") }},
		"jwt": {couchdb.AuthJWT, jwt("key"), jwt("other"), func(s *couchfake.Server) {
			s.SetHeaderAuth(couchfake.HeaderAuth{JWTKey: "other"})
		}},
		"iam": {couchdb.AuthIAM, jwt("key"), jwt("other"), func(s *couchfake.Server) {
			s.SetHeaderAuth(couchfake.HeaderAuth{JWTKey: "other"})
		}},
	} {
		t.Run(name, func(t *testing.T) {
			s, db := guarded(t, couchfake.HeaderAuth{JWTKey: "key"})
			file := filepath.Join(t.TempDir(), "secret")
			put(t, file, c.first)
			o := quick(t, s)
			o.Auth = c.auth
			if c.auth == couchdb.AuthBasic || c.auth == couchdb.AuthCookie {
				o.User, o.PasswordFile = "reader", file
			} else {
				o.TokenFile = file
			}
			src := open(t, o)
			b := next(t, src, "", untilRows)
			next(t, src, b.Last, aMoment)
			c.rotate(s)
			put(t, file, c.second)
			write(t, db, "b")
			if b = next(t, src, b.Last, untilRows); ids(b) != "b" { // still by the open feed
				t.Fatalf("got %q", ids(b))
			}
			write(t, db, "c")
			if b = next(t, src, b.Last, changes.Limit{}); ids(b) != "c" {
				t.Fatalf("got %q", ids(b))
			}
			put(t, file, c.first)
			if _, err := tryNext(src, b.Last, changes.Limit{}); c.auth != couchdb.AuthBasic && c.auth != couchdb.AuthCookie &&
				!errors.Is(err, changes.ErrUnauthorized) {
				t.Errorf("with the old token: %v", err)
			}
			// Whatever keeps the file may be in the middle of it: then the last one holds.
			put(t, file, c.second)
			next(t, src, b.Last, changes.Limit{})
			put(t, file, "")
			next(t, src, b.Last, changes.Limit{})
		})
	}
}

// TestRevokedAccess: the open feed goes on, the next request is refused.
func TestRevokedAccess(t *testing.T) {
	s, db := guarded(t, couchfake.HeaderAuth{})
	o := quick(t, s)
	o.User, o.Password = "reader", "first"
	src := open(t, o)
	b := next(t, src, "", untilRows)
	next(t, src, b.Last, aMoment)
	db.Revoke("reader")
	write(t, db, "b")
	if b = next(t, src, b.Last, untilRows); ids(b) != "b" {
		t.Fatalf("got %q", ids(b))
	}
	_, err := tryNext(src, b.Last, changes.Limit{})
	var e *couchdb.Error
	if !errors.Is(err, changes.ErrUnauthorized) || !errors.As(err, &e) || e.Status != http.StatusForbidden || !strings.Contains(e.Hint, "_security") {
		t.Errorf("got %v", err)
	}
}

// TestPurgesOfAnotherDatabase: a list of the new one's purges would delete the
// old one's documents.
func TestPurgesOfAnotherDatabase(t *testing.T) {
	s := newServer(t)
	infos := text(`{"purged_infos":[{"id":"a","revs":["1-a"]}]}`)
	s.docs["_purged_infos"] = infos
	src := open(t, options(s))
	if ids, seq, err := src.Purged(t.Context(), ""); err != nil || fmt.Sprint(ids) != "[a]" || seq != "3-p" {
		t.Fatalf("got %q, %q, %v", ids, seq, err)
	}
	s.docs["_purged_infos"] = func(w http.ResponseWriter, r *http.Request) {
		s.set(func() { s.born = "1795999392" }) // between the two requests
		infos(w, r)
	}
	for range 2 {
		if ids, _, err := src.Purged(t.Context(), "2-p"); !errors.Is(err, changes.ErrRecreated) || len(ids) > 0 {
			t.Errorf("got %q, %v", ids, err)
		}
	}
	// Nor does a sequence that happens to be the same hide it.
	if _, _, err := src.Purged(t.Context(), "3-p"); !errors.Is(err, changes.ErrRecreated) {
		t.Errorf("got %v", err)
	}
}

// TestNoSecretOfAnyKindIsTold prints options and errors of the kinds with a token.
func TestNoSecretOfAnyKindIsTold(t *testing.T) {
	const hidden = "hunter2"
	c := couchdb.Credentials{User: "u", Password: hidden, Secret: hidden, Token: hidden}
	told := []string{fmt.Sprintf("%v %+v %#v %s %+v", c, c, c, c, []any{c, &c})}
	for _, auth := range []couchdb.Auth{couchdb.AuthProxy, couchdb.AuthJWT, couchdb.AuthIAM} {
		s := newServer(t)
		s.password = "another"
		o := options(s)
		o.Auth, o.User, o.Secret, o.Token = auth, "u", hidden, hidden
		src := open(t, o)
		_, err := tryNext(src, "", changes.Limit{})
		told = append(told, fmt.Sprintf("%v %+v %#v %v %v", o, o, o, src, err))
		if err == nil {
			t.Error("no error")
		}
	}
	if all := strings.Join(told, "\n"); strings.Contains(all, hidden) {
		t.Error(all)
	}
}

// aMoment is long enough for a live feed to open, and ends without rows.
var aMoment = changes.Limit{Idle: 200 * time.Millisecond}
