package normalize

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"

	"github.com/couch2hudi/couch2hudi/hudi"
)

// nestedCell is a value of a nested column. It waits for the end of the batch,
// when all members that the column's type needs are known.
type nestedCell struct {
	record int
	value  token
}

// stranger is a member that a struct of a column has no place for.
type stranger struct {
	of  *shape
	key string
}

// nesting is scratch memory of values on their way into nested columns.
type nesting struct {
	// g is the column, cell the value in hand.
	g    *target
	cell *nestedCell
	// out is its datum, tokens those of the members of the structs that are open,
	// steps where the value in hand stands.
	out    []byte
	tokens []token
	steps  []step
	// look is nil when the column may not grow. strangers are what it has no
	// place for, in the order in which they appeared.
	look      *sketcher
	sketches  map[stranger]*sketch
	strangers []stranger
	// misfits is how many parts of the value have no place, slots how many scalars
	// and nulls its datum has.
	misfits, slots int
}

// maxMisfits is how many parts of one value are told one by one; of more the
// field as a whole goes to _rescued.
const maxMisfits = 32

// maxSlots is how many scalars and nulls one value may have in a file: a list of
// empty objects has many times as many as it has bytes. What has more goes to
// _rescued.
const maxSlots = 100_000

// nest puts all values that wait for it into nested columns.
func (n *Normalizer) nest() error {
	for _, g := range n.plan.nested {
		if len(g.pending) == 0 {
			continue
		}
		if err := n.nestColumn(g); err != nil {
			return err
		}
	}
	n.plan.takeBack(0)
	return nil
}

func (n *Normalizer) nestColumn(g *target) error {
	w := &n.nesting
	w.g, w.look = g, n.o.sketcher()
	rescues, waiting := len(n.rescues), len(n.waiting)
	n.nestCells()
	if len(w.strangers) == 0 {
		return nil
	}
	grown := n.plan.grow(w, &n.o)
	w.look = nil
	clear(w.sketches)
	clear(w.strangers)
	w.strangers = w.strangers[:0]
	if !grown {
		return nil
	}
	clear(n.rescues[rescues:])
	n.rescues, n.waiting = n.rescues[:rescues], n.waiting[:waiting]
	n.nestCells()
	columns := slices.Clone(n.plan.schema.Columns())
	columns[g.column].Type = g.shape.avro()
	s, err := hudi.MakeSchema(n.plan.schema.Name, n.plan.schema.Namespace, columns...)
	n.plan.schema = s
	return err
}

// nestCells makes the cells of all values of the column.
func (n *Normalizer) nestCells() {
	w := &n.nesting
	for i := range w.g.pending {
		c := &w.g.pending[i]
		n.inner.data = n.bodies[c.record]
		w.cell, w.misfits, w.slots, w.out = c, 0, 0, w.out[:0]
		w.steps = append(w.steps[:0], step{key: w.g.path, index: -1})
		rescues := len(n.rescues)
		if !n.encode(w.g.shape, &c.value, 0) {
			n.rescues = n.rescues[:rescues]
			n.misfit(w.g, n.inner.data, c.record, &c.value)
			continue
		}
		large := w.slots > maxSlots
		if large || w.misfits > maxMisfits {
			n.rescues = append(n.rescues[:rescues], rescue{record: c.record, name: w.g.path, value: c.value})
		}
		if large {
			continue
		}
		v := hudi.Nested(n.arena.copy(w.out))
		if n.result.Records[c.record].Row[w.g.column] = v; w.misfits <= maxMisfits {
			n.keepText(w.g, v, n.inner.data, c.record, &c.value)
		}
	}
}

// encode appends the datum of a value as Avro writes it. False leaves it out: the
// value does not fit.
func (n *Normalizer) encode(s *shape, t *token, depth int) bool {
	w := &n.nesting
	switch {
	case s.leaf != nil:
		v, ok := n.fitted(s.leaf, n.inner.data, t)
		if ok {
			w.out = appendDatum(w.out, v)
		}
		return ok
	case !s.takes(n.inner.data, t):
		return false
	case s.item != nil:
		return n.encodeList(s.item, t, depth+1)
	default:
		n.encodeStruct(s, t, depth+1)
	}
	return true
}

// takes says whether a value is of a list's or a struct's kind.
func (s *shape) takes(body []byte, t *token) bool {
	return t.kind == tokenComposite && (body[t.start] == '{') == (s.item == nil)
}

// optional appends a value that may be null, and is when it does not fit.
func (n *Normalizer) optional(s *shape, t *token, depth int) {
	w := &n.nesting
	w.slots++
	if t.kind != tokenNull {
		start := len(w.out)
		w.out = append(w.out, s.value)
		if n.encode(s, t, depth) {
			return
		}
		w.out = w.out[:start]
		n.misfitPart(s, t)
	}
	w.out = append(w.out, s.null)
}

// encodeList appends the items in one block, whose number stands in front and is
// known at the end. A list with a null in it, or with an item that does not fit,
// does not fit as a whole: Spark's compactions fail on nulls in lists.
func (n *Normalizer) encodeList(item *shape, t *token, depth int) bool {
	w := &n.nesting
	start, at, count := len(w.out), len(w.steps), 0
	rescues, misfits := len(n.rescues), w.misfits
	w.steps = append(w.steps, step{})
	in := enter(&n.inner, t)
	for ; w.slots <= maxSlots && in.next(); count++ {
		w.steps[at].index = count
		w.slots++
		w.out = append(w.out, item.value)
		if in.value.kind == tokenNull || !n.encode(item, &in.value, depth) {
			w.out, w.steps = w.out[:start], w.steps[:at]
			n.rescues, w.misfits = n.rescues[:rescues], misfits
			return false
		}
	}
	w.steps = w.steps[:at]
	if count > 0 {
		var head [binary.MaxVarintLen64]byte
		w.out = slices.Insert(w.out, start, binary.AppendVarint(head[:0], int64(count))...)
	}
	w.out = append(w.out, 0)
	return true
}

func (n *Normalizer) encodeStruct(s *shape, t *token, depth int) {
	w := &n.nesting
	base, at, next := len(w.tokens), len(w.steps), 0
	w.tokens = slices.Grow(w.tokens, len(s.members))[:base+len(s.members)]
	clear(w.tokens[base:])
	w.steps = append(w.steps, step{index: -1})
	for in := enter(&n.inner, t); in.next(); {
		key := n.key(n.inner.data, &in.name)
		i, known := next, true
		if next >= len(s.members) || s.members[next].key != string(key) {
			i, known = s.place[string(key)]
		}
		if !known {
			w.steps[at].key = string(key)
			n.strange(s, &in.value, depth)
			continue
		}
		w.tokens[base+i], next = in.value, i+1
	}
	for i := range s.members {
		w.steps[at].key = s.members[i].key
		n.optional(s.members[i].of, &w.tokens[base+i], depth) // structs inside may move the tokens, never change these
	}
	w.tokens, w.steps = w.tokens[:base], w.steps[:at]
}

// strange takes a member that the struct has no place for; its name is the last
// step.
func (n *Normalizer) strange(s *shape, t *token, depth int) {
	w := &n.nesting
	if t.kind == tokenNull {
		return
	}
	n.misfitPart(nil, t)
	id := stranger{of: s, key: w.steps[len(w.steps)-1].key}
	if w.look == nil || len(id.key) > maxName {
		return
	}
	k := w.sketches[id]
	if k == nil {
		if k = w.look.place(); k == nil {
			return
		}
		if w.sketches == nil {
			w.sketches = map[stranger]*sketch{}
		}
		w.sketches[id] = k
		w.strangers = append(w.strangers, id)
	}
	w.look.see(k, n.inner.data, t, depth)
}

// misfitPart takes a part of a value that does not fit: s is its type, nil when
// there is none for it.
func (n *Normalizer) misfitPart(s *shape, t *token) {
	w := &n.nesting
	path := pathText(w.steps)
	if w.g.conflict == Fail && s != nil {
		n.fail(w.g, w.cell.record, fmt.Sprintf("%s at %s where the column has %s", words(t), path, s.words()))
		return
	}
	if w.misfits++; w.misfits <= maxMisfits {
		n.rescues = append(n.rescues, rescue{record: w.cell.record, name: path, value: *t, path: true, budget: s == nil})
	}
}

// appendDatum appends a scalar as Avro writes it.
func appendDatum(dst []byte, v hudi.Value) []byte {
	switch v.Kind() {
	case hudi.KindBoolean:
		if v.Boolean() {
			return append(dst, 1)
		}
		return append(dst, 0)
	case hudi.KindDouble:
		return binary.LittleEndian.AppendUint64(dst, math.Float64bits(v.Double()))
	case hudi.KindString:
		return append(binary.AppendVarint(dst, int64(len(v.Text()))), v.Text()...)
	default:
		return binary.AppendVarint(dst, v.Long())
	}
}

// grow gives the strangers a place, as long as the limits allow it.
func (p *plan) grow(w *nesting, o *Options) bool {
	grown := false
	for _, id := range w.strangers {
		if len(id.of.members) >= o.NestedWidth {
			continue
		}
		taken := newNames(memberNames()...)
		for i := range id.of.members {
			taken.take(id.of.members[i].name)
		}
		name := taken.column(id.key)
		of := w.sketches[id].shape(name, id.of.below(), w.g.conflict)
		if of != nil && of.leaf == nil && p.documents+of.leaves() > o.MaxColumns {
			of = newLeaf(fitJSON)
		}
		if of == nil || p.documents+of.leaves() > o.MaxColumns {
			continue
		}
		id.of.add(member{key: id.key, name: name, of: of})
		p.documents += of.leaves()
		grown = true
	}
	return grown
}

// appendNested writes a nested cell as the JSON text that it stands for: a null
// in a struct is a member that is not there. b begins with its datum; what
// follows it is returned.
func appendNested(dst []byte, s *shape, b []byte) (out, rest []byte) {
	switch {
	case s.leaf != nil:
		v, rest := readDatum(s.leaf.fit.kind(), b)
		return appendCell(dst, s.leaf, v), rest
	case s.item != nil:
		dst = append(dst, '[')
		for sep := false; ; {
			count, size := binary.Varint(b)
			if b = b[max(size, 0):]; count < 0 { // another writer's: the block's size follows
				_, size = binary.Varint(b)
				count, b = -count, b[max(size, 0):]
			}
			if count <= 0 || len(b) == 0 {
				return append(dst, ']'), b
			}
			for range count {
				if sep {
					dst = append(dst, ',')
				}
				sep = true
				var there bool
				if there, b = s.item.there(b); !there {
					dst = append(dst, "null"...)
					continue
				}
				dst, b = appendNested(dst, s.item, b)
			}
		}
	}
	sep := byte('{')
	for i := range s.members {
		m := &s.members[i]
		var there bool
		if there, b = m.of.there(b); there {
			dst = append(appendQuoted(append(dst, sep), m.key), ':')
			dst, b = appendNested(dst, m.of, b)
			sep = ','
		}
	}
	if sep == '{' {
		dst = append(dst, sep)
	}
	return append(dst, '}'), b
}

// there reads the branch of a union with null.
func (s *shape) there(b []byte) (bool, []byte) {
	if len(b) == 0 {
		return false, b
	}
	return b[0] == s.value, b[1:]
}

func readDatum(k hudi.Kind, b []byte) (v hudi.Value, rest []byte) {
	const doubleBytes = 8
	switch {
	case k == hudi.KindBoolean && len(b) > 0:
		return hudi.Boolean(b[0] != 0), b[1:]
	case k == hudi.KindDouble && len(b) >= doubleBytes:
		return hudi.Double(math.Float64frombits(binary.LittleEndian.Uint64(b))), b[doubleBytes:]
	case k == hudi.KindString:
		length, size := binary.Varint(b)
		if size > 0 && length >= 0 && length <= int64(len(b)-size) {
			end := size + int(length)
			return hudi.StringOf(b[size:end:end]), b[end:]
		}
	default:
		if i, size := binary.Varint(b); size > 0 {
			return hudi.Long(i), b[size:]
		}
	}
	return hudi.Value{}, nil
}
