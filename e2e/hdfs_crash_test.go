//go:build oracle

package e2e

import (
	"context"
	"errors"
	"os"
	"testing"
	"time"

	"github.com/couch2hudi/couch2hudi/changes/couchdb"
	"github.com/couch2hudi/couch2hudi/compaction"
	"github.com/couch2hudi/couch2hudi/hudi"
	"github.com/couch2hudi/couch2hudi/normalize"
	"github.com/couch2hudi/couch2hudi/pipeline"
	"github.com/couch2hudi/couch2hudi/storage"
	"github.com/couch2hudi/couch2hudi/storage/storagetest"
	"github.com/couch2hudi/couch2hudi/table"
)

// hdfsCrashes: an ingest into HDFS, with compactions, cleans and archivals, dies at its
// k-th write, before the name node hears of it or before the ingest hears of the answer,
// for one k after another. What comes next mends what that left and dies in turn. The
// table equals the database whenever one comes to its end. Here k is each 29th, with
// E2E_FULL each 7th.
func hdfsCrashes(t *testing.T, d *dfs) {
	step, check := 29, 4
	if os.Getenv("E2E_FULL") != "" {
		step, check = 7, 4
	}
	const folder = "/tables/crashes"
	w := newTableWriter(t, modelOptions{})
	w.table = d.url + folder
	more := func(n int) {
		if err := w.data.next(n); err != nil {
			t.Fatal(err)
		}
	}
	settle := func() {
		t.Helper()
		more(5)
		if err := ingestInto(t.Context(), w.source, d.open(t, folder)); err != nil {
			t.Fatal(err)
		}
		couch2hudi(t, "verify", "--source", w.source, "--table", w.table)
	}
	more(40)
	settle()
	crashes := 0
	for k, ended := 1, false; !ended; k += step {
		for _, after := range []bool{false, true} {
			more(15)
			c := storagetest.NewCrasher(d.open(t, folder), storagetest.Crash{At: k, After: after})
			err := ingestInto(t.Context(), w.source, c)
			switch {
			case c.Dead():
				crashes++
			case err != nil:
				t.Fatalf("at write %d: %v", k, err)
			default:
				ended = true // it makes fewer writes
			}
		}
		if crashes%check == 0 {
			settle()
		}
	}
	settle()
	couch2hudi(t, "check", "--source", w.source, "--table", w.table)
	t.Logf("%d crashes, at each %d. write up to the last", crashes, step)
	if crashes < 6 {
		t.Errorf("only %d crashes", crashes)
	}
}

// ingestInto does what `run --once` does, in this process, with small commits and all
// services.
func ingestInto(ctx context.Context, source string, d storage.Driver) (err error) {
	b := storage.New(d, nil)
	defer func() { _ = b.Close() }()
	there, err := table.Exists(ctx, b)
	if err != nil {
		return err
	}
	var t *table.Table
	if there {
		t, err = table.Open(ctx, b, table.Options{})
	} else {
		t, err = table.Create(ctx, b, table.CreateOptions{Name: "docs", OrderColumn: hudi.ColumnRevOrder, KeyColumn: hudi.ColumnID}, table.Options{})
	}
	if err != nil {
		return err
	}
	lease, err := t.Lease(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = lease.Close() }()
	s, err := couchdb.Open(ctx, couchdb.Options{URL: source})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	n, err := normalize.New(normalize.Options{Table: "docs", Deletes: normalize.Tombstone})
	if err != nil {
		return err
	}
	const rows, least, most = 5, 20, 21
	services := compaction.New(compaction.Options{Table: t, Mode: compaction.Inline, Policy: compaction.Policy{MaxDeltaCommits: 2},
		Clean: compaction.CleanPolicy{Retain: time.Second, Every: time.Second}, Archive: compaction.ArchivePolicy{KeepMin: least, KeepMax: most}})
	defer services.Stop()
	p, err := pipeline.New(ctx, pipeline.Options{Source: s, Table: t, Normalizer: n, Once: true, MaxRows: rows, Services: services})
	if err != nil {
		return err
	}
	return p.Run(ctx)
}
