package couchdb_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/couch2hudi/couch2hudi/changes"
	"github.com/couch2hudi/couch2hudi/changes/couchdb"
	"github.com/couch2hudi/couch2hudi/internal/couchfake"
)

func TestServer(t *testing.T) {
	fake, err := couchfake.Start(couchfake.Options{Admins: map[string]string{"admin": "s3cret"}, Users: map[string]string{"ann": "pw"}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = fake.Close() }()
	ctx := t.Context()
	open := func(user string) *couchdb.Server {
		t.Helper()
		s, err := couchdb.OpenServer(ctx, couchdb.Options{URL: strings.Replace(fake.URL(), "http://", "http://"+user+"@", 1) + "/"})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = s.Close() })
		return s
	}
	s := open("admin:s3cret")
	for _, name := range []string{"user-b", "user-a", "shop/eu"} {
		if _, err := fake.Create(name); err != nil {
			t.Fatal(err)
		}
	}
	names, err := s.Databases(ctx)
	if err != nil || !slices.Equal(names, []string{"shop/eu", "user-a", "user-b"}) {
		t.Fatalf("%q, %v", names, err)
	}
	none, at, err := s.Updates(ctx, "now", time.Millisecond)
	if err != nil || len(none) != 0 || at == "" {
		t.Fatalf("%v, %q, %v", none, at, err)
	}
	go func() {
		db, _ := fake.Database("user-a")
		_, _ = db.Put("x", []byte(`{}`))
	}()
	got, at, err := s.Updates(ctx, at, time.Minute)
	if err != nil || !slices.Equal(got, []string{"user-a"}) {
		t.Fatalf("%v, %v", got, err)
	}
	if err := fake.Drop("user-b"); err != nil {
		t.Fatal(err)
	}
	if got, _, err = s.Updates(ctx, at, time.Minute); err != nil || !slices.Equal(got, []string{"user-b"}) {
		t.Fatalf("%v, %v", got, err)
	}
	ann := open("ann:pw")
	if _, err := ann.Databases(ctx); !errors.Is(err, changes.ErrUnauthorized) || strings.Contains(err.Error(), "pw") {
		t.Errorf("a plain user: %v", err)
	}
	if _, _, err := ann.Updates(ctx, "now", time.Millisecond); !errors.Is(err, changes.ErrUnauthorized) {
		t.Errorf("a plain user: %v", err)
	}
}
