package pipeline

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"

	"github.com/couch2hudi/couch2hudi/changes"
	"github.com/couch2hudi/couch2hudi/normalize"
)

// Errors of routing.
var (
	// ErrRoutes marks routes that mean nothing.
	ErrRoutes = errors.New("bad routes")
	// ErrUnrouted says that a document has no table and the run is to stop there.
	ErrUnrouted = errors.New("no table takes a document")
)

// Others says what becomes of live documents that no table's values name.
type Others struct {
	// Table is the name of the table that takes them.
	Table string
	// Fail stops the run instead. Without either they are in no table.
	Fail bool
}

// routes say which of several tables each change is for.
type routes struct {
	pick   *normalize.Pick
	field  string
	table  map[string]int
	tables int
	// others is the table of what no value names, or dropped or failed; broken is
	// the one that puts aside what cannot be read.
	others, broken int
	// first says that a document's first revision is told to its own table alone:
	// no other one can hold the document.
	first bool
}

const dropped, failed = -1, -2

func newRoutes(field string, tables []Routed, o Others, first bool) (*routes, error) {
	pick, err := normalize.NewPick(field)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrRoutes, err)
	}
	r := &routes{pick: pick, field: field, table: map[string]int{}, tables: len(tables), others: dropped, first: first}
	if o.Fail {
		r.others = failed
	}
	for i := range tables {
		t := &tables[i]
		if t.Name == o.Table && o.Table != "" {
			r.others, r.broken = i, i
		}
		for _, v := range t.Values {
			if j, twice := r.table[v]; twice {
				return nil, fmt.Errorf("%w: %s %q is of %q and of %q", ErrRoutes, field, v, tables[j].Name, t.Name)
			}
			r.table[v] = i
		}
	}
	if o.Table != "" && !slices.ContainsFunc(tables, func(t Routed) bool { return t.Name == o.Table }) {
		return nil, fmt.Errorf("%w: there is no table %q for all others", ErrRoutes, o.Table)
	}
	return r, nil
}

// fingerprint is what the routes are, in a few letters.
func (r *routes) fingerprint(tables []Routed) string {
	const enough = 4
	h := sha256.New()
	_, _ = fmt.Fprintf(h, "%q %d\n", r.field, r.others) // a hash never fails
	for i := range tables {
		_, _ = fmt.Fprintf(h, "%q %q\n", tables[i].Name, slices.Sorted(slices.Values(tables[i].Values)))
	}
	return hex.EncodeToString(h.Sum(nil)[:enough])
}

// parts are a batch as each table gets it. Of a document of another table a table
// gets a change that says so: it may be the one that holds the document.
type parts struct {
	tables []changes.Batch
	// dropped counts live documents that no table takes.
	dropped int64
}

func (r *routes) split(b changes.Batch) (parts, error) {
	p := parts{tables: make([]changes.Batch, r.tables)}
	for i := range p.tables {
		p.tables[i] = b
		p.tables[i].Changes = nil
	}
	for i := range b.Changes {
		c := &b.Changes[i]
		if !normalize.Nameable(c) {
			p.add(r.broken, *c)
			continue
		}
		own, err := r.of(c)
		if err != nil {
			return parts{}, err
		}
		if own == dropped && !c.Deleted {
			p.dropped++
		}
		alone := r.first && own != dropped && firstRevision(c)
		for t := range p.tables {
			switch {
			case t == own:
				p.add(t, *c)
			case !alone:
				other := *c
				other.Elsewhere = true
				p.add(t, other)
			}
		}
	}
	return p, nil
}

// only is what one table gets of changes.
func (r *routes) only(table int, cs []changes.Change) ([]changes.Change, error) {
	p, err := r.split(changes.Batch{Changes: cs})
	if err != nil {
		return nil, err
	}
	return p.tables[table].Changes, nil
}

func (p *parts) add(table int, c changes.Change) {
	p.tables[table].Changes = append(p.tables[table].Changes, c)
}

// of is the table that a change is for, or dropped: a deletion that does not say
// of what type the document was is for whichever table holds it.
func (r *routes) of(c *changes.Change) (int, error) {
	if c.Absent {
		return dropped, nil
	}
	var value []byte
	if len(c.Body) > 0 {
		text, err := r.pick.Text(c.Body)
		switch {
		case err == nil:
			value = text
		case !c.Deleted:
			return r.broken, nil
		}
	}
	if value != nil {
		if t, known := r.table[string(value)]; known {
			return t, nil
		}
	}
	switch {
	case c.Deleted:
		return dropped, nil
	case r.others != failed:
		return r.others, nil
	case value == nil:
		return 0, fmt.Errorf("%w: %q has no text, number or boolean at %s; name a table in route.others, or drop, or correct the document", ErrUnrouted, clip(c.ID), r.field)
	}
	return 0, fmt.Errorf("%w: %q, whose %s is %q; give the value to a table, or name one in route.others, or drop", ErrUnrouted, clip(c.ID), r.field, clip(string(value)))
}

// firstRevision says whether no table can hold an earlier state of the document.
// One of an earlier life, before a purge or in a database that was recreated, is
// another table's to lose by other ways: Purger, and the sweep.
func firstRevision(c *changes.Change) bool {
	return !c.Purged && !c.Deleted && len(c.Leaves) == 1 && c.Leaves[0].Generation == 1
}

// clip keeps a message short.
func clip(s string) string {
	const most = 60
	if len(s) > most {
		return s[:most] + "…"
	}
	return s
}
