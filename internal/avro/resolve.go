package avro

import (
	"fmt"
	"slices"
)

// Resolver copies data from one schema to another: fields are found by name,
// the branches of unions by type, numbers are widened. What the reader's
// schema has and the writer's lacks becomes null. It is safe for concurrent use.
type Resolver struct {
	writer, reader *Type
	steps          map[pair]*step
	root           *step
}

type pair struct{ writer, reader *Type }

// step says how to copy a datum of one type to another.
type step struct {
	writer, reader *Type
	// same: the bytes are the same, or would be after a skip.
	same bool
	// fields, by place in the reader's record: the place in the writer's, -1
	// for one that becomes null.
	fields []int
	// sub are the steps below: of the writer's fields (nil: skipped), of the
	// items, of the writer's branches.
	sub []*step
	// branch are the reader's branches for the writer's, -1 for none.
	branch []int
	// wrap is the reader's branch for a writer that is no union.
	wrap int
	// symbols are the reader's places of the writer's symbols.
	symbols []int
}

// NewResolver prepares copying from writer to reader. The error wraps
// ErrSchema and says where the two do not fit.
func NewResolver(writer, reader *Type) (*Resolver, error) {
	r := &Resolver{writer: writer, reader: reader, steps: map[pair]*step{}}
	root, err := r.plan(writer, reader)
	if err != nil {
		return nil, err
	}
	r.root = root
	return r, nil
}

func (r *Resolver) plan(w, t *Type) (*step, error) {
	p := pair{w, t}
	if s := r.steps[p]; s != nil {
		return s, nil
	}
	s := &step{writer: w, reader: t, same: w == t || sameType(w, t, map[pair]bool{})}
	r.steps[p] = s
	if s.same {
		return s, nil
	}
	var err error
	switch {
	case w.Kind == Union:
		err = r.planUnion(s)
	case t.Kind == Union:
		err = r.planWrap(s)
	case w.Kind == Record && t.Kind == Record:
		err = r.planRecord(s)
	case w.Kind == t.Kind && (w.Kind == Array || w.Kind == Map):
		var sub *step
		sub, err = r.plan(w.Item, t.Item)
		s.sub = []*step{sub}
	case w.Kind == Enum && t.Kind == Enum:
		for _, name := range w.Symbols {
			s.symbols = append(s.symbols, slices.Index(t.Symbols, name))
		}
	case !widens(w, t):
		err = misfit(w, t)
	}
	return s, err
}

func (r *Resolver) planRecord(s *step) error {
	s.sub = make([]*step, len(s.writer.Fields))
	for i := range s.reader.Fields {
		f := &s.reader.Fields[i]
		at := slices.IndexFunc(s.writer.Fields, func(o Field) bool { return o.Name == f.Name })
		s.fields = append(s.fields, at)
		if at < 0 {
			if _, _, ok := f.Type.Optional(); !ok && f.Type.Kind != Null {
				return fmt.Errorf("%w: field %q is missing and cannot be null", ErrSchema, f.Name)
			}
			continue
		}
		sub, err := r.plan(s.writer.Fields[at].Type, f.Type)
		if err != nil {
			return fmt.Errorf("field %q: %w", f.Name, err)
		}
		s.sub[at] = sub
	}
	return nil
}

func (r *Resolver) planUnion(s *step) error {
	for _, w := range s.writer.Branches {
		to, at := s.reader, -1
		if s.reader.Kind == Union {
			if at = fitting(w, s.reader); at >= 0 {
				to = s.reader.Branches[at]
			}
		}
		if at < 0 && (s.reader.Kind == Union || w.Kind == Null) {
			// An error only when such a value turns up.
			s.branch, s.sub = append(s.branch, -1), append(s.sub, nil)
			continue
		}
		sub, err := r.plan(w, to)
		if err != nil {
			return err
		}
		s.branch, s.sub = append(s.branch, at), append(s.sub, sub)
	}
	return nil
}

func (r *Resolver) planWrap(s *step) error {
	s.wrap = fitting(s.writer, s.reader)
	if s.wrap < 0 {
		return misfit(s.writer, s.reader)
	}
	sub, err := r.plan(s.writer, s.reader.Branches[s.wrap])
	s.sub = []*step{sub}
	return err
}

// fitting is the branch of a union for a type: one of the same kind (and name,
// where several records are to choose from), else one that it widens to.
func fitting(w *Type, union *Type) int {
	kinds, at := 0, -1
	for i, b := range union.Branches {
		if b.Kind == w.Kind {
			if b.Name == w.Name {
				return i
			}
			kinds, at = kinds+1, i
		}
	}
	if kinds == 1 {
		return at
	}
	return slices.IndexFunc(union.Branches, func(b *Type) bool { return widens(w, b) })
}

func misfit(w, t *Type) error {
	return fmt.Errorf("%w: %s cannot be read as %s", ErrSchema, w, t)
}

// String names the type for messages.
func (t *Type) String() string {
	name := kindNames[t.Kind]
	if t.Kind == Fixed {
		name = fmt.Sprintf("%s(%d)", name, t.Size)
	}
	if t.Logical == logicalDecimal {
		return fmt.Sprintf("%s %s(%d,%d)", name, t.Logical, t.Precision, t.Scale)
	}
	if t.Logical != "" {
		return name + " " + t.Logical
	}
	return name
}

const logicalDecimal = "decimal"

var kindNames = [...]string{"null", "boolean", "int", "long", "float", "double", "string", "bytes", "fixed", "enum", "record", "array", "map", "union"}

// widens says whether Avro's rules let data of w be read as t.
func widens(w, t *Type) bool {
	if unit(w) != unit(t) && unit(w) != "" && unit(t) != "" {
		return false
	}
	switch t.Kind {
	case Long:
		return w.Kind == Int || w.Kind == Long
	case Float:
		return w.Kind == Int || w.Kind == Long || w.Kind == Float
	case Double:
		return w.Kind == Int || w.Kind == Long || w.Kind == Float || w.Kind == Double
	case String, Bytes:
		return w.Kind == String || w.Kind == Bytes
	case Fixed:
		return w.Kind == Fixed && w.Size == t.Size
	default:
		return w.Kind == t.Kind
	}
}

// unit is the part of a logical type that changes what a number means.
func unit(t *Type) string {
	if t.Logical == logicalDecimal {
		return fmt.Sprintf("%s scale %d", t.Logical, t.Scale)
	}
	return t.Logical
}

// Fits says whether data of w, a scalar, can be read as t by widening.
func Fits(w, t *Type) bool { return widens(w, t) }

// sameType says whether two types have the same encoding and field names.
func sameType(a, b *Type, seen map[pair]bool) bool {
	if a == b || seen[pair{a, b}] {
		return true
	}
	seen[pair{a, b}] = true
	if a.Kind != b.Kind || a.Size != b.Size || unit(a) != unit(b) || !slices.Equal(a.Symbols, b.Symbols) ||
		len(a.Fields) != len(b.Fields) || len(a.Branches) != len(b.Branches) {
		return false
	}
	for i := range a.Fields {
		if a.Fields[i].Name != b.Fields[i].Name || !sameType(a.Fields[i].Type, b.Fields[i].Type, seen) {
			return false
		}
	}
	for i := range a.Branches {
		if !sameType(a.Branches[i], b.Branches[i], seen) {
			return false
		}
	}
	return a.Item == nil || sameType(a.Item, b.Item, seen)
}
