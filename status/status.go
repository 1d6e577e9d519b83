// Package status shows what a process does: a page for people, metrics for
// Prometheus, and two answers for whoever starts and stops it.
package status

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/couch2hudi/couch2hudi/pipeline"
)

// Options say what a Board shows. The zero value of each field is its default.
type Options struct {
	// Version is the program's.
	Version string
	// Source is what is followed, without secrets.
	Source string
	// Clock tells the time; time.Now by default.
	Clock func() time.Time
}

// Board collects what the tables of a process tell it. Its methods, and those of its
// tables, may be called from several goroutines.
type Board struct {
	o        Options
	began    time.Time
	registry *prometheus.Registry
	m        *metrics

	mu      sync.Mutex
	tables  map[string]*Table
	retries int64
	trouble string // what was tried again last
}

// New makes a Board with nothing on it.
func New(o Options) *Board {
	if o.Clock == nil {
		o.Clock = time.Now
	}
	b := &Board{o: o, began: o.Clock(), registry: prometheus.NewRegistry(), tables: map[string]*Table{}}
	b.m = newMetrics(b.registry, o.Version)
	b.registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return b
}

// Table is a table's part of the board, made when it is first asked for: the process
// holds the table from then on.
func (b *Board) Table(name string) *Table {
	b.mu.Lock()
	defer b.mu.Unlock()
	t := b.tables[name]
	if t == nil {
		t = &Table{b: b, name: name, failures: map[string]string{}}
		b.tables[name] = t
		b.m.pending.WithLabelValues(name).Set(0)
	}
	return t
}

// Retried notes that something of the source failed and is tried again. There need be
// no board.
func (b *Board) Retried(reason string) {
	if b == nil {
		return
	}
	b.m.retries.Inc()
	b.mu.Lock()
	defer b.mu.Unlock()
	b.retries++
	b.trouble = reason
}

// Ready says whether the process holds a table: one that waits for another writer does
// not.
func (b *Board) Ready() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.tables) > 0
}

// rows are the tables as the page shows them, by name.
func (b *Board) rows() []row {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := b.o.Clock()
	list := make([]row, 0, len(b.tables))
	for _, t := range b.tables {
		list = append(list, t.row(now))
	}
	slices.SortFunc(list, func(a, b row) int { return cmp.Compare(a.Name, b.Name) })
	return list
}

// Table collects what one table tells.
type Table struct {
	b    *Board
	name string

	// The board's mu guards what follows.
	read, committed, quarantined int64
	pending                      int64
	caughtUp                     bool
	last                         pipeline.Progress
	lastAt                       time.Time
	compacted                    string
	failures                     map[string]string // by service, until it works again
	targets                      []*target
}

// Committed notes what a commit did.
func (t *Table) Committed(p pipeline.Progress) {
	now := t.b.o.Clock()
	t.b.m.committed(t.name, p, now)
	t.b.mu.Lock()
	defer t.b.mu.Unlock()
	t.committed++
	t.quarantined += p.Stats.Quarantined
	t.pending, t.caughtUp = p.Pending, p.CaughtUp
	t.last, t.lastAt = p, now
}

// Read notes a part of a batch that has arrived.
func (t *Table) Read(r pipeline.Reading) {
	t.b.m.read.WithLabelValues(t.name).Add(float64(r.Rows))
	t.b.m.readBytes.WithLabelValues(t.name).Add(float64(r.Bytes))
	t.b.m.pending.WithLabelValues(t.name).Set(float64(r.Pending))
	t.b.mu.Lock()
	defer t.b.mu.Unlock()
	t.read += r.Rows
	t.pending = r.Pending
}

// Compacted notes a compaction of so many rows, and which it was.
func (t *Table) Compacted(instant string, rows int64, took time.Duration) {
	t.b.m.service(t.name, "compaction", took)
	t.b.m.compacted.WithLabelValues(t.name).Add(float64(rows))
	t.b.mu.Lock()
	defer t.b.mu.Unlock()
	t.compacted = instant
	delete(t.failures, "compact")
}

// Cleaned notes files that went. Readable is the moment from which on the table can be
// read as of, zero when that is not known.
func (t *Table) Cleaned(files int, readable time.Time) {
	t.b.m.service(t.name, "clean", 0)
	t.b.m.cleaned.WithLabelValues(t.name).Add(float64(files))
	if !readable.IsZero() {
		t.b.m.readable.WithLabelValues(t.name).Set(float64(readable.UnixMilli()) / 1000)
	}
	t.worked("clean")
}

// Archived notes instants that left the active timeline.
func (t *Table) Archived(instants int) {
	t.b.m.service(t.name, "archival", 0)
	t.b.m.archived.WithLabelValues(t.name).Add(float64(instants))
	t.worked("archive")
}

// Failed notes that a service failed and is tried again.
func (t *Table) Failed(service, reason string) {
	t.b.m.failures.WithLabelValues(t.name, service).Inc()
	t.b.mu.Lock()
	defer t.b.mu.Unlock()
	t.failures[service] = reason
}

func (t *Table) worked(service string) {
	t.b.mu.Lock()
	defer t.b.mu.Unlock()
	delete(t.failures, service)
}
