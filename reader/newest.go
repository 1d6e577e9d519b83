package reader

import (
	"math"
	"strings"

	"github.com/couch2hudi/couch2hudi/hudi"
)

// newest is what the log files of one slice say of each key: its newest
// version by hudi.IncomingWins. Keys and entries of fixed size are in memory,
// the rows' bytes in pages.
type newest struct {
	index   map[string]int32
	entries []entry
	rows    pages
	scratch []byte
}

type entry struct {
	key   string
	order int64
	row   place
	// deleted, natural are the record's; used says that a base row met it.
	deleted, natural, used bool
	// held says that there is a row: the record's own, or the one that a delete
	// took the place of.
	held bool
}

func newNewest(o Options) *newest {
	return &newest{index: map[string]int32{}, rows: pages{file: o.spill(), budget: o.memory()}}
}

// add merges a version that comes after all those added before.
func (n *newest) add(r *hudi.Record) error {
	i, known := n.index[r.Key.Record]
	if known && !hudi.IncomingWins(n.entries[i].decisive(), r) {
		return nil
	}
	e := entry{order: r.Order, deleted: r.Delete, natural: r.Natural, held: !r.Delete}
	if r.Delete {
		e.hide(n, i, known)
	} else {
		n.scratch = appendRow(n.scratch[:0], r)
		at, err := n.rows.add(n.scratch)
		if err != nil {
			return err
		}
		e.row = at
	}
	if known {
		e.key = n.entries[i].key
		n.entries[i] = e
		return nil
	}
	e.key = strings.Clone(r.Key.Record)
	n.index[e.key] = int32(len(n.entries))
	n.entries = append(n.entries, e)
	return nil
}

// hide notes what a delete takes the place of. The order of a natural one, which
// decides nothing, becomes that of what it hides.
func (e *entry) hide(n *newest, i int32, known bool) {
	if e.natural {
		e.order = math.MinInt64 // nothing in the logs
	}
	if !known {
		return
	}
	before := &n.entries[i]
	e.row, e.held = before.row, before.held
	if e.natural {
		e.order = before.order
	}
}

// decisive is the part of the entry that decides who wins.
func (e *entry) decisive() *hudi.Record {
	return &hudi.Record{Order: e.order, Delete: e.deleted, Natural: e.natural}
}

// find is the entry of a key, nil when the logs do not name it.
func (n *newest) find(key string) *entry {
	if i, ok := n.index[key]; ok {
		return &n.entries[i]
	}
	return nil
}

// fill makes r the entry's record, in the partition given: of a delete with the
// row that it hides, if the logs have one. Its strings are valid until the next
// fill.
func (n *newest) fill(e *entry, partition string, r *hudi.Record) error {
	row := r.Row
	*r = hudi.Record{Key: hudi.Key{Record: e.key, Partition: partition},
		Order: e.order, Delete: e.deleted, Natural: e.natural}
	if !e.held {
		return nil
	}
	b, err := n.rows.get(e.row)
	if err != nil {
		return err
	}
	r.Row = row
	return readRow(b, r)
}

func (n *newest) close() error { return n.rows.close() }
