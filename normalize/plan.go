package normalize

import (
	"errors"
	"fmt"
	"slices"

	"github.com/couch2hudi/couch2hudi/hudi"
)

// ErrSchema marks a table whose columns are not those of a table of ours.
var ErrSchema = errors.New("the table's columns do not fit")

// ColumnSeq is the column of the source's sequence, which Options.Seq adds.
const ColumnSeq = "_seq"

// fit says which JSON values a column takes, and as what.
type fit uint8

const (
	// fitNothing takes no value: a column of another writer's type.
	fitNothing fit = iota
	fitBoolean
	fitInt
	fitLong
	fitDouble
	// fitText takes strings.
	fitText
	// fitJSON takes arrays and objects as their JSON text.
	fitJSON
	// fitMixed takes strings as they are and all else as its JSON text.
	fitMixed
	// fitAny takes everything as its JSON text.
	fitAny
	fitTimestamp
	fitDate
	fitDecimal
	// fitList and fitStruct take arrays and objects part by part.
	fitList
	fitStruct
	// fits is how many there are.
	fits
)

// role says what is done with a member of a document.
type role uint8

const (
	// roleColumn: it goes into a column.
	roleColumn role = iota
	// roleNew: it has no column yet and waits for the end of the batch.
	roleNew
	roleID
	roleAttachments
	// roleSkip: CouchDB's own member, which the change or _doc tells.
	roleSkip
	// roleApart: it gets no column; Options.Others says what becomes of it.
	roleApart
)

// field is a member's name with what is done with it. The scratch part
// belongs to the batch being read.
type field struct {
	name      string
	role      role
	partition bool
	// target is the field's column, more are further ones of it.
	target *target
	more   []*target
	// below is where in the field's value something is declared, or nil.
	below *node
	// beside says that the field is none of documents, but what has no place in
	// a column: its name is that of the column to be made, its values go to of
	// else.
	beside *target
	// next is the place of the field that followed this one last time: most
	// documents have their members in the order of the one before.
	next int
	// quoted is the name as most documents write it, with quotes and colon; empty
	// when it cannot be written so.
	quoted string
	// stamp is the row that last had this field, waits the place of that
	// row's value among those that wait. counted is the row that made it one
	// of the plan's fresh ones.
	stamp, waits, counted int
}

// plan is what a schema means to a normalizer.
type plan struct {
	schema *hudi.Schema
	// required are the targets that may have no null.
	required []*target
	// stale says that the fields no longer are what the schema says.
	stale  bool
	fields []field
	byName map[string]int
	// nested are the targets with a shape.
	nested []*target
	// documents is the number of columns made from documents' fields, fresh
	// that of fields which will get one at the end of the batch. Fields that
	// came with this batch stand from first on.
	documents, fresh, first int
	// Places of the envelope's columns; -1 when the table has none.
	key, db, id, rev, order, op, deleted, seq, leaves, attachments, pt, rescued, doc int
}

// envelope is a column that we fill ourselves.
type envelope struct {
	name string
	kind hudi.Kind
	// when says that the options ask for it.
	when  bool
	place *int
}

func (p *plan) envelope(o *Options) []envelope {
	all := []envelope{
		{hudi.ColumnKey, hudi.KindString, o.Databases, &p.key},
		{hudi.ColumnDB, hudi.KindString, o.Databases, &p.db},
		{hudi.ColumnID, hudi.KindString, true, &p.id},
		{hudi.ColumnRev, hudi.KindString, true, &p.rev},
		{hudi.ColumnRevOrder, hudi.KindLong, true, &p.order},
		{hudi.ColumnOp, hudi.KindString, true, &p.op},
		{hudi.ColumnDeleted, hudi.KindBoolean, true, &p.deleted},
		{ColumnSeq, hudi.KindString, o.Seq, &p.seq},
		{hudi.ColumnLeaves, hudi.KindString, true, &p.leaves},
		{hudi.ColumnAttachments, hudi.KindString, true, &p.attachments},
		{o.PartitionName, hudi.KindString, true, &p.pt},
		{hudi.ColumnRescued, hudi.KindString, true, &p.rescued},
		{hudi.ColumnDoc, hudi.KindString, !o.DropDoc, &p.doc},
	}
	if o.PartitionField == "" {
		// Then the name is a document's as good as any other.
		p.pt = -1
		all = slices.DeleteFunc(all, func(e envelope) bool { return e.place == &p.pt })
	}
	return all
}

// newPlan reads a table's schema, nil before it is created, and adds the
// envelope's and the declared columns that it lacks.
func newPlan(o *Options, all []declared, s *hudi.Schema) (*plan, error) {
	p := &plan{byName: make(map[string]int)}
	old := s
	if s == nil {
		var err error
		if s, err = hudi.NewSchema(o.Table); err != nil {
			return nil, err
		}
	}
	ours := make(map[string]bool)
	var missing []hudi.Column
	for _, e := range p.envelope(o) {
		ours[e.name] = true
		i, ok := s.Lookup(e.name)
		switch {
		case ok && (s.Columns()[i].Kind != e.kind || s.Columns()[i].Type != ""):
			return nil, fmt.Errorf("%w: column %q is a %s, want %s", ErrSchema, e.name, s.Columns()[i].AvroType(), e.kind)
		case ok && e.when:
			*e.place = i
		case e.when && old != nil && slices.Contains([]*int{&p.pt, &p.key, &p.db, &p.id, &p.order}, e.place):
			return nil, fmt.Errorf("%w: no column %q", ErrSchema, e.name)
		case e.when:
			*e.place = s.Len() + len(missing)
			missing = append(missing, hudi.Column{Name: e.name, Kind: e.kind})
		default:
			*e.place = -1
		}
	}
	s, more, err := declaredColumns(all, s)
	if err != nil {
		return nil, err
	}
	if err := p.extend(s, append(missing, more...)); err != nil {
		return nil, err
	}
	p.members()
	return p, p.columns(o, all, ours)
}

// rest makes the plan forget the rows of a batch, so that their numbers can be
// used again.
func (p *plan) rest() {
	for i := range p.fields {
		f := &p.fields[i]
		f.stamp, f.waits = -1, -1
		if f.below != nil {
			f.below.each(func(n *node) { n.stamp = -1 })
		}
	}
}

func (p *plan) extend(s *hudi.Schema, more []hudi.Column) (err error) {
	p.schema = s
	if len(more) > 0 {
		p.schema, err = s.Extend(more...)
	}
	return err
}

// members enters the members that CouchDB itself puts into a document. The
// first field is none: what follows it is what documents begin with.
func (p *plan) members() {
	p.fields = append(p.fields, field{role: roleSkip})
	p.add(field{name: "_id", role: roleID})
	for _, name := range []string{"_rev", "_deleted", "_conflicts", "_deleted_conflicts", "_revisions", "_revs_info", "_local_seq"} {
		p.add(field{name: name, role: roleSkip})
	}
	p.add(field{name: "_attachments", role: roleAttachments})
}

// kind is how the values of a column are held.
func (f fit) kind() hudi.Kind {
	switch f {
	case fitBoolean:
		return hudi.KindBoolean
	case fitInt:
		return hudi.KindInt
	case fitLong:
		return hudi.KindLong
	case fitDouble:
		return hudi.KindDouble
	case fitTimestamp:
		return hudi.KindLong
	case fitDate:
		return hudi.KindInt
	case fitDecimal:
		return hudi.KindBytes
	case fitList, fitStruct:
		return hudi.KindNested
	default:
		return hudi.KindString
	}
}

func (p *plan) add(f field) int {
	f.stamp, f.waits, f.counted = -1, -1, -1
	if f.beside == nil {
		p.byName[f.name] = len(p.fields)
		f.quoted = plainName(f.name)
	}
	p.fields = append(p.fields, f)
	return len(p.fields) - 1
}

// plainName is a member's name in JSON without escapes, and the colon; empty when it
// needs some.
func plainName(name string) string {
	if end, _ := plainText([]byte(name), 0, 0); end < len(name) {
		return ""
	}
	return `"` + name + `":`
}

// find is the place of the field that follows another one, or -1.
func (p *plan) find(after int, name []byte) int {
	if i := p.fields[after].next; p.fields[i].name == string(name) && i > 0 {
		return i
	}
	i, ok := p.byName[string(name)]
	if !ok {
		return -1
	}
	p.fields[after].next = i
	return i
}

// undo takes back what a document did that turned out broken: the fields from
// place n on, and that a field counts.
func (p *plan) undo(n, record int) {
	for i := range p.fields {
		if p.fields[i].counted == record {
			p.fields[i].counted = -1
			p.fresh--
		}
	}
	p.cut(n)
	p.rest()
	p.takeBack(record)
}

// takeBack forgets values of nested columns, from a record on.
func (p *plan) takeBack(record int) {
	for _, g := range p.nested {
		for l := len(g.pending); l > 0 && g.pending[l-1].record >= record; l-- {
			g.pending[l-1] = nestedCell{}
			g.pending = g.pending[:l-1]
		}
	}
}

// cut takes back the fields from place n on.
func (p *plan) cut(n int) {
	for i := n; i < len(p.fields); i++ {
		if f := &p.fields[i]; f.beside == nil {
			delete(p.byName, f.name)
		} else {
			for k := range f.beside.beside.waiting {
				if f.beside.beside.waiting[k] == i {
					f.beside.beside.waiting[k] = -1
				}
			}
		}
	}
	p.fields = p.fields[:n]
	for i := range p.fields {
		if p.fields[i].next >= n {
			p.fields[i].next = 0
		}
	}
}
