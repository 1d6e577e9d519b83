package normalize

import "github.com/couch2hudi/couch2hudi/hudi"

// sighting is what a batch showed of a field without a column.
type sighting struct {
	field int
	// kinds has a bit for each fit that some value asked for, and kindWide.
	kinds uint
	// first is what the first value asked for.
	first fit
	// inside is what the values have in them, for a nested column.
	inside *sketch
}

// kindWide is the bit of integers that no double holds.
const kindWide = 1 << fits

func (s *sighting) see(f fit, t *token) {
	s.kinds |= 1 << f
	if f == fitLong && (t.long > maxExactLong || t.long < -maxExactLong) {
		s.kinds |= kindWide
	}
}

// settle gives columns to the fields that wait for one, by all their values in
// the batch, and puts the values there.
func (n *Normalizer) settle() error {
	err := n.deliverAll(0)
	delivered := len(n.waiting)
	if err == nil {
		err = n.nest()
	}
	if err == nil {
		err = n.deliverAll(delivered)
	}
	n.plan.cut(n.plan.settled())
	return err
}

// deliverAll is settle for the values that wait from a place on. What does not fit
// its new column may wait for one beside it.
func (n *Normalizer) deliverAll(from int) error {
	for from < len(n.waiting) {
		more := n.plan.promote(n.sightings(from), &n.o)
		if len(more) > 0 {
			if err := n.plan.extend(n.plan.schema, more); err != nil {
				return err
			}
			n.widen()
		}
		to := len(n.waiting)
		for i := from; i < to; i++ {
			n.deliver(n.waiting[i])
		}
		from = to
	}
	return nil
}

// sightings are the fields that wait, in the order in which they appeared.
func (n *Normalizer) sightings(from int) []sighting {
	seen := make(map[int]int)
	var all []sighting
	look := n.o.sketcher()
	for i := from; i < len(n.waiting); i++ {
		w := &n.waiting[i]
		if w.replaced || w.fit == fitNothing {
			continue
		}
		at, ok := seen[w.field]
		if !ok {
			at = len(all)
			seen[w.field] = at
			all = append(all, sighting{field: w.field, first: w.fit})
		}
		all[at].see(w.fit, &w.value)
		if look != nil && n.plan.fields[w.field].beside == nil {
			look.look(&all[at], n.bodies[w.record], &w.value)
		}
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

// fit is the narrowest one for all that was seen: a text when there is no other,
// unless the policy is to give each kind a column of its own.
func (s *sighting) fit(policy string) fit {
	const numbers = 1<<fitLong | 1<<fitDouble
	kinds := s.kinds
	if policy == NewColumn && kinds&numbers == numbers && s.first != fitText && s.first != fitJSON && s.first != fitBoolean {
		return fitDouble
	}
	if kinds == numbers {
		return fitDouble
	}
	kinds &^= kindWide
	for f := fitBoolean; f <= fitJSON; f++ {
		if kinds == 1<<f {
			return f
		}
	}
	if policy == NewColumn || policy == Fail {
		return s.first
	}
	return fitMixed
}

// promote makes columns for fields, as many as the budget allows.
func (p *plan) promote(seen []sighting, o *Options) []hudi.Column {
	taken := newNames(reserved()...)
	columns := p.schema.Columns()
	for i := range columns {
		taken.take(columns[i].Name)
	}
	var more []hudi.Column
	for _, s := range seen {
		if p.documents >= o.MaxColumns {
			break
		}
		f := &p.fields[s.field]
		note := columnNote{steps: []step{{key: f.name, index: -1}}}
		if f.beside != nil {
			note.beside = true
			note.steps = f.beside.steps()
			note.text = s.fit(AsString)
		} else {
			note.text = s.fit(o.Conflict)
		}
		name := taken.column(f.name)
		column := hudi.Column{Name: name, Kind: note.text.kind(), Doc: note.doc(name)}
		f.role, f.target = roleColumn, &target{column: len(columns) + len(more), fit: note.text, path: f.name, whole: true, conflict: o.Conflict}
		if nested := p.nestedColumn(&s, name, o); nested != nil && f.beside == nil {
			note.text = nested.fit()
			column = hudi.Column{Name: name, Kind: hudi.KindNested, Type: nested.avro(), Doc: note.doc(name)}
			f.target.fit, f.target.shape = nested.fit(), nested
			p.nested = append(p.nested, f.target)
		}
		if f.beside != nil {
			f.target.path, f.target.whole, f.target.conflict = f.beside.path, f.beside.whole, Rescue
		} else if o.Conflict == AsString || o.Conflict == NewColumn {
			f.target.beside = newBeside()
		}
		more = append(more, column)
		p.documents += f.target.leaves()
	}
	return more
}

// nestedColumn is the type of a nested column for what was seen, nil when it is to
// be another one.
func (p *plan) nestedColumn(s *sighting, name string, o *Options) *shape {
	if s.inside == nil || s.kinds != 1<<fitJSON {
		return nil
	}
	made := s.inside.shape(name, p.schema.Namespace+"."+p.schema.Name, o.Conflict)
	if made == nil || made.leaf != nil || p.documents+made.leaves() > o.MaxColumns {
		return nil
	}
	return made
}

// steps is where the target's values stand.
func (t *target) steps() []step {
	if t.whole {
		return []step{{key: t.path, index: -1}}
	}
	steps, err := parsePath(t.path)
	if err != nil { // it was made by pathText
		return []step{{key: t.path, index: -1}}
	}
	return steps
}

// settled is the place from which on fields got no column. Those that did are
// moved in front of it.
func (p *plan) settled() int {
	place := p.first
	for i := p.first; i < len(p.fields); i++ {
		if f := p.fields[i]; (f.role == roleColumn && f.beside == nil) || f.partition {
			p.fields[i], p.fields[place] = p.fields[place], f
			p.at(i)
			p.at(place)
			place++
		}
	}
	p.first, p.fresh = place, 0
	for i := range p.fields {
		p.fields[i].next, p.fields[i].counted = 0, -1
	}
	return place
}

// at notes where a field stands now.
func (p *plan) at(i int) {
	if f := &p.fields[i]; f.beside == nil {
		p.byName[f.name] = i
	}
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
func (n *Normalizer) deliver(w waiting) {
	if w.replaced {
		return
	}
	f := &n.plan.fields[w.field]
	body := n.bodies[w.record]
	if f.role != roleColumn {
		r := rescue{record: w.record, name: f.name, value: w.value, budget: true}
		if f.beside != nil {
			r.name, r.path = f.beside.path, !f.beside.whole
		}
		n.rescues = append(n.rescues, r)
		return
	}
	g := f.target
	if g.shape != nil && g.shape.takes(body, &w.value) {
		g.pending = append(g.pending, nestedCell{w.record, w.value})
		return
	}
	v, ok := n.fitted(g, body, &w.value)
	if !ok {
		n.misfit(g, body, w.record, &w.value)
		return
	}
	n.result.Records[w.record].Row[g.column] = v
	n.keepText(g, v, body, w.record, &w.value)
}
