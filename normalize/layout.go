package normalize

import (
	"fmt"
	"slices"
	"strings"

	"github.com/couch2hudi/couch2hudi/hudi"
)

// reserved are the names that no column of documents gets.
func reserved() []string {
	return []string{hudi.MetaOperation, hudi.ColumnID, hudi.ColumnRev, hudi.ColumnRevOrder, hudi.ColumnOp, hudi.ColumnDeleted,
		ColumnSeq, hudi.ColumnLeaves, hudi.ColumnAttachments, hudi.ColumnRescued, hudi.ColumnDoc, hudi.ColumnKey, hudi.ColumnDB}
}

// declaredColumns holds the declarations against a table's columns: it returns
// the schema with what they say noted in it, and the columns that it lacks.
func declaredColumns(all []declared, s *hudi.Schema) (*hudi.Schema, []hudi.Column, error) {
	columns := slices.Clone(s.Columns())
	known := map[string]int{}
	for i := range columns {
		known[strings.ToLower(columns[i].Name)] = i
	}
	var missing []hudi.Column
	for i := range all {
		d := &all[i]
		if d.bare {
			continue
		}
		want := d.column(s, d.Format)
		at, there := known[strings.ToLower(want.Name)]
		if !there {
			missing = append(missing, want)
			continue
		}
		var why string
		if have := &columns[at]; have.Name != want.Name {
			why = fmt.Sprintf("the table has a column %q, and engines take upper and lower case for the same", have.Name)
		} else {
			why = d.same(have, &want)
		}
		if why != "" {
			return nil, nil, fmt.Errorf("%w: column %q, declared as %s of %s: %s. A column keeps its type and place for life: declare them so, "+
				"give this one another name, or begin a new table", ErrDeclared, want.Name, typeWords(&want), d.Path, why)
		}
		if n := parseNote(columns[at].Doc, want.Name); n.format != "" {
			want = d.column(s, n.format) // the first format is what Rebuild shows
		}
		columns[at].Doc = want.Doc
	}
	for i := range columns {
		n := parseNote(columns[i].Doc, columns[i].Name)
		switch {
		case n.mask == "":
		case !spoken(all, n.steps):
			return nil, nil, fmt.Errorf("%w: column %q holds values of %s with mask %s, and no mask is declared. Declare it again, or with mask none",
				ErrDeclared, columns[i].Name, pathText(n.steps), n.mask)
		case slices.ContainsFunc(all, func(d declared) bool { return d.unmask && d.Path == pathText(n.steps) }):
			n.mask = ""
			columns[i].Doc = n.doc(columns[i].Name)
		}
	}
	noted, err := hudi.MakeSchema(s.Name, s.Namespace, columns...)
	if err != nil {
		return nil, nil, err
	}
	if noted.Same(s) {
		noted = s
	}
	return noted, missing, nil
}

// columns enters the columns of documents' fields.
func (p *plan) columns(o *Options, all []declared, ours map[string]bool) error {
	of := map[string]*declared{}
	for i := range all {
		if !all[i].bare {
			of[all[i].Name] = &all[i]
		}
	}
	columns := p.schema.Columns()
	for i := range columns {
		c := &columns[i]
		if c.Required {
			return fmt.Errorf("%w: column %q may not be null", ErrSchema, c.Name)
		}
		if ours[c.Name] {
			continue
		}
		note := parseNote(c.Doc, c.Name)
		t := newTarget(o, c, i, &note, of[c.Name])
		p.documents += t.leaves()
		if err := p.enter(o, t, &note); err != nil {
			return err
		}
	}
	p.apart(o)
	p.first = len(p.fields)
	if _, known := p.byName[o.PartitionField]; !known && o.PartitionField != "" {
		role := roleNew
		if o.Others != Inferred {
			role = roleApart
		}
		p.add(field{name: o.PartitionField, role: role, partition: true})
	}
	return nil
}

// newTarget is what a column of the table takes.
func newTarget(o *Options, c *hudi.Column, at int, note *columnNote, d *declared) *target {
	t := &target{column: at, path: pathText(note.steps), conflict: o.Conflict}
	field, whole := note.field()
	if t.whole = whole; whole {
		t.path = field
	}
	l := logicalOf(c)
	switch {
	case c.Kind == hudi.KindNested:
		if s, err := parseShape(c); err == nil { // else another writer's
			t.fit, t.shape = s.fit(), s
		}
	case c.Type != "" && note.declared:
		t.logical(l, note.format)
	case c.Type != "":
	case c.Kind == hudi.KindBoolean:
		t.fit = fitBoolean
	case c.Kind == hudi.KindInt:
		t.fit = fitInt
	case c.Kind == hudi.KindLong:
		t.fit = fitLong
	case c.Kind == hudi.KindDouble:
		t.fit = fitDouble
	case c.Kind == hudi.KindString:
		t.fit = note.text
	}
	if d != nil {
		t.conflict, t.required = d.Conflict, d.Required
		if d.moments != nil {
			t.moments = d.moments // another format may be declared for later values
		}
	}
	if t.conflict == AsString || t.conflict == NewColumn {
		t.beside = newBeside()
	}
	return t
}

// leaves is how many columns of scalars the column is in a file.
func (t *target) leaves() int {
	if t.shape == nil {
		return 1
	}
	return t.shape.leaves()
}

// logical makes the target that of a declared column of a logical type.
func (t *target) logical(l logical, format string) {
	var err error
	switch l.Logical {
	case "timestamp-micros":
		t.fit = fitTimestamp
		t.shown, err = newMoments(format, false)
	case "date":
		t.fit = fitDate
		t.shown, err = newMoments(format, true)
	case "decimal":
		t.fit, t.precision, t.scale, t.size = fitDecimal, l.Precision, l.Scale, l.Size
	}
	if err != nil {
		t.fit = fitNothing // a later release's format
	}
	t.moments = t.shown
}

// enter gives a target its place.
func (p *plan) enter(o *Options, t *target, note *columnNote) error {
	if t.shape != nil {
		p.nested = append(p.nested, t)
	}
	if t.required {
		p.required = append(p.required, t)
	}
	name, whole := note.field()
	i, known := p.byName[name]
	if !known {
		i = p.add(field{name: name, role: roleNew, partition: o.PartitionField == name})
	}
	f := &p.fields[i]
	switch {
	case f.role != roleNew && f.role != roleColumn:
		return nil // CouchDB's own member, which somebody else's column is named after
	case !whole:
		if f.below == nil {
			f.below = &node{stamp: -1}
		}
		n := f.below.reach(note.steps[1:])
		if note.beside {
			return p.side(n.targets, t)
		}
		n.targets = append(n.targets, t)
	case note.beside:
		return p.side(f.targets(), t)
	case f.role == roleNew:
		f.role, f.target = roleColumn, t
	case !note.declared && !slices.ContainsFunc(p.notes(f), func(n columnNote) bool { return n.declared }):
		return fmt.Errorf("%w: two columns for the field %q", ErrSchema, name)
	default:
		f.more = append(f.more, t)
	}
	return nil
}

// notes are the notes of a field's columns.
func (p *plan) notes(f *field) (all []columnNote) {
	for _, t := range f.targets() {
		c := &p.schema.Columns()[t.column]
		all = append(all, parseNote(c.Doc, c.Name))
	}
	return all
}

// targets are the columns of the field as a whole.
func (f *field) targets() []*target {
	if f.role != roleColumn {
		return nil
	}
	return append([]*target{f.target}, f.more...)
}

// side enters a column that takes what others of the same place cannot.
func (p *plan) side(of []*target, t *target) error {
	for _, main := range of {
		name := p.schema.Columns()[main.column].Name
		if strings.HasPrefix(p.schema.Columns()[t.column].Name, name+"_") && main.beside != nil {
			main.beside.column[t.fit] = t.column
			return nil
		}
	}
	return nil // its policy is another one now: it stays, and is null
}

// apart enters what gets no column of its own: with a role of its own when
// Options say so, and fields that are only declared in part.
func (p *plan) apart(o *Options) {
	if o.Others == Inferred {
		return
	}
	for i := range p.fields {
		if f := &p.fields[i]; f.role == roleNew {
			f.role = roleApart
		}
	}
}

// besideName is the name of a column beside another one.
func besideName(column string, f fit) string {
	word := "string"
	switch f {
	case fitBoolean:
		word = "boolean"
	case fitLong:
		word = "long"
	case fitDouble:
		word = "double"
	case fitJSON:
		word = "json"
	default:
	}
	return column + "_" + word
}
