package basefile

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/parquet-go/parquet-go"

	"github.com/couch2hudi/couch2hudi/internal/avro"
)

// assembler makes the Avro encoding of a nested value from the leaf columns
// that a file keeps it in. It is a tree of the target's shape.
type assembler struct {
	typ *avro.Type
	// null is the branch of null, -1 for a type that takes none; value the other.
	null, branch int64
	// def is the level from which on a value is there, minDef that of the
	// thing around it: below def means null.
	def int
	// rep and itemDef are the levels of the repeated group of a list or map.
	rep, itemDef int
	// fields are those of a record, nil for one that the file lacks; item the
	// item of a list or the value of a map, after key.
	fields    []*assembler
	key, item *assembler
	// leaf is where a scalar is read.
	leaf *cursor
	how  conversion
	// all are the cursors below, all[0] the one that is looked at.
	all []*cursor
	// bare says that the file has nothing of this type: always null.
	bare bool
}

// assembler plans the column node as a value of t, the type without null. The
// repeated node of a list of two levels is an item and not a list by itself.
func (p *plan) assembler(node *parquet.Column, t *avro.Type, depth int, item bool) (*assembler, error) {
	if depth > maxDepth {
		return nil, fmt.Errorf("%w: nested deeper than %d", ErrUnsupported, maxDepth)
	}
	a := &assembler{typ: t, null: -1, def: node.MaxDefinitionLevel()}
	var err error
	switch {
	case t.Kind == avro.Array:
		err = p.list(a, node, depth, item)
	case t.Kind == avro.Map:
		err = p.mapping(a, node, depth)
	case t.Kind == avro.Record:
		err = p.recordOf(a, node, depth)
	case t.Kind == avro.Union:
		err = fmt.Errorf("%w: a union of %d types", ErrUnsupported, len(t.Branches))
	case !node.Leaf():
		err = fmt.Errorf("%w: composite in the file, %s wanted", avro.ErrSchema, t)
	default:
		if a.how, err = convert(node, t); err == nil {
			a.leaf = p.cursor(node)
			a.all = []*cursor{a.leaf}
		}
	}
	return a, err
}

// nullable plans a node as a value of t, which may be a union with null.
func (p *plan) nullable(node *parquet.Column, t *avro.Type, depth int, item bool) (*assembler, error) {
	inner, null, ok := t.Optional()
	a, err := p.assembler(node, inner, depth+1, item)
	if err != nil {
		return nil, err
	}
	if ok {
		a.null, a.branch = int64(null), int64(1-null)
	}
	return a, nil
}

func (p *plan) recordOf(a *assembler, node *parquet.Column, depth int) error {
	if node.Leaf() {
		return fmt.Errorf("%w: %s in the file, a record wanted", avro.ErrSchema, node.Type())
	}
	for i := range a.typ.Fields {
		f := &a.typ.Fields[i]
		child := node.Column(f.Name)
		if child == nil {
			_, null, ok := f.Type.Optional()
			if !ok {
				return fmt.Errorf("%w: field %q is missing and cannot be null", avro.ErrSchema, f.Name)
			}
			a.fields = append(a.fields, &assembler{bare: true, null: int64(null)})
			continue
		}
		s, err := p.nullable(child, f.Type, depth, false)
		if err != nil {
			return fmt.Errorf("field %q: %w", f.Name, err)
		}
		a.fields = append(a.fields, s)
		a.all = append(a.all, s.all...)
	}
	if len(a.all) == 0 {
		// No field in common: one leaf of the file tells whether there is a record.
		witness, err := firstLeaf(node)
		if err != nil {
			return err
		}
		a.leaf = p.cursor(witness)
		a.all = []*cursor{a.leaf}
	}
	return nil
}

// firstLeaf is the first leaf below a group that is not repeated.
func firstLeaf(node *parquet.Column) (*parquet.Column, error) {
	for _, c := range node.Columns() {
		if c.Repeated() {
			continue
		}
		if c.Leaf() {
			return c, nil
		}
		if leaf, err := firstLeaf(c); err == nil {
			return leaf, nil
		}
	}
	return nil, fmt.Errorf("%w: group %q shares no field with the table's schema", ErrUnsupported, node.Name())
}

// list plans an array in any of the dialects: two levels, where the repeated
// node is the item, three, where it holds the item, or a bare repeated node.
func (p *plan) list(a *assembler, node *parquet.Column, depth int, isItem bool) (err error) {
	repeated := node
	if isItem || !node.Repeated() {
		if node.Leaf() || len(node.Columns()) != 1 || !node.Columns()[0].Repeated() {
			return fmt.Errorf("%w: %q is no list", avro.ErrSchema, node.Name())
		}
		repeated = node.Columns()[0]
	} else {
		// The level of a bare repeated node counts its items.
		a.def--
	}
	a.rep, a.itemDef = repeated.MaxRepetitionLevel(), repeated.MaxDefinitionLevel()
	item := repeated
	if holdsItem(node, repeated, a.typ.Item) {
		item = repeated.Columns()[0]
	}
	if a.item, err = p.nullable(item, a.typ.Item, depth, item == repeated); err == nil {
		a.all = a.item.all
	}
	return err
}

// holdsItem tells a three-level list from a two-level one, as the rules of
// Parquet's LogicalTypes have it.
func holdsItem(list, repeated *parquet.Column, item *avro.Type) bool {
	if list == repeated || repeated.Leaf() || len(repeated.Columns()) != 1 {
		return false
	}
	name := repeated.Name()
	if name != "array" && name != list.Name()+"_tuple" {
		return true
	}
	// A record of one field, or an old writer's way to name a group of three
	// levels: the table's schema decides.
	inner, _, _ := item.Optional()
	return inner.Kind != avro.Record || inner.Field(repeated.Columns()[0].Name()) == nil
}

func (p *plan) mapping(a *assembler, node *parquet.Column, depth int) (err error) {
	if node.Leaf() || len(node.Columns()) != 1 || !node.Columns()[0].Repeated() || len(node.Columns()[0].Columns()) != 2 {
		return fmt.Errorf("%w: %q is no map", avro.ErrSchema, node.Name())
	}
	repeated := node.Columns()[0]
	a.rep, a.itemDef = repeated.MaxRepetitionLevel(), repeated.MaxDefinitionLevel()
	key, value := repeated.Columns()[0], repeated.Columns()[1]
	if strings.EqualFold(value.Name(), mapKey) {
		key, value = value, key
	}
	if a.key, err = p.nullable(key, &avro.Type{Kind: avro.String}, depth, false); err != nil {
		return err
	}
	if a.item, err = p.nullable(value, a.typ.Item, depth, false); err != nil {
		return err
	}
	a.all = append(append(a.all, a.key.all...), a.item.all...)
	return nil
}

// skip takes the one value that stands for nothing from each leaf below.
func (a *assembler) skip() error {
	for _, c := range a.all {
		if _, err := c.next(); err != nil {
			return err
		}
	}
	return nil
}

// value appends one value. For the column itself (top) a null is reported; for
// the others it is written as a branch.
func (a *assembler) value(dst []byte, top bool) (out []byte, null bool, err error) {
	if a.bare {
		return avro.AppendLong(dst, a.null), true, nil
	}
	v, err := a.all[0].peek()
	if err != nil {
		if errors.Is(err, io.EOF) {
			err = fmt.Errorf("%w: column %s has too few values", ErrFormat, a.all[0].name)
		}
		return dst, false, err
	}
	if v.DefinitionLevel() < a.def {
		if err := a.skip(); err != nil {
			return dst, false, err
		}
		if top {
			return dst, true, nil
		}
		if a.null < 0 {
			return dst, false, fmt.Errorf("%w: null in column %s, which takes none", avro.ErrSchema, a.all[0].name)
		}
		return avro.AppendLong(dst, a.null), true, nil
	}
	if a.null >= 0 && !top {
		dst = avro.AppendLong(dst, a.branch)
	}
	switch a.typ.Kind {
	case avro.Record:
		dst, err = a.record(dst)
	case avro.Array, avro.Map:
		dst, err = a.items(dst)
	default:
		if v, err = a.leaf.next(); err == nil {
			dst, err = a.how.appendValue(dst, v)
		}
	}
	return dst, false, err
}

func (a *assembler) record(dst []byte) (out []byte, err error) {
	if a.leaf != nil {
		if _, err := a.leaf.next(); err != nil {
			return dst, err
		}
	}
	for _, f := range a.fields {
		if dst, _, err = f.value(dst, false); err != nil {
			return dst, err
		}
	}
	return dst, nil
}

// items appends a block of items and the end of the list. Their number stands
// in front and is known at the end: the items are moved by its length.
func (a *assembler) items(dst []byte) ([]byte, error) {
	v, err := a.all[0].peek()
	if err != nil {
		return dst, err
	}
	if v.DefinitionLevel() < a.itemDef {
		return append(dst, 0), a.skip()
	}
	start, count := len(dst), int64(0)
	for {
		if a.key != nil {
			if dst, _, err = a.key.value(dst, false); err != nil {
				return dst, err
			}
		}
		if dst, _, err = a.item.value(dst, false); err != nil {
			return dst, err
		}
		count++
		v, err := a.all[0].peek()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return dst, err
		}
		if v.RepetitionLevel() < a.rep {
			break
		}
	}
	var head [10]byte
	prefix := avro.AppendLong(head[:0], count)
	dst = append(dst, prefix...)
	copy(dst[start+len(prefix):], dst[start:len(dst)-len(prefix)])
	copy(dst[start:], prefix)
	return append(dst, 0), nil
}
