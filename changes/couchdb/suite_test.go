package couchdb_test

import (
	"testing"
	"time"

	"github.com/couch2hudi/couch2hudi/changes"
	"github.com/couch2hudi/couch2hudi/changes/changestest"
	"github.com/couch2hudi/couch2hudi/changes/couchdb"
	"github.com/couch2hudi/couch2hudi/internal/couchfake"
)

// world is a database of a fake server.
type world struct {
	server *couchfake.Server
	db     *couchfake.Database
	opts   couchdb.Options
}

func newWorld(t *testing.T, o couchdb.Options) *world {
	t.Helper()
	s, err := couchfake.Start(couchfake.Options{Seed: 7})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	db, err := s.Create("shop/eu+1")
	if err != nil {
		t.Fatal(err)
	}
	o.URL = "couchdb://" + s.URL()[len("http://"):] + "/shop%2Feu%2B1"
	o.Heartbeat = 200 * time.Millisecond
	return &world{server: s, db: db, opts: o}
}

func (w *world) Open(t *testing.T) changes.Source {
	src, err := couchdb.Open(t.Context(), w.opts)
	if err != nil {
		t.Fatal(err)
	}
	return src
}

func (w *world) Put(t *testing.T, id, body string) {
	if _, err := w.db.Put(id, []byte(body)); err != nil {
		t.Error(err)
	}
}

func (w *world) Delete(t *testing.T, id string) {
	if _, err := w.db.Delete(id); err != nil {
		t.Error(err)
	}
}

func TestSuite(t *testing.T) {
	for name, o := range map[string]couchdb.Options{
		"defaults":                              {},
		"small batches":                         {BatchRows: 3, SeqInterval: 2},
		"a seq for every row":                   {SeqInterval: 1},
		"documents side by side":                {Parallel: 4},
		"documents side by side, small batches": {Parallel: 3, BatchRows: 5, SeqInterval: 2},
	} {
		t.Run(name, func(t *testing.T) {
			changestest.Run(t, func(t *testing.T) changestest.World { return newWorld(t, o) })
		})
	}
}
