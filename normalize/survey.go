package normalize

import (
	"strings"

	"github.com/couch2hudi/couch2hudi/changes"
	"github.com/couch2hudi/couch2hudi/hudi"
)

// Survey looks at documents before there is a table, for its first columns. It
// keeps what it saw of each field and no document: at most Options.MaxColumns
// fields. It is not safe for concurrent use.
type Survey struct {
	n    *Normalizer
	plan *plan
	scan scanner
	// look is nil when there are to be no nested columns.
	look  *sketcher
	index map[string]int
	seen  []Sight
	// values are those of the document being read, fresh the places of names that
	// no document before had.
	values []surveyed
	fresh  map[string]int
	buf    []byte
	// rfc and day read what texts might be.
	rfc, day *moments
	// documents and broken count live documents that could be read or not.
	documents, broken int
	// turn numbers the documents, from 1 on.
	turn int
}

// Sight is what was seen of a field.
type Sight struct {
	Field string
	sighting
	// Values counts those that a column could hold, Texts the strings among them,
	// Times and Days those of them that are RFC 3339 or yyyy-MM-dd.
	Values, Texts, Times, Days int
	// document is the last one that had the field, at the place of its value.
	document, at int
}

// surveyed is a value; its field is -1 for one whose name is new.
type surveyed struct {
	field     int
	name      string
	value     token
	fit       fit
	wide      bool
	time, day bool
	replaced  bool
}

// Survey begins one.
func (n *Normalizer) Survey() (*Survey, error) {
	p, err := newPlan(&n.o, n.declared, nil)
	if err != nil {
		return nil, err
	}
	s := &Survey{n: n, plan: p, look: n.o.sketcher(), index: map[string]int{}, fresh: map[string]int{}, rfc: &moments{format: FormatRFC3339}}
	if s.day, err = newMoments(formatDay, true); err != nil {
		return nil, err
	}
	s.scan.member = s.member
	return s, nil
}

// Documents is how many live documents were looked at.
func (s *Survey) Documents() int { return s.documents }

// Broken is how many live documents could not be read.
func (s *Survey) Broken() int { return s.broken }

// Add looks at the documents of a batch, which it does not keep. Deleted ones, and
// those that are not for the table, have no columns.
func (s *Survey) Add(b changes.Batch) {
	all := s.n.sift(b.Changes)
	for i := range all {
		c := &all[i]
		if c.Deleted || c.Elsewhere {
			continue
		}
		if s.n.mask != nil {
			c = &s.n.mask.changes(all[i : i+1])[0]
		}
		s.turn++
		s.values = s.values[:0]
		clear(s.fresh)
		if s.n.envelope(c) != "" || s.scan.object(c.Body) != nil {
			s.broken++
			continue
		}
		s.documents++
		s.take()
	}
	s.scan.data = nil
}

// member notes one member of the document being read.
func (s *Survey) member(name, value *token) {
	key := name.text(s.scan.data)
	if name.kind == tokenEscaped {
		s.buf = appendUnescaped(s.buf[:0], key)
		key = s.buf
	}
	if s.n.o.Others != Inferred || len(key) > maxName {
		return
	}
	if i, known := s.plan.byName[string(key)]; known && s.plan.fields[i].role != roleNew {
		return
	}
	v := surveyed{field: -1, value: *value, fit: wants(s.scan.data, value), wide: value.kind == tokenLong && (value.long > maxExactLong || value.long < -maxExactLong)}
	i, known := s.index[string(key)]
	if known {
		v.field = i
		if f := &s.seen[i]; f.document == s.turn {
			s.values[f.at].replaced = true
		}
		s.seen[i].document, s.seen[i].at = s.turn, len(s.values)
	} else {
		v.name = strings.Clone(string(key))
		if at, twice := s.fresh[v.name]; twice {
			s.values[at].replaced = true
		}
		s.fresh[v.name] = len(s.values)
	}
	if v.fit == fitText {
		s.times(&v, value.text(s.scan.data))
	}
	s.values = append(s.values, v)
}

// times says what a text might be beside a text.
func (s *Survey) times(v *surveyed, text []byte) {
	const least, longest = len(formatDay), len("2006-01-02T15:04:05.999999+00:00")
	if len(text) < least || len(text) > longest || text[4] != '-' {
		return
	}
	us, ok := s.rfc.parse(text)
	v.time = ok && us >= leastMicros && us <= mostMicros
	_, v.day = matchPattern(s.day.pattern, text)
}

// take adds a document that was read to its end.
func (s *Survey) take() {
	for i := range s.values {
		v := &s.values[i]
		if v.replaced || v.fit == fitNothing {
			continue
		}
		if v.field < 0 {
			if s.plan.documents+len(s.seen) >= s.n.o.MaxColumns {
				continue
			}
			v.field = len(s.seen)
			s.index[v.name] = v.field
			s.seen = append(s.seen, Sight{Field: v.name, sighting: sighting{first: v.fit}})
		}
		f := &s.seen[v.field]
		f.kinds |= 1 << v.fit
		if v.wide {
			f.kinds |= kindWide
		}
		if s.look != nil {
			s.look.look(&f.sighting, s.scan.data, &v.value)
		}
		f.Values++
		if v.fit == fitText {
			f.Texts++
		}
		if v.time {
			f.Times++
		}
		if v.day {
			f.Days++
		}
	}
}

// Sights are the fields that were seen, in the order in which they appeared.
func (s *Survey) Sights() []Sight { return s.seen }

// Schema is what a table begins with: what every table has, the declared
// columns, and one for each field that was seen, as long as the budget lasts.
func (s *Survey) Schema() (*hudi.Schema, error) {
	p, err := newPlan(&s.n.o, s.n.declared, nil)
	if err != nil {
		return nil, err
	}
	var all []sighting
	for i := range s.seen {
		at, known := p.byName[s.seen[i].Field]
		if !known {
			at = p.add(field{name: s.seen[i].Field, role: roleNew})
		}
		seen := s.seen[i].sighting
		seen.field = at
		all = append(all, seen)
	}
	err = p.extend(p.schema, p.promote(all, &s.n.o))
	return p.schema, err
}
