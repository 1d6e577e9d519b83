package table_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/couch2hudi/couch2hudi/commitmeta"
	"github.com/couch2hudi/couch2hudi/hudi"
	"github.com/couch2hudi/couch2hudi/hudi/logfile"
	"github.com/couch2hudi/couch2hudi/storage"
	"github.com/couch2hudi/couch2hudi/table"
)

const someSchema = `{"type":"record","name":"docs_record","namespace":"hoodie.docs","fields":[{"name":"_id","type":["null","string"],"default":null}]}`

// clock is a clock that tests set.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func newClock() *clock { return &clock{now: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)} }

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) add(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

func options() table.Options { return table.Options{Clock: newClock().Now} }

func must[T any](t *testing.T) func(T, error) T {
	t.Helper()
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func wantErr(t *testing.T, what string, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("%s: %v, want %v", what, err, want)
	}
}

func bucketOf(d storage.Driver) *storage.Bucket { return storage.New(d, nil) }

// create makes a partitioned table with the lease held until the test ends.
func create(t *testing.T, d storage.Driver) *table.Table {
	t.Helper()
	tb := must[*table.Table](t)(table.Create(t.Context(), bucketOf(d), table.CreateOptions{Name: "docs", PartitionField: "pt"}, options()))
	lease(t, tb)
	return tb
}

func open(t *testing.T, d storage.Driver) *table.Table {
	t.Helper()
	tb := must[*table.Table](t)(table.Open(t.Context(), bucketOf(d), options()))
	lease(t, tb)
	return tb
}

func lease(t *testing.T, tb *table.Table) {
	t.Helper()
	l := must[io.Closer](t)(tb.Lease(t.Context()))
	t.Cleanup(func() { _ = l.Close() })
}

// put writes one file of a transaction and is its stat.
func put(ctx context.Context, x *table.Txn, partition, name string, m table.Marker, content string) (commitmeta.WriteStat, error) {
	up, err := x.Create(ctx, partition, name, m)
	if err != nil {
		return commitmeta.WriteStat{}, err
	}
	if _, err := io.WriteString(up, content); err != nil {
		return commitmeta.WriteStat{}, errors.Join(err, up.Abort())
	}
	o, err := up.Commit()
	if err != nil {
		return commitmeta.WriteStat{}, err
	}
	s := commitmeta.WriteStat{Path: o.Name, Partition: partition, Bytes: o.Size, Writes: 1}
	if n, err := hudi.ParseLogFileName(name); err == nil {
		s.File, s.PrevCommit = n.File, n.Instant
		s.Log = &commitmeta.LogStat{Version: n.Version, LogFiles: []string{name}}
	} else if n, err := hudi.ParseBaseFileName(name); err == nil {
		s.File = n.File
	}
	return s, nil
}

func base(x *table.Txn, group int) string {
	return hudi.BaseFileName{File: groupID(group), Token: "0-1-0", Instant: x.Instant()}.String()
}

func groupID(group int) hudi.FileID {
	return hudi.FileID(fmt.Sprintf("%08d-0000-0000-0000-000000000000-0", group))
}

func logName(group int, on hudi.Time, version int) string {
	return hudi.LogFileName{File: groupID(group), Instant: on, Version: version, Token: "0-1-0"}.String()
}

// logContent is a log file with one row, by the given instant.
func logContent(t *testing.T, at hudi.Time) string {
	t.Helper()
	s := must[*hudi.Schema](t)(hudi.ParseSchema(someSchema))
	var b strings.Builder
	w := must[*logfile.Writer](t)(logfile.NewWriter(&b, s, logfile.WriterOptions{Stamp: hudi.Stamp{Instant: at}, File: groupID(1)}))
	if err := w.Append(&hudi.Record{Key: hudi.Key{Record: "a"}, Row: hudi.Row{hudi.String("a")}}); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// body is what a commit of those files says.
func body(stats ...commitmeta.WriteStat) commitmeta.Body {
	b := commitmeta.Body{Operation: "UPSERT", Extra: map[string]string{commitmeta.ExtraSchema: someSchema}, Stats: map[string][]commitmeta.WriteStat{}}
	for _, s := range stats {
		b.Stats[s.Partition] = append(b.Stats[s.Partition], s)
	}
	return b
}

// commitBases commits one base file for each group, in partition pt=<group>.
func commitBases(ctx context.Context, tb *table.Table, groups ...int) (hudi.Time, error) {
	x, err := tb.Begin(ctx)
	if err != nil {
		return "", err
	}
	var stats []commitmeta.WriteStat
	for _, g := range groups {
		s, err := put(ctx, x, fmt.Sprintf("pt=%d", g), base(x, g), table.MarkCreate, "base of "+string(x.Instant()))
		if err != nil {
			return x.Instant(), err
		}
		stats = append(stats, s)
	}
	return x.Instant(), x.Commit(ctx, body(stats...))
}

// names lists a store.
func names(t *testing.T, d storage.Driver, prefix string) []string {
	t.Helper()
	var list []string
	for o, err := range bucketOf(d).List(context.Background(), prefix) {
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, o.Name)
	}
	return list
}
