package avro

import (
	"fmt"

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

// Schema is a parsed schema.
type Schema struct {
	root    *Type
	library library.Schema
}

// Parse parses Avro JSON. Names in it are its own: two schemas may give one
// name different meanings.
func Parse(text string) (*Schema, error) {
	s, err := library.ParseWithCache(text, "", &library.SchemaCache{})
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrSchema, err)
	}
	root, err := convert(s, map[string]*Type{})
	if err != nil {
		return nil, err
	}
	return &Schema{root: root, library: s}, nil
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

func primitive(t library.Type) (Kind, bool) {
	switch t {
	case library.Null:
		return Null, true
	case library.Boolean:
		return Boolean, true
	case library.Int:
		return Int, true
	case library.Long:
		return Long, true
	case library.Float:
		return Float, true
	case library.Double:
		return Double, true
	case library.String:
		return String, true
	case library.Bytes:
		return Bytes, true
	default:
		return Null, false
	}
}

// convert makes the tree; named holds the types with names, so that a
// reference leads to the same node.
func convert(s library.Schema, named map[string]*Type) (*Type, error) {
	switch s := s.(type) {
	case *library.NullSchema:
		return &Type{Kind: Null}, nil
	case *library.PrimitiveSchema:
		k, ok := primitive(s.Type())
		if !ok {
			return nil, fmt.Errorf("%w: type %q", ErrSchema, s.Type())
		}
		t := &Type{Kind: k}
		t.setLogical(s.Logical())
		return t, nil
	case *library.RefSchema:
		if t := named[s.Schema().FullName()]; t != nil {
			return t, nil
		}
		return convert(s.Schema(), named)
	case *library.FixedSchema:
		t := &Type{Kind: Fixed, Name: s.FullName(), Size: s.Size()}
		t.setLogical(s.Logical())
		named[t.Name] = t
		return t, nil
	case *library.EnumSchema:
		t := &Type{Kind: Enum, Name: s.FullName(), Symbols: s.Symbols()}
		named[t.Name] = t
		return t, nil
	case *library.RecordSchema:
		return convertRecord(s, named)
	case *library.ArraySchema:
		item, err := convert(s.Items(), named)
		return &Type{Kind: Array, Item: item}, err
	case *library.MapSchema:
		item, err := convert(s.Values(), named)
		return &Type{Kind: Map, Item: item}, err
	case *library.UnionSchema:
		t := &Type{Kind: Union}
		for _, b := range s.Types() {
			branch, err := convert(b, named)
			if err != nil {
				return nil, err
			}
			t.Branches = append(t.Branches, branch)
		}
		return t, nil
	}
	return nil, fmt.Errorf("%w: type %q", ErrSchema, s.Type())
}

func convertRecord(s *library.RecordSchema, named map[string]*Type) (*Type, error) {
	t := &Type{Kind: Record, Name: s.FullName()}
	named[t.Name] = t
	for _, f := range s.Fields() {
		typ, err := convert(f.Type(), named)
		if err != nil {
			return nil, err
		}
		t.Fields = append(t.Fields, Field{Name: f.Name(), Type: typ})
	}
	return t, nil
}

func (t *Type) setLogical(l library.LogicalSchema) {
	if l == nil {
		return
	}
	t.Logical = string(l.Type())
	if d, ok := l.(*library.DecimalLogicalSchema); ok {
		t.Precision, t.Scale = d.Precision(), d.Scale()
	}
}
