package normalize

import (
	"cmp"
	"slices"

	"github.com/couch2hudi/couch2hudi/hudi"
)

// sighting is what a batch showed of a field without a column.
type sighting struct {
	field int
	// kinds has a bit for each fit that some value asked for.
	kinds uint
}

// settle gives columns to the fields that wait for one, by all their values in
// the batch, and puts the values there.
func (n *Normalizer) settle() error {
	if len(n.waiting) == 0 {
		n.plan.cut(n.plan.settled())
		return nil
	}
	more := n.plan.promote(n.sightings(), n.o.MaxColumns)
	if len(more) > 0 {
		if err := n.plan.extend(n.plan.schema, more); err != nil {
			return err
		}
		n.widen()
	}
	for i := range n.waiting {
		n.deliver(&n.waiting[i])
	}
	n.plan.cut(n.plan.settled())
	return nil
}

// sightings are the fields that wait, in the order in which they appeared.
func (n *Normalizer) sightings() []sighting {
	seen := make(map[int]int)
	var all []sighting
	for i := range n.waiting {
		w := &n.waiting[i]
		if w.replaced || w.fit == fitNothing {
			continue
		}
		at, ok := seen[w.field]
		if !ok {
			at = len(all)
			seen[w.field] = at
			all = append(all, sighting{field: w.field})
		}
		all[at].kinds |= 1 << w.fit
	}
	return all
}

// wants is the narrowest fit for one value; fitNothing for a number that no
// column can hold exactly.
func wants(body []byte, t *token) fit {
	switch t.kind {
	case tokenTrue, tokenFalse:
		return fitBoolean
	case tokenLong:
		return fitLong
	case tokenFloat:
		if _, ok := exactDouble(body[t.start:t.end]); ok {
			return fitDouble
		}
	case tokenString, tokenEscaped:
		return fitText
	case tokenComposite:
		return fitJSON
	default:
	}
	return fitNothing
}

// fit is the narrowest one for all that was seen.
func (s *sighting) fit() fit {
	const numbers = 1<<fitLong | 1<<fitDouble
	if s.kinds == numbers {
		return fitDouble
	}
	for f := fitBoolean; f <= fitJSON; f++ {
		if s.kinds == 1<<f {
			return f
		}
	}
	return fitMixed
}

// promote makes columns for fields, as many as the budget allows.
func (p *plan) promote(seen []sighting, budget int) []hudi.Column {
	taken := newNames(hudi.MetaOperation, hudi.ColumnID, hudi.ColumnRev, hudi.ColumnRevOrder, hudi.ColumnOp, hudi.ColumnDeleted,
		ColumnSeq, hudi.ColumnLeaves, hudi.ColumnAttachments, hudi.ColumnRescued, hudi.ColumnDoc, "_key", "_db")
	columns := p.schema.Columns()
	for i := range columns {
		taken.take(columns[i].Name)
	}
	var more []hudi.Column
	for _, s := range seen {
		if p.documents >= budget {
			break
		}
		f := &p.fields[s.field]
		f.role, f.fit, f.column = roleColumn, s.fit(), len(columns)+len(more)
		name := taken.column(f.name)
		more = append(more, hudi.Column{Name: name, Kind: f.fit.kind(), Doc: columnDoc(f.name, name, f.fit)})
		p.documents++
	}
	return more
}

// settled is the place from which on fields got no column. Those that did are
// moved in front of it.
func (p *plan) settled() int {
	place := p.first
	for i := p.first; i < len(p.fields); i++ {
		if f := p.fields[i]; f.role == roleColumn || f.partition {
			p.fields[i], p.fields[place] = p.fields[place], f
			p.byName[f.name] = place
			p.byName[p.fields[i].name] = i
			place++
		}
	}
	p.first, p.fresh = place, 0
	for i := range p.fields {
		p.fields[i].next, p.fields[i].counted = 0, -1
	}
	return place
}

// widen gives all rows of the batch the width of the extended schema.
func (n *Normalizer) widen() {
	n.slab = nil
	for i := range n.result.Records {
		r := &n.result.Records[i]
		if r.Row == nil {
			continue
		}
		row := n.carve()
		copy(row, r.Row)
		r.Row = row
	}
}

// deliver puts a value that waited into its new column, or to the rescued ones.
func (n *Normalizer) deliver(w *waiting) {
	if w.replaced {
		return
	}
	f := &n.plan.fields[w.field]
	if f.role == roleColumn {
		if v, ok := n.fitted(f.fit, n.bodies[w.record], &w.value); ok {
			n.result.Records[w.record].Row[f.column] = v
			return
		}
	}
	n.rescues = append(n.rescues, rescue{record: w.record, name: f.name, value: w.value, budget: f.role != roleColumn})
}

// rescue writes the _rescued column: a JSON object from field name to the
// value's JSON text, in the order of the document.
func (n *Normalizer) rescue() {
	slices.SortStableFunc(n.rescues, func(a, b rescue) int {
		return cmp.Or(cmp.Compare(a.record, b.record), cmp.Compare(a.value.start, b.value.start))
	})
	for rest := n.rescues; len(rest) > 0; {
		k := 1
		for k < len(rest) && rest[k].record == rest[0].record {
			k++
		}
		n.rescueRow(lastOnes(rest[:k]))
		rest = rest[k:]
	}
}

func (n *Normalizer) rescueRow(rs []rescue) {
	n.buf = n.buf[:0]
	sep := byte('{')
	for i := range rs {
		r := &rs[i]
		if r.value.kind == tokenNull {
			continue
		}
		n.result.Stats.Rescued++
		if r.budget {
			n.result.Stats.OverBudget++
		}
		n.buf = append(n.buf, sep)
		n.buf = appendQuoted(n.buf, r.name)
		n.buf = append(n.buf, ':')
		n.buf = append(n.buf, n.bodies[r.record][r.value.start:r.value.end]...)
		sep = ','
	}
	if len(n.buf) > 0 {
		n.buf = append(n.buf, '}')
		n.result.Records[rs[0].record].Row[n.plan.rescued] = hudi.StringOf(n.arena.copy(n.buf))
	}
}

// lastOnes keeps the last of the values of each name. The names of columns come
// once; only those without one may come again.
func lastOnes(rs []rescue) []rescue {
	if len(rs) == 1 {
		return rs
	}
	last := make(map[string]int, len(rs))
	for i := range rs {
		if j, ok := last[rs[i].name]; ok {
			rs[j].value.kind = tokenNull
		}
		last[rs[i].name] = i
	}
	return rs
}
