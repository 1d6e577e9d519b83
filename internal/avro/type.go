package avro

import (
	"encoding/json"
	"fmt"
	"sync"

	library "github.com/hamba/avro/v2"
)

// Kind is an Avro type without its details.
type Kind uint8

// The kinds.
const (
	Null Kind = iota
	Boolean
	Int
	Long
	Float
	Double
	String
	Bytes
	Fixed
	Enum
	Record
	Array
	Map
	Union
)

// Type is a node of a parsed schema. It may be part of a cycle, when a record
// holds itself. It is read-only.
type Type struct {
	Kind Kind
	// Name is the full name of a record, enum or fixed.
	Name string
	// Logical is the logical type, "" for none or one that is unknown.
	Logical          string
	Precision, Scale int
	// Size is the number of bytes of a fixed.
	Size int
	// Symbols are those of an enum.
	Symbols []string
	// Fields are those of a record.
	Fields []Field
	// Item is the type of an array's items or a map's values.
	Item *Type
	// Branches are those of a union.
	Branches []*Type
}

// Field is a field of a record.
type Field struct {
	Name string
	Type *Type
}

// Schema is a parsed schema. It is safe for concurrent use.
type Schema struct {
	root *Type
	text string
	// library is parsed when Go values are first encoded or decoded: reading
	// rows does without, and the library takes its time.
	once    sync.Once
	library library.Schema
	err     error
	// encoding keeps the encoders that the library has made of Go types.
	encoding library.API
}

// Parse parses Avro JSON. Names in it are its own: two schemas may give one
// name different meanings. The error wraps ErrSchema.
func Parse(text string) (*Schema, error) {
	var v any
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrSchema, err)
	}
	root, err := (&parser{named: map[string]*Type{}}).parse(v, "")
	if err != nil {
		return nil, err
	}
	return &Schema{root: root, text: text}, nil
}

// parsed is the library's view of the schema.
func (s *Schema) parsed() (library.Schema, error) {
	s.once.Do(func() {
		s.encoding = configuration(0)
		s.library, s.err = library.ParseWithCache(s.text, "", &library.SchemaCache{})
		if s.err != nil {
			s.err = fmt.Errorf("%w: %w", ErrSchema, s.err)
		}
	})
	return s.library, s.err
}

// Type is the root of the schema.
func (s *Schema) Type() *Type { return s.root }

// Optional takes the null out of a union of two: the type beside it, the index
// of null and true. A type that is no such union is returned as it is.
func (t *Type) Optional() (inner *Type, null int, ok bool) {
	if t.Kind != Union || len(t.Branches) != 2 {
		return t, 0, false
	}
	for i, b := range t.Branches {
		if b.Kind == Null {
			return t.Branches[1-i], i, true
		}
	}
	return t, 0, false
}

// Field is the field of a record by its name, nil when there is none.
func (t *Type) Field(name string) *Field {
	for i := range t.Fields {
		if t.Fields[i].Name == name {
			return &t.Fields[i]
		}
	}
	return nil
}
