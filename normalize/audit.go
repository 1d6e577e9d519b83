package normalize

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/couch2hudi/couch2hudi/hudi"
)

// maxAudited bounds the fields without a column that an Audit tells apart.
const maxAudited = 1000

// Audit counts in a table's rows which values of documents' fields columns hold,
// and which are in _rescued alone. It keeps counts and no rows, of at most the
// table's columns and 1,000 further fields. It is not safe for concurrent use.
type Audit struct {
	schema *hudi.Schema
	fields []Audited
	// of is the place of a column's field; -1 for what no document's field makes.
	of []int
	// places are those of fields, by name; parts those of declared parts of fields,
	// inside those of parts of lists and structs, by path.
	places, parts, inside map[string]int
	// met is, by field, the last row in which a column held the value, or
	// _rescued did.
	met     []int
	rows    int
	more    int
	broken  int
	scan    scanner
	inner   scanner
	buf     []byte
	rfc     *moments
	day     *moments
	without int
}

// Audited is what an Audit found of one field, or of a declared part of one.
type Audited struct {
	// Path is where in documents the values stand, Field the name of a whole
	// field; it is empty for a part.
	Path, Field string
	// Inside is the field whose column holds all but these values: parts of lists
	// and structs, [*] for any place in a list. How many there are beside those
	// rescued is not counted.
	Inside string
	// Columns are the names of the field's columns, in their order; none when it
	// has none.
	Columns []string
	// Held is the values that a column holds, Rescued those that none does.
	Held, Rescued int
	// Kinds are the rescued ones by what they are; Times and Days are the strings
	// among them that are RFC 3339 or yyyy-MM-dd.
	Kinds       RescuedKinds
	Times, Days int
}

// RescuedKinds counts values by what they are. Numbers are those that neither a
// long nor a double holds exactly, Wide the longs that no double holds.
type RescuedKinds struct{ Booleans, Longs, Wide, Doubles, Numbers, Strings, Composites int }

// Words tells the kinds for people: "12 strings, 1 boolean".
func (k *RescuedKinds) Words() string {
	var parts []string
	for _, one := range []struct {
		n          int
		word, many string
	}{
		{k.Strings, "string", "strings"}, {k.Longs, "integer", "integers"}, {k.Doubles, "other number", "other numbers"},
		{k.Numbers, "number beyond long and double", "numbers beyond long and double"}, {k.Booleans, "boolean", "booleans"},
		{k.Composites, "array or object", "arrays or objects"},
	} {
		switch {
		case one.n == 1:
			parts = append(parts, "1 "+one.word)
		case one.n > 1:
			parts = append(parts, fmt.Sprintf("%d %s", one.n, one.many))
		}
	}
	return strings.Join(parts, ", ")
}

// Different is how many kinds there are.
func (k *RescuedKinds) Different() (n int) {
	for _, count := range []int{k.Booleans, k.Longs, k.Doubles, k.Numbers, k.Strings, k.Composites} {
		n += min(1, count)
	}
	return n
}

// NewAudit begins an audit of rows of a schema. partition is the name of the
// partition column, empty for none.
func NewAudit(s *hudi.Schema, partition string) (*Audit, error) {
	a := &Audit{schema: s, of: make([]int, s.Len()), places: map[string]int{}, parts: map[string]int{}, inside: map[string]int{}, rfc: &moments{format: FormatRFC3339}}
	var err error
	if a.day, err = newMoments(formatDay, true); err != nil {
		return nil, err
	}
	ours := append(reserved(), partition)
	for i, c := range s.Columns() {
		a.of[i] = -1
		if slices.Contains(ours, c.Name) || strings.HasPrefix(c.Name, "_hoodie_") {
			continue
		}
		o := Describe(&c)
		key, places := o.Path, a.parts
		if o.Whole {
			key, places = o.Field, a.places
		}
		at, known := places[key]
		if !known {
			at = a.field(Audited{Path: o.Path}, places, key)
			if o.Whole {
				a.fields[at].Field = o.Field
			}
		}
		a.of[i] = at
		a.fields[at].Columns = append(a.fields[at].Columns, c.Name)
	}
	a.scan.member = a.member
	a.inner.member = a.part
	return a, nil
}

func (a *Audit) field(f Audited, places map[string]int, key string) int {
	places[key] = len(a.fields)
	a.fields, a.met = append(a.fields, f), append(a.met, 0)
	return len(a.fields) - 1
}

// Add looks at one row, which it does not keep. Tombstones have no values.
func (a *Audit) Add(row hudi.Row) {
	if a.schema.At(row, hudi.ColumnDeleted).Boolean() {
		return
	}
	a.rows++
	for i := range row {
		if at := a.of[i]; at >= 0 && !row[i].IsNull() && a.met[at] != a.rows {
			a.met[at] = a.rows
			a.fields[at].Held++
		}
	}
	if text := a.schema.At(row, hudi.ColumnRescued); !text.IsNull() && a.scan.object(text.Raw()) != nil {
		a.broken++
	}
}

// Broken is how many rows had a _rescued that is no JSON object, as another writer
// may have left it; what stands before its fault was counted.
func (a *Audit) Broken() int { return a.broken }

// Rows is how many live rows were looked at.
func (a *Audit) Rows() int { return a.rows }

// More is how many rescued values are of fields beyond those told apart.
func (a *Audit) More() int { return a.more }

// Fields are what was found: fields with columns in the order of the schema, then
// those without one, the most frequent first.
func (a *Audit) Fields() []Audited {
	all := slices.Clone(a.fields)
	slices.SortStableFunc(all, func(x, y Audited) int {
		if len(x.Columns) > 0 || len(y.Columns) > 0 {
			return cmp.Compare(min(1, len(y.Columns)), min(1, len(x.Columns)))
		}
		return cmp.Compare(y.Rescued, x.Rescued)
	})
	return all
}

// member takes one member of _rescued. What begins with an underscore is no field
// of a document, but for the parts of fields.
func (a *Audit) member(name, value *token) {
	a.buf = appendUnescaped(a.buf[:0], name.text(a.scan.data))
	switch {
	case string(a.buf) == rescuedPaths && value.kind == tokenComposite:
		if a.scan.data[value.start] == '{' {
			_ = a.inner.object(a.scan.data[value.start:value.end]) // the scanner has found it to be JSON
		}
	case len(a.buf) > 0 && a.buf[0] == '_':
	default:
		a.rescued(true, a.scan.data, value)
	}
}

// part takes a member of _rescued's parts: a declared part, or one of a list or
// struct, whose places in lists are taken together.
func (a *Audit) part(name, value *token) {
	a.buf = appendUnescaped(a.buf[:0], name.text(a.inner.data))
	if _, declared := a.parts[string(a.buf)]; declared {
		a.rescued(false, a.inner.data, value)
		return
	}
	steps, err := parsePath(string(a.buf))
	if err != nil || value.kind == tokenNull {
		return
	}
	for i := range steps {
		if steps[i].index >= 0 {
			steps[i] = step{wild: true}
		}
	}
	key := pathText(steps)
	at, known := a.inside[key]
	switch {
	case known:
	case a.without >= maxAudited:
		a.more++
		return
	default:
		a.without++
		at = a.field(Audited{Path: key, Inside: steps[0].key}, a.inside, key)
	}
	a.fields[at].Rescued++
	a.kind(&a.fields[at], a.inner.data, value)
}

// rescued counts the value of the field called a.buf, unless a column holds it too:
// then _rescued only tells how it was written.
func (a *Audit) rescued(whole bool, data []byte, value *token) {
	if value.kind == tokenNull {
		return
	}
	places := a.parts
	if whole {
		places = a.places
	}
	at, known := places[string(a.buf)]
	switch {
	case known:
	case a.without >= maxAudited || len(a.buf) > maxName:
		a.more++
		return
	default:
		a.without++
		name := string(a.buf)
		at = a.field(Audited{Field: name, Path: pathText([]step{{key: name, index: -1}})}, places, name)
	}
	if a.met[at] == a.rows {
		return
	}
	a.met[at] = a.rows
	f := &a.fields[at]
	f.Rescued++
	a.kind(f, data, value)
}

func (a *Audit) kind(f *Audited, data []byte, value *token) {
	switch wants(data, value) {
	case fitBoolean:
		f.Kinds.Booleans++
	case fitLong:
		f.Kinds.Longs++
		if value.long > maxExactLong || value.long < -maxExactLong {
			f.Kinds.Wide++
		}
	case fitDouble:
		f.Kinds.Doubles++
	case fitText:
		f.Kinds.Strings++
		text := value.text(data)
		if us, ok := a.rfc.parse(text); ok && us >= leastMicros && us <= mostMicros {
			f.Times++
		}
		if _, ok := matchPattern(a.day.pattern, text); ok {
			f.Days++
		}
	case fitJSON:
		f.Kinds.Composites++
	default:
		f.Kinds.Numbers++
	}
}
