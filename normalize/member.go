package normalize

import (
	"math"
	"strings"

	"github.com/couch2hudi/couch2hudi/hudi"
)

// waiting is a value whose field has no column yet.
type waiting struct {
	record, field int
	value         token
	// fit is what the value alone asks for.
	fit fit
	// replaced says that the same name came again later in the document.
	replaced bool
}

// rescue is a value that goes to _rescued.
type rescue struct {
	record int
	name   string
	value  token
	budget bool
}

// member takes one member of the document that the cursor stands on. Of a name
// that comes twice the last value counts, as in CouchDB.
func (n *Normalizer) member(name, value *token) {
	body := n.scan.data
	key := name.text(body)
	if name.kind == tokenEscaped {
		n.buf = appendUnescaped(n.buf[:0], key)
		key = n.buf
	}
	i := n.plan.find(n.cursor.last, key)
	if i < 0 {
		n.unknown(name, key, value)
		return
	}
	n.cursor.last = i
	f := &n.plan.fields[i]
	if f.partition {
		n.cursor.part = *value
	}
	switch f.role {
	case roleColumn:
		n.cell(f, value)
	case roleNew:
		n.wait(i, value)
	case roleID:
		n.cursor.foreign = value.kind < tokenString || string(n.plain(value)) != n.cursor.change.ID
	case roleAttachments:
		cell := &n.cursor.row[n.plan.attachments]
		*cell = hudi.Value{}
		if value.kind == tokenComposite {
			*cell = hudi.StringOf(body[value.start:value.end])
		}
	case roleSkip:
	}
}

// plain is the text of a string value; for another it is its JSON text.
func (n *Normalizer) plain(t *token) []byte {
	switch t.kind {
	case tokenString:
		return t.text(n.scan.data)
	case tokenEscaped:
		n.buf = appendUnescaped(n.buf[:0], t.text(n.scan.data))
		return n.buf
	default:
		return n.scan.data[t.start:t.end]
	}
}

// cell puts a value into its column, or to the rescued ones.
func (n *Normalizer) cell(f *field, t *token) {
	cell := &n.cursor.row[f.column]
	if f.stamp == n.cursor.record {
		*cell = hudi.Value{}
		n.unrescue(f.name)
	}
	f.stamp = n.cursor.record
	if t.kind == tokenNull {
		return
	}
	v, ok := n.fitted(f.fit, n.scan.data, t)
	if !ok {
		n.rescues = append(n.rescues, rescue{record: n.cursor.record, name: f.name, value: *t})
		return
	}
	*cell = v
}

// unrescue takes back what the document that is being read said before under
// the same name.
func (n *Normalizer) unrescue(name string) {
	for i := len(n.rescues) - 1; i >= 0 && n.rescues[i].record == n.cursor.record; i-- {
		if n.rescues[i].name == name {
			n.rescues[i].value.kind = tokenNull
		}
	}
}

// fitted is a value as its column holds it; false when the column cannot hold
// exactly what the document says.
func (n *Normalizer) fitted(f fit, body []byte, t *token) (hudi.Value, bool) {
	switch f {
	case fitBoolean:
		return hudi.Boolean(t.kind == tokenTrue), t.kind == tokenTrue || t.kind == tokenFalse
	case fitLong:
		return hudi.Long(t.long), t.kind == tokenLong
	case fitInt:
		return hudi.Int(int32(t.long)), t.kind == tokenLong && t.long >= math.MinInt32 && t.long <= math.MaxInt32
	case fitDouble:
		return double(body, t)
	case fitText:
		if t.kind == tokenString || t.kind == tokenEscaped {
			return n.str(body, t), true
		}
	case fitJSON:
		if t.kind == tokenComposite {
			return hudi.StringOf(body[t.start:t.end]), true
		}
	case fitMixed:
		return n.str(body, t), true
	case fitNothing:
	}
	return hudi.Value{}, false
}

func double(body []byte, t *token) (hudi.Value, bool) {
	switch t.kind {
	case tokenLong:
		return hudi.Double(float64(t.long)), t.long >= -maxExactLong && t.long <= maxExactLong
	case tokenFloat:
		d, ok := exactDouble(body[t.start:t.end])
		return hudi.Double(d), ok
	default:
		return hudi.Value{}, false
	}
}

// str is a string's text, without a copy when there is nothing to decode, or
// another value's JSON text.
func (n *Normalizer) str(body []byte, t *token) hudi.Value {
	switch t.kind {
	case tokenString:
		return hudi.StringOf(t.text(body))
	case tokenEscaped:
		n.buf = appendUnescaped(n.buf[:0], t.text(body))
		return hudi.StringOf(n.arena.copy(n.buf))
	default:
		return hudi.StringOf(body[t.start:t.end])
	}
}

// unknown takes a member that no column stands for. Within the budget its name
// becomes a field that waits for the end of the batch, when all its values are
// known.
func (n *Normalizer) unknown(name *token, key []byte, value *token) {
	text := shared(key)
	if name.kind == tokenEscaped {
		text = shared(n.arena.copy(key))
	}
	if len(key) > maxName || n.plan.documents+n.plan.fresh >= n.o.MaxColumns {
		// A null stays too: it may replace a value of the same name.
		n.rescues = append(n.rescues, rescue{record: n.cursor.record, name: text, value: *value, budget: true})
		return
	}
	if value.kind == tokenNull {
		return
	}
	// The plan outlives the batch, and may not keep its documents alive.
	i := n.plan.add(field{name: strings.Clone(text), role: roleNew})
	n.plan.fields[n.cursor.last].next = i
	n.cursor.last = i
	n.wait(i, value)
}

// wait keeps a value until its field's type is known.
func (n *Normalizer) wait(i int, value *token) {
	f := &n.plan.fields[i]
	if f.stamp == n.cursor.record && f.waits >= 0 {
		n.waiting[f.waits].replaced = true
	}
	f.stamp, f.waits = n.cursor.record, -1
	if value.kind == tokenNull {
		return
	}
	f.waits = len(n.waiting)
	w := waiting{record: n.cursor.record, field: i, value: *value, fit: wants(n.scan.data, value)}
	if w.fit != fitNothing && f.counted < 0 {
		f.counted = n.cursor.record
		n.plan.fresh++
	}
	n.waiting = append(n.waiting, w)
}
