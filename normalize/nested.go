package normalize

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/couch2hudi/couch2hudi/hudi"
)

// shape is the type of a nested column, or of a value inside one: a list, a
// struct, or a leaf.
type shape struct {
	// leaf takes scalars, and arrays and objects that stay JSON text; nil for a
	// list or a struct.
	leaf *target
	// item is that of a list's items.
	item *shape
	// members are those of a struct in the order of the type, place their places
	// by the documents' names.
	members []member
	place   map[string]int
	// record and namespace name a struct's type.
	record, namespace string
	// null is the branch of null in the union that the value stands in, value the
	// other one, both as Avro writes them. A column's own is not in its type.
	null, value byte
}

// member is one of a struct: key is its name in documents.
type member struct {
	key, name string
	of        *shape
}

// Branches of a union of two, as Avro writes them.
const (
	firstBranch  = 0
	secondBranch = 2
)

func newLeaf(f fit) *shape {
	return &shape{leaf: &target{fit: f}, null: firstBranch, value: secondBranch}
}

func newList(item *shape) *shape {
	return &shape{item: item, null: firstBranch, value: secondBranch}
}

func newStruct(record, namespace string) *shape {
	return &shape{place: map[string]int{}, record: record, namespace: namespace, null: firstBranch, value: secondBranch}
}

// below is the namespace of the types inside a struct, as Spark names them: a
// name may then stand in several of them.
func (s *shape) below() string { return s.namespace + "." + s.record }

func (s *shape) add(m member) {
	s.place[m.key] = len(s.members)
	s.members = append(s.members, m)
}

// fit is what a column of that type takes.
func (s *shape) fit() fit {
	switch {
	case s.leaf != nil:
		return s.leaf.fit
	case s.item != nil:
		return fitList
	default:
		return fitStruct
	}
}

// leaves is how many columns of scalars the type is made of in a file.
func (s *shape) leaves() int {
	switch {
	case s.leaf != nil:
		return 1
	case s.item != nil:
		return s.item.leaves()
	}
	n := 0
	for i := range s.members {
		n += s.members[i].of.leaves()
	}
	return n
}

// avro is the JSON of the type. The members' docs say what a column's doc says
// of a column: the name in documents, and how text came to be text.
func (s *shape) avro() string {
	var b strings.Builder
	s.write(&b)
	return b.String()
}

func (s *shape) write(b *strings.Builder) {
	switch {
	case s.leaf != nil:
		b.WriteString(`"` + s.leaf.fit.kind().String() + `"`)
	case s.item != nil:
		b.WriteString(`{"type":"array","items":`)
		s.item.optional(b)
		b.WriteByte('}')
	default:
		fmt.Fprintf(b, `{"type":"record","name":%q,"namespace":%q,"fields":[`, s.record, s.namespace)
		for i := range s.members {
			m := &s.members[i]
			if i > 0 {
				b.WriteByte(',')
			}
			fmt.Fprintf(b, `{"name":%q,"type":`, m.name)
			m.of.optional(b)
			note := columnNote{steps: []step{{key: m.key, index: -1}}, text: m.of.fit()}
			if doc := note.doc(m.name); doc != "" {
				b.WriteString(`,"doc":`)
				b.Write(appendQuoted(nil, doc))
			}
			if m.of.null == firstBranch {
				b.WriteString(`,"default":null`)
			}
			b.WriteByte('}')
		}
		b.WriteString("]}")
	}
}

func (s *shape) optional(b *strings.Builder) {
	if s.null == firstBranch {
		b.WriteString(`["null",`)
		s.write(b)
		b.WriteByte(']')
		return
	}
	b.WriteByte('[')
	s.write(b)
	b.WriteString(`,"null"]`)
}

// words is the type for people, as Spark writes it.
func (s *shape) words() string {
	switch {
	case s.leaf != nil && s.leaf.fit == fitJSON:
		return docJSON
	case s.leaf != nil:
		return s.leaf.fit.kind().String()
	case s.item != nil:
		return "array<" + s.item.words() + ">"
	}
	parts := make([]string, len(s.members))
	for i := range s.members {
		parts[i] = s.members[i].name + ": " + s.members[i].of.words()
	}
	return "struct<" + strings.Join(parts, ", ") + ">"
}

// errShape says that a nested type is none that documents' values go into.
var errShape = errors.New("not a type of ours")

// parseShape reads the type of a nested column. Types that we do not make, and
// such as take no null, are an error: the column is another writer's.
func parseShape(c *hudi.Column) (*shape, error) {
	return parseType(json.RawMessage(c.AvroType()), &columnNote{text: fitText}, 0)
}

// maxShape bounds the nesting of a type that is read.
const maxShape = 64

func parseType(raw json.RawMessage, note *columnNote, depth int) (*shape, error) {
	if depth > maxShape {
		return nil, errShape
	}
	var name string
	if json.Unmarshal(raw, &name) == nil {
		return parseLeaf(name, note)
	}
	var t struct {
		Type            json.RawMessage
		Name, Namespace string
		LogicalType     string
		Items           json.RawMessage
		Fields          []json.RawMessage
	}
	if err := json.Unmarshal(raw, &t); err != nil || t.LogicalType != "" {
		return nil, errShape
	}
	if json.Unmarshal(t.Type, &name) != nil {
		return parseType(t.Type, note, depth+1)
	}
	switch name {
	case "array":
		item, err := parseOptional(t.Items, &columnNote{text: fitText}, depth+1)
		return newList(item), err
	case "record":
		s := newStruct(t.Name, t.Namespace)
		if at := strings.LastIndexByte(t.Name, '.'); at >= 0 {
			s.record, s.namespace = t.Name[at+1:], t.Name[:at]
		}
		for _, f := range t.Fields {
			if err := s.parseMember(f, depth+1); err != nil {
				return nil, err
			}
		}
		if len(s.members) == 0 {
			return nil, errShape
		}
		return s, nil
	}
	return parseLeaf(name, note)
}

func (s *shape) parseMember(raw json.RawMessage, depth int) error {
	var f struct {
		Name, Doc string
		Type      json.RawMessage
	}
	if err := json.Unmarshal(raw, &f); err != nil {
		return errShape
	}
	note := parseNote(f.Doc, f.Name)
	of, err := parseOptional(f.Type, &note, depth)
	if err != nil {
		return err
	}
	key, _ := note.field()
	if _, twice := s.place[key]; twice {
		return errShape
	}
	s.add(member{key: key, name: f.Name, of: of})
	return nil
}

// parseOptional reads a union with null, in either order.
func parseOptional(raw json.RawMessage, note *columnNote, depth int) (*shape, error) {
	var union []json.RawMessage
	if json.Unmarshal(raw, &union) != nil || len(union) != 2 {
		return nil, errShape
	}
	inner, null, value := union[1], byte(firstBranch), byte(secondBranch)
	if string(union[0]) != `"null"` {
		inner, null, value = union[0], secondBranch, firstBranch
		if string(union[1]) != `"null"` {
			return nil, errShape
		}
	}
	s, err := parseType(inner, note, depth)
	if err != nil {
		return nil, err
	}
	s.null, s.value = null, value
	return s, nil
}

func parseLeaf(name string, note *columnNote) (*shape, error) {
	switch name {
	case "boolean":
		return newLeaf(fitBoolean), nil
	case "int":
		return newLeaf(fitInt), nil
	case "long":
		return newLeaf(fitLong), nil
	case "double":
		return newLeaf(fitDouble), nil
	case "string":
		return newLeaf(note.text), nil
	}
	return nil, errShape
}
