package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/couch2hudi/couch2hudi/internal/couchfake"
)

// ending is a thing that happens to a database while a feed of it is open, and
// that ends the run; what runs after it ends with 0 on a table that is equal.
type ending struct {
	name string
	// auth is the config's; file is where a secret may lie.
	auth func(file string) string
	// happen is what happens at the server, and undo what its operator does.
	happen, undo func(*besieged)
	// more are further lines of the source's config, until its operator takes
	// them out, and flags are those of the last run.
	more  string
	flags []string
	code  int
	words []string
}

// besieged is a database, a config and a table.
type besieged struct {
	t                  *testing.T
	server             *couchfake.Server
	db                 *couchfake.Database
	config, dir, table string
	secret             string
}

func (b *besieged) must(_ any, err error) {
	b.t.Helper()
	if err != nil {
		b.t.Fatal(err)
	}
}

func (b *besieged) write(id string) {
	b.t.Helper()
	b.must(b.db.Put(id, []byte(`{"n":1}`)))
}

// again makes another database of the same name.
func (b *besieged) again() {
	db, err := b.server.Create("shop")
	b.must(nil, err)
	b.db = db
	db.SetMembers("reader")
	for _, id := range []string{"d001", "d004", "new"} {
		b.write(id)
	}
	b.must(db.Delete("d004"))
}

func password(file string) string { return "{user: reader, password: \"file:" + file + "\"}" }

func endings() []ending {
	const key = "key"
	token := couchfake.SignJWT(key, `{"sub":"reader"}`)
	drop := func(b *besieged) { b.must(nil, b.server.Drop("shop")) }
	return []ending{
		{name: "revoked access", auth: password, code: exitFailed, words: []string{"403", "_security"},
			happen: func(b *besieged) { b.db.Revoke("reader") },
			undo:   func(b *besieged) { b.db.SetMembers("reader") }},
		{name: "secret that nobody told us", auth: password, code: exitFailed, words: []string{"401", "check the user and password"},
			happen: func(b *besieged) { b.server.SetPassword("reader", "second") },
			undo:   func(b *besieged) { b.must(nil, os.WriteFile(b.secret, []byte("second\n"), 0o600)) }},
		{name: "session that cannot begin again", code: exitFailed, words: []string{"check the user and password"},
			auth: func(file string) string {
				return "{kind: cookie, user: reader, password_file: \"" + file + "\"}"
			},
			happen: func(b *besieged) { b.server.SetPassword("reader", "second") },
			undo:   func(b *besieged) { b.must(nil, os.WriteFile(b.secret, []byte("second\n"), 0o600)) }},
		// The database is open to all, so the rows would go on coming.
		{name: "taken for anybody", code: exitFailed, words: []string{"anybody's", "jwt_authentication_handler"},
			auth: func(string) string { return "{kind: jwt, token: \"" + token + "\"}" },
			happen: func(b *besieged) {
				b.db.SetMembers()
				b.server.SetHeaderAuth(couchfake.HeaderAuth{})
			},
			undo: func(b *besieged) { b.server.SetHeaderAuth(couchfake.HeaderAuth{JWTKey: key}) }},
		{name: "deleted, then created again", auth: password, code: exitFailed, words: []string{"404", "curl -X PUT"},
			happen: drop, flags: []string{"--accept-recreated"},
			undo: func(b *besieged) {
				b.again()
				want(b.t, exitRecreated, []string{"created", "--accept-recreated"}, "run", "-c", b.config, "--once")
			}},
		{name: "deleted and created again at once", auth: password, code: exitRecreated, words: []string{"--accept-recreated"},
			happen: func(b *besieged) { drop(b); b.again() }, flags: []string{"--accept-recreated"}},
		{name: "row larger than we take", auth: password, more: "  max_row_bytes: 1MiB\n", code: exitFailed, words: []string{"max_row_bytes", "large"},
			happen: func(b *besieged) {
				b.must(b.db.Put("large", []byte(`{"text":"`+strings.Repeat("x", 7_900_000)+`"}`)))
			}},
	}
}

// TestEndings: what a run cannot survive ends it with the documented code and
// the next step, while a feed is open; after that step the table is equal.
func TestEndings(t *testing.T) {
	for _, e := range endings() {
		t.Run(e.name, func(t *testing.T) { e.test(t) })
	}
}

func (e *ending) test(t *testing.T) {
	server, db, url := shop(t, couchfake.Options{Admins: map[string]string{"admin": "top"}, Users: map[string]string{"reader": "first"},
		HeaderAuth: couchfake.HeaderAuth{JWTKey: "key"}}, 20)
	dir := t.TempDir()
	b := &besieged{t: t, server: server, db: db, dir: dir, config: filepath.Join(dir, "c.yaml"), table: filepath.Join(dir, "table"), secret: filepath.Join(dir, "secret")}
	db.SetMembers("reader")
	b.must(nil, os.WriteFile(b.secret, []byte("first\n"), 0o600))
	b.configure(url, e.auth(b.secret), e.more)
	// The feed is open and brings a row, then it happens, then the feed breaks off.
	order := server.Control(couchfake.Match{Endpoint: couchfake.Changes, Feed: "continuous"},
		couchfake.Spoil{Rows: 1, Call: func() { e.happen(b) }, Cut: true}, 1)
	type end struct {
		code int
		errs string
	}
	ended := make(chan end, 1)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() {
		code, _, errs := callCtx(ctx, "run", "-c", b.config, "--commit-interval", "100ms")
		ended <- end{code, errs}
	}()
	waitFor(t, "the open feed", func() bool { return order.Taken() == 1 || len(ended) > 0 })
	b.write("d003")
	got := <-ended
	if order.Fired() != 1 {
		t.Fatalf("it never happened: %+v", got)
	}
	if got.code != e.code {
		t.Fatalf("exit %d, want %d\n%s", got.code, e.code, got.errs)
	}
	for _, w := range e.words {
		if !strings.Contains(got.errs, w) {
			t.Errorf("no %q in\n%s", w, got.errs)
		}
	}
	count := []string{"query", "--table", b.table, "--count", "--include-deleted"}
	before := want(t, exitDone, nil, count...)
	want(t, e.code, nil, "run", "-c", b.config, "--once")
	if after := want(t, exitDone, nil, count...); after != before {
		t.Errorf("a refused run changed the table: %s rows, then %s", before, after)
	}
	if e.undo != nil {
		e.undo(b)
	}
	b.configure(url, e.auth(b.secret), "")
	want(t, exitDone, nil, append([]string{"run", "-c", b.config, "--once"}, e.flags...)...)
	b.equal(len(e.flags) > 0)
	if _, err := b.db.Delete("d001"); err != nil {
		t.Fatal(err)
	}
	b.write("last")
	want(t, exitDone, nil, "run", "-c", b.config, "--once")
	b.equal(len(e.flags) > 0)
}

func (b *besieged) configure(url, auth, more string) {
	b.t.Helper()
	text := fmt.Sprintf("source:\n  url: %s\n  auth: %s\n%stable:\n  url: %s\n", url, auth, more, b.table)
	b.must(nil, os.WriteFile(b.config, []byte(text), 0o600))
}

// equal compares what query prints with the database. Of another database than
// the first, the table also remembers what is no more.
func (b *besieged) equal(another bool) {
	b.t.Helper()
	type state struct {
		rev, doc string
		deleted  bool
	}
	got := map[string]state{}
	out := want(b.t, exitDone, nil, "query", "--table", b.table, "--include-deleted", "--format", "jsonl", "--columns", "_id,_rev,_deleted,_doc")
	for line := range strings.Lines(out) {
		var r struct {
			ID      string `json:"_id"`
			Rev     string `json:"_rev"`
			Doc     string `json:"_doc"`
			Deleted bool   `json:"_deleted"`
		}
		b.must(nil, json.Unmarshal([]byte(line), &r))
		got[r.ID] = state{r.Rev, r.Doc, r.Deleted}
	}
	for d := range b.db.Docs() {
		want := state{d.Winner().Rev.String(), string(d.Winner().Body), d.Deleted()}
		if got[d.ID] != want {
			b.t.Errorf("%s: got %.200v, want %.200v", d.ID, got[d.ID], want)
		}
		delete(got, d.ID)
	}
	for id, s := range got {
		if !another || !s.deleted {
			b.t.Errorf("%s should not be there: %.200v", id, s)
		}
	}
}
