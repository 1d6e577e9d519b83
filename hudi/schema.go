package hudi

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// ErrSchema marks a schema that cannot be used.
var ErrSchema = errors.New("bad schema")

// Column is one data column.
type Column struct {
	// Name is legal in Avro: [A-Za-z_][A-Za-z0-9_]*.
	Name string
	// Kind is how its values are held.
	Kind Kind
	// Type is the Avro JSON of the column's type without null, for types that
	// are more than a primitive's name (logical types, fixed, enums, arrays,
	// maps, records). Empty for plain primitives.
	Type string
	// Doc is the Avro "doc" of the field; normalize keeps a document's own
	// field name there when it had to be changed. May be empty.
	Doc string
	// Required says that the column is no union with null. We never create
	// such a column; other writers' tables may have them.
	Required bool
}

// AvroType is the Avro JSON of the column's type without null.
func (c *Column) AvroType() string {
	if c.Type != "" {
		return c.Type
	}
	return `"` + c.Kind.String() + `"`
}

// Schema is the data columns of a table in their order, without Hudi's meta
// columns. It is immutable: Extend makes another one.
type Schema struct {
	// Name and Namespace are those of the Avro record, for the table "docs"
	// "docs_record" in "hoodie.docs".
	Name, Namespace string
	columns         []Column
	index           map[string]int
}

// NewSchema makes the schema of a table of that name.
func NewSchema(table string, columns ...Column) (*Schema, error) {
	n := legalName(table)
	s := &Schema{Name: n + "_record", Namespace: "hoodie." + n}
	return s.Extend(columns...)
}

// MakeSchema makes a schema with the given Avro record name, as read from
// elsewhere.
func MakeSchema(name, namespace string, columns ...Column) (*Schema, error) {
	return (&Schema{Name: name, Namespace: namespace}).Extend(columns...)
}

// Extend is the schema with further columns at its end.
func (s *Schema) Extend(columns ...Column) (*Schema, error) {
	n := &Schema{Name: s.Name, Namespace: s.Namespace,
		columns: make([]Column, 0, len(s.columns)+len(columns)),
		index:   make(map[string]int, len(s.columns)+len(columns))}
	for _, c := range append(append(n.columns, s.columns...), columns...) {
		if !isAvroName(c.Name) {
			return nil, fmt.Errorf("%w: column name %q", ErrSchema, c.Name)
		}
		if _, twice := n.index[c.Name]; twice {
			return nil, fmt.Errorf("%w: two columns named %q", ErrSchema, c.Name)
		}
		n.index[c.Name] = len(n.columns)
		n.columns = append(n.columns, c)
	}
	return n, nil
}

// WithDocs is the schema with the docs of another one's columns of the same
// names, where it has none of its own, also of those inside nested columns.
func (s *Schema) WithDocs(o *Schema) (*Schema, error) {
	columns := slices.Clone(s.columns)
	for i := range columns {
		if at, ok := o.index[columns[i].Name]; ok && columns[i].Doc == "" {
			columns[i].Doc = o.columns[at].Doc
		}
		if at, ok := o.index[columns[i].Name]; ok && columns[i].Kind == KindNested && columns[i].Type != o.columns[at].Type {
			columns[i].Type = docsInside(columns[i].Type, o.columns[at].Type)
		}
	}
	return MakeSchema(s.Name, s.Namespace, columns...)
}

// Columns are the columns in order. The slice is shared and must not be written to.
func (s *Schema) Columns() []Column { return s.columns }

// Len is the number of columns.
func (s *Schema) Len() int { return len(s.columns) }

// Lookup is the place of a column by its name.
func (s *Schema) Lookup(name string) (int, bool) {
	i, ok := s.index[name]
	return i, ok
}

// At is the value of the named column in a row, null when there is none.
func (s *Schema) At(r Row, name string) Value {
	if i, ok := s.index[name]; ok && i < len(r) {
		return r[i]
	}
	return Value{}
}

// Avro is the schema as Avro JSON without the meta columns: what a commit's
// extraMetadata.schema holds.
func (s *Schema) Avro() string { return s.avro(false) }

// AvroWithMeta is the schema as Avro JSON with the five meta columns in front:
// what base file footers and log blocks hold.
func (s *Schema) AvroWithMeta() string { return s.avro(true) }

func (s *Schema) avro(meta bool) string {
	var b strings.Builder
	b.WriteString(`{"type":"record","name":` + quote(s.Name))
	if s.Namespace != "" {
		b.WriteString(`,"namespace":` + quote(s.Namespace))
	}
	b.WriteString(`,"fields":[`)
	sep := ""
	if meta {
		for _, m := range MetaColumns() {
			b.WriteString(sep + `{"name":"` + m + `","type":["null","string"],"doc":"","default":null}`)
			sep = ","
		}
	}
	for i := range s.columns {
		c := &s.columns[i]
		b.WriteString(sep + `{"name":` + quote(c.Name) + `,"type":`)
		sep = ","
		if c.Required {
			b.WriteString(c.AvroType())
		} else {
			b.WriteString(`["null",` + c.AvroType() + `]`)
		}
		if c.Doc != "" {
			b.WriteString(`,"doc":` + quote(c.Doc))
		}
		if !c.Required {
			b.WriteString(`,"default":null`)
		}
		b.WriteString("}")
	}
	b.WriteString("]}")
	return b.String()
}

// Same says whether two schemas have the same columns in the same order.
func (s *Schema) Same(o *Schema) bool {
	if s == o {
		return true
	}
	if s == nil || o == nil || len(s.columns) != len(o.columns) {
		return false
	}
	for i := range s.columns {
		if s.columns[i] != o.columns[i] {
			return false
		}
	}
	return true
}

func isAvroName(s string) bool {
	for i := range len(s) {
		c := s[i]
		letter := c == '_' || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z')
		if !letter && (i == 0 || c < '0' || c > '9') {
			return false
		}
	}
	return s != ""
}

// legalName replaces what Avro does not take in a name, as Spark does for the
// record name of a table.
func legalName(s string) string {
	b := []byte(s)
	for i, c := range b {
		if !isAvroName("_" + string(c)) {
			b[i] = '_'
		}
	}
	if len(b) == 0 || (b[0] >= '0' && b[0] <= '9') {
		b = append([]byte("_"), b...)
	}
	return string(b)
}
