package normalize

import (
	"bytes"
	"fmt"
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
	// path says that name is the path of a part of a field.
	path bool
	// gone says that the same name came again later in the document.
	gone, budget bool
	// exact says that a column holds the value too, but not its text.
	exact bool
}

// member takes one member of the document that the cursor stands on. Of a name
// that comes twice the last value counts, as in CouchDB.
func (n *Normalizer) member(name, value *token) {
	i := n.plan.fields[n.cursor.last].next
	if !n.scan.met {
		key := n.key(n.scan.data, name)
		if n.cursor.dead {
			n.last(key, value)
			return
		}
		if i = n.plan.find(n.cursor.last, key); i < 0 {
			n.unknown(name, key, value)
			n.expect()
			return
		}
	}
	n.known(i, value)
	n.expect()
}

// expect tells the scanner which member is likely to come next.
func (n *Normalizer) expect() {
	n.scan.expected = n.plan.fields[n.plan.fields[n.cursor.last].next].quoted
}

// known takes the value of a field that is known.
func (n *Normalizer) known(i int, value *token) {
	body := n.scan.data
	n.cursor.last = i
	f := &n.plan.fields[i]
	if f.partition {
		n.cursor.part = *value
	}
	if f.below != nil {
		n.parts(f, value)
		f = &n.plan.fields[i]
	}
	switch f.role {
	case roleColumn:
		n.cell(f, value)
	case roleNew:
		n.wait(i, value)
	case roleApart:
		n.setApart(f.name, value)
	case roleID:
		n.cursor.foreign = value.kind < tokenString || string(n.plain(value)) != n.cursor.change.ID
	case roleAttachments:
		cell := &n.cursor.row[n.plan.attachments]
		*cell = hudi.Value{}
		n.unrescue(f.name, false)
		if value.kind == tokenComposite {
			*cell = hudi.StringOf(body[value.start:value.end])
		} else if n.exact {
			n.rescues = append(n.rescues, rescue{record: n.cursor.record, name: f.name, value: *value, exact: true})
		}
	case roleSkip:
	}
}

// key is a member's name; it may stand in n.buf.
func (n *Normalizer) key(body []byte, name *token) []byte {
	if name.kind != tokenEscaped {
		return name.text(body)
	}
	n.buf = appendUnescaped(n.buf[:0], name.text(body))
	return n.buf
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

// cell puts a value into the field's columns, or to the rescued ones.
func (n *Normalizer) cell(f *field, t *token) {
	if f.stamp == n.cursor.record {
		n.unset(f.target)
		for _, g := range f.more {
			n.unset(g)
		}
		n.unrescue(f.name, false)
	}
	f.stamp = n.cursor.record
	if t.kind == tokenNull {
		n.keepNull(f.name, t)
		return
	}
	n.put(f.target, t)
	for _, g := range f.more {
		n.put(g, t)
	}
}

// put puts a value into one column, or where its misfits go.
func (n *Normalizer) put(g *target, t *token) {
	if g.shape != nil && g.shape.takes(n.scan.data, t) {
		g.pending = append(g.pending, nestedCell{n.cursor.record, *t})
		return
	}
	v, ok := n.fitted(g, n.scan.data, t)
	if !ok {
		n.misfit(g, n.scan.data, n.cursor.record, t)
		return
	}
	n.cursor.row[g.column] = v
	if n.exact {
		n.keepText(g, v, n.scan.data, n.cursor.record, t)
	}
}

// keepText keeps a value's text where the cell does not tell it and nothing else
// would.
func (n *Normalizer) keepText(g *target, v hudi.Value, body []byte, record int, t *token) {
	if n.exact && g.whole && !n.tells(g, v, body, t) {
		n.rescues = append(n.rescues, rescue{record: record, name: g.path, value: *t, exact: true})
	}
}

// unset takes back what the document that is being read said before of a
// column.
func (n *Normalizer) unset(g *target) {
	n.cursor.row[g.column] = hudi.Value{}
	if l := len(g.pending); l > 0 && g.pending[l-1].record == n.cursor.record {
		g.pending = g.pending[:l-1]
	}
	if g.beside == nil {
		return
	}
	for k, column := range g.beside.column {
		if column >= 0 {
			n.cursor.row[column] = hudi.Value{}
		}
		if w := g.beside.waiting[k]; w >= 0 {
			if f := &n.plan.fields[w]; f.stamp == n.cursor.record && f.waits >= 0 {
				n.waiting[f.waits].replaced = true
			}
		}
	}
}

// misfit does what the policy says with a value that its column cannot hold.
func (n *Normalizer) misfit(g *target, body []byte, record int, t *token) {
	k := fitNothing
	switch g.conflict {
	case Fail:
		n.fail(g, record, fmt.Sprintf("%s where the column is %s", words(t), typeWords(&n.plan.schema.Columns()[g.column])))
		return
	case AsString:
		k = fitMixed
	case NewColumn:
		k = wants(body, t)
	}
	switch {
	case k == fitNothing:
		n.rescues = append(n.rescues, rescue{record: record, name: g.path, value: *t, path: !g.whole})
	case g.beside.column[k] >= 0:
		row := n.cursor.row
		if record < len(n.result.Records) {
			row = n.result.Records[record].Row
		}
		side := target{fit: k, column: g.beside.column[k], path: g.path, whole: g.whole}
		v, _ := n.fitted(&side, body, t) // k is what the value fits
		row[side.column] = v
		n.keepText(&side, v, body, record, t)
	default:
		if g.beside.waiting[k] < 0 {
			n.plan.stale = true
			name := besideName(n.plan.schema.Columns()[g.column].Name, k)
			g.beside.waiting[k] = n.plan.add(field{name: name, role: roleNew, beside: g})
		}
		n.waitFor(g.beside.waiting[k], record, k, t)
	}
}

// fail keeps the first reason to stop the run.
func (n *Normalizer) fail(g *target, record int, what string) {
	if n.failed != nil {
		return
	}
	var id string
	if record < len(n.result.Records) {
		id = n.result.Records[record].Key.Record
	} else {
		id = n.cursor.change.ID
	}
	column := n.plan.schema.Columns()[g.column].Name
	n.failed = fmt.Errorf("%w: document %q, column %q (%s): %s. Change the document, or the column's on_conflict to %s, %s or %s",
		ErrConflict, clip(id), column, g.path, what, Rescue, AsString, NewColumn)
}

// words names a value's kind, and never the value: it may be a secret.
func words(t *token) string {
	switch t.kind {
	case tokenNull:
		return "null"
	case tokenFalse, tokenTrue:
		return "a boolean"
	case tokenLong, tokenBig, tokenFloat:
		return "a number"
	case tokenString, tokenEscaped:
		return "a string"
	default:
		return "an array or object"
	}
}

// tells says whether a cell gives the value's JSON text back.
func (n *Normalizer) tells(g *target, v hudi.Value, body []byte, t *token) bool {
	text := body[t.start:t.end]
	switch g.fit {
	case fitBoolean, fitLong, fitInt, fitText, fitJSON, fitAny:
		return true
	case fitMixed:
		isString := t.kind == tokenString || t.kind == tokenEscaped
		return isString != isValue(v.Raw())
	default:
		n.buf = appendCell(n.buf[:0], g, v)
		return bytes.Equal(n.buf, text)
	}
}

// keepNull keeps a null where nothing else tells it from a field that is not
// there.
func (n *Normalizer) keepNull(name string, t *token) {
	if n.exact {
		n.rescues = append(n.rescues, rescue{record: n.cursor.record, name: name, value: *t, exact: true})
	}
}

// setApart takes the value of a field that gets no column.
func (n *Normalizer) setApart(name string, t *token) {
	if n.o.Others == Rescued {
		// A null stays too: it may replace a value of the same name.
		n.rescues = append(n.rescues, rescue{record: n.cursor.record, name: name, value: *t})
	}
}

// last keeps a member of a deleted document's body: no column holds it.
func (n *Normalizer) last(key []byte, value *token) {
	if i, ok := n.plan.byName[string(key)]; ok {
		if r := n.plan.fields[i].role; r == roleID || r == roleSkip {
			return
		}
	}
	n.rescues = append(n.rescues, rescue{record: n.cursor.record, name: string(key), value: *value, exact: true})
}

// unrescue takes back what the document that is being read said before under
// the same name.
func (n *Normalizer) unrescue(name string, path bool) {
	for i := len(n.rescues) - 1; i >= 0 && n.rescues[i].record == n.cursor.record; i-- {
		if n.rescues[i].name == name && n.rescues[i].path == path {
			n.rescues[i].gone = true
		}
	}
}

// unknown takes a member that no column stands for. Within the budget its name
// becomes a field that waits for the end of the batch, when all its values are
// known.
func (n *Normalizer) unknown(name *token, key []byte, value *token) {
	if n.o.Others == Dropped {
		return
	}
	text := shared(key)
	if name.kind == tokenEscaped {
		text = shared(n.arena.copy(key))
	}
	over := len(key) > maxName || n.plan.documents+n.plan.fresh >= n.o.MaxColumns
	if n.o.Others == Rescued || over {
		// A null stays too: it may replace a value of the same name.
		n.rescues = append(n.rescues, rescue{record: n.cursor.record, name: text, value: *value, budget: n.o.Others == Inferred})
		return
	}
	if value.kind == tokenNull {
		n.keepNull(text, value)
		return
	}
	// The plan outlives the batch, and may not keep its documents alive.
	i := n.plan.add(field{name: strings.Clone(text), role: roleNew})
	n.plan.fields[n.cursor.last].next = i
	n.cursor.last = i
	if n.exact {
		n.unrescue(text, false)
	}
	n.wait(i, value)
}

// wait keeps a value until its field's type is known.
func (n *Normalizer) wait(i int, value *token) {
	f := &n.plan.fields[i]
	again := f.stamp == n.cursor.record
	if again && f.waits >= 0 {
		n.waiting[f.waits].replaced = true
	}
	if again && n.exact {
		n.unrescue(f.name, false)
	}
	if value.kind == tokenNull {
		f.stamp, f.waits = n.cursor.record, -1
		n.keepNull(f.name, value)
		return
	}
	n.waitFor(i, n.cursor.record, wants(n.scan.data, value), value)
}

func (n *Normalizer) waitFor(i, record int, wanted fit, value *token) {
	f := &n.plan.fields[i]
	f.stamp, f.waits = record, len(n.waiting)
	if wanted != fitNothing && f.counted < 0 {
		f.counted = record
		n.plan.fresh++
	}
	n.waiting = append(n.waiting, waiting{record: record, field: i, value: *value, fit: wanted})
}
