package normalize

import (
	"strconv"

	"github.com/couch2hudi/couch2hudi/changes"
	"github.com/couch2hudi/couch2hudi/hudi"
)

// cursor is where the row stands that is being made.
type cursor struct {
	change *changes.Change
	row    hudi.Row
	// record is the row's place among the records.
	record int
	// last is the field that was read last: a guess at the next one.
	last int
	// part is the partition field's value, a tokenNull when there is none.
	part token
	// dead says that the document is deleted.
	dead bool
	// foreign says that the body names another document.
	foreign bool
}

// slabValues is how many cells are allocated at once: 256 KiB.
const slabValues = 8192

// carve takes an empty row of the plan's width from the slab.
func (n *Normalizer) carve() hudi.Row {
	width := n.plan.schema.Len()
	if len(n.slab) < width {
		n.slab = make([]hudi.Value, max(1, slabValues/width)*width)
	}
	row := n.slab[:width:width]
	n.slab = n.slab[width:]
	return row
}

// shape makes the record of change i. When its body is broken the newest state
// of the same document that is not takes its place.
func (n *Normalizer) shape(cs []changes.Change, i int) {
	for {
		reason := n.record(&cs[i], n.elect.order[i], n.elect.era[i])
		if reason == "" {
			return
		}
		n.elect.state[i] = broken
		n.reject(cs, i, reason)
		j := n.elect.next(n.recordKey(&cs[i]))
		if j < 0 {
			return
		}
		n.elect.state[j] = winner
		if j > i {
			return // its turn comes
		}
		i = j
	}
}

// record appends the record of a change, or says why it cannot. purged says that
// a purge came before it in its batch, or is what it tells of.
func (n *Normalizer) record(c *changes.Change, order int64, purged bool) string {
	r := hudi.Record{Key: hudi.Key{Record: n.recordKey(c)}, Order: order, NewEra: purged, OnlyHeld: c.Elsewhere}
	var body []byte
	count := &n.result.Stats.Tombstones
	switch {
	case !c.Deleted && !c.Elsewhere:
		return n.live(c, r)
	case n.o.Deletes == Hard:
		r.Delete = true
		count = &n.result.Stats.Deletes
	default:
		if reason := n.tombstone(c, &r); reason != "" {
			return reason
		}
		body = c.Body
	}
	if c.Elsewhere {
		count = &n.result.Stats.Elsewhere
	}
	*count++
	// Where the key lives is what counts; the default partition is for a key
	// that lives nowhere.
	r.AnyPartition = true
	r.Key.Partition = n.part.none.path
	n.append(r, body)
	return ""
}

func (n *Normalizer) append(r hudi.Record, body []byte) {
	n.result.Records = append(n.result.Records, r)
	n.bodies = append(n.bodies, body)
}

// tombstone makes the row of a deleted document, or of one that is not for the
// table: of that the body is not kept. It is only looked at when it is: what is
// not JSON text may not get into a column.
func (n *Normalizer) tombstone(c *changes.Change, r *hudi.Record) string {
	keep := (n.plan.doc >= 0 || n.exact) && n.o.Deletes == Tombstone && c.Deleted && !noBody(c.Body)
	var err error
	switch rescues := len(n.rescues); {
	case keep && n.exact:
		row := n.cursor.row // a live row's, begun
		n.cursor = cursor{change: c, row: row, record: len(n.result.Records), dead: true}
		n.scan.expected = ""
		if err = n.scan.object(c.Body); err != nil {
			n.rescues = n.rescues[:rescues]
		}
	case keep:
		err = n.scan.check(c.Body)
	}
	if err != nil {
		return err.Error()
	}
	r.Row = n.carve()
	n.fill(c, r)
	if keep && n.plan.doc >= 0 {
		r.Row[n.plan.doc] = hudi.StringOf(c.Body)
	}
	return ""
}

// live makes the row of a document from its body.
func (n *Normalizer) live(c *changes.Change, r hudi.Record) string {
	fields, waiting, rescues := len(n.plan.fields), len(n.waiting), len(n.rescues)
	if n.cursor.row == nil {
		n.cursor.row = n.carve()
	}
	n.cursor = cursor{change: c, row: n.cursor.row, record: len(n.result.Records)}
	failed := n.failed
	n.expect()
	err := n.scan.object(c.Body)
	if err != nil || n.cursor.foreign {
		n.failed = failed
		n.plan.undo(fields, n.cursor.record)
		n.waiting, n.rescues = n.waiting[:waiting], n.rescues[:rescues]
		clear(n.cursor.row)
		if err != nil {
			return err.Error()
		}
		return "the body's _id is that of another document"
	}
	for _, g := range n.plan.required {
		if n.cursor.row[g.column].IsNull() {
			n.fail(g, n.cursor.record, "no value, and it is declared as not nullable")
		}
	}
	r.Row, n.cursor.row = n.cursor.row, nil
	n.fill(c, &r)
	if n.plan.doc >= 0 {
		r.Row[n.plan.doc] = hudi.StringOf(c.Body)
	}
	r.Key.Partition = n.place(r.Row, c.Body)
	n.append(r, c.Body)
	return ""
}

// place fills the partition column and returns the folder.
func (n *Normalizer) place(row hudi.Row, body []byte) string {
	if n.plan.pt < 0 {
		return ""
	}
	p, ok := n.part.of(body, &n.cursor.part)
	if !ok {
		n.result.Stats.DefaultPartition++
	}
	row[n.plan.pt] = p.value
	return p.path
}

// fill sets the columns that come from the change and not from its body.
func (n *Normalizer) fill(c *changes.Change, r *hudi.Record) {
	p, row := n.plan, r.Row
	op, dead := "u", c.Deleted || c.Elsewhere
	if dead {
		op = "d"
	}
	if n.o.Databases {
		row[p.key], row[p.db] = hudi.String(r.Key.Record), hudi.String(c.Database)
	}
	row[p.id] = hudi.String(c.ID)
	if !c.Absent {
		row[p.rev] = n.rev(c.Rev)
	}
	row[p.order] = hudi.Long(r.Order)
	row[p.op] = hudi.String(op)
	row[p.deleted] = hudi.Boolean(dead)
	if p.seq >= 0 && c.Seq != "" {
		row[p.seq] = hudi.String(c.Seq)
	}
	if len(c.Leaves) > 1 {
		row[p.leaves] = n.leaves(c.Leaves)
	}
}

func (n *Normalizer) rev(r changes.Rev) hudi.Value {
	n.buf = appendRev(n.buf[:0], r)
	return hudi.StringOf(n.arena.copy(n.buf))
}

func appendRev(dst []byte, r changes.Rev) []byte {
	dst = strconv.AppendInt(dst, r.Generation, 10)
	dst = append(dst, '-')
	return append(dst, r.Hash...)
}

// leaves is the JSON array of the leaf revisions.
func (n *Normalizer) leaves(rs []changes.Rev) hudi.Value {
	n.buf = n.buf[:0]
	sep := byte('[')
	for _, r := range rs {
		n.buf = append(n.buf, sep)
		n.buf = appendQuoted(n.buf, r.String())
		sep = ','
	}
	n.buf = append(n.buf, ']')
	return hudi.StringOf(n.arena.copy(n.buf))
}
