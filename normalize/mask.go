package normalize

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"

	"github.com/couch2hudi/couch2hudi/changes"
)

// What a mask makes of a value. A null stays: it says nothing.
const (
	// MaskNone leaves values as they are. For a column that was masked before
	// it has to be said.
	MaskNone = "none"
	// MaskDrop takes the member out; an array's item becomes null.
	MaskDrop = "drop"
	// MaskHash puts HMAC-SHA-256 with Options.Salt in its place, in hex: of a
	// string's text, of anything else's JSON text.
	MaskHash = "hash"
	// MaskRedact puts "[redacted]" in its place.
	MaskRedact = "redact"
)

const redacted = `"[redacted]"`

// withheld is what is said of a text in which nothing can be masked.
const withheld = "its text is withheld, since it cannot be read and columns are masked"

// mask is what is done to a value. Where several paths mean the same value the
// greatest counts, which leaves the least of it.
type mask uint8

const (
	maskNothing mask = iota
	maskHash
	maskRedact
	maskDrop
)

// masked checks what a mask asks for.
func (c *declared) masked(o *Options) error {
	switch c.Mask {
	case "":
		return nil
	case MaskNone:
		c.Mask, c.unmask = "", true
		c.bare = c.Type == ""
		return nil
	case MaskDrop:
		c.bare = true
		return nil
	case MaskRedact:
	case MaskHash:
		if o.Salt == "" {
			return errors.New("mask hash needs a salt")
		}
	default:
		return fmt.Errorf("mask %q: it is %s, %s, %s or %s", c.Mask, MaskNone, MaskDrop, MaskHash, MaskRedact)
	}
	if wild(c.steps) {
		c.bare = true
		return nil
	}
	if c.Type == "" {
		c.Type = "string"
	}
	if c.Type != "string" {
		return fmt.Errorf("with mask %s the column is a string, not %s", c.Mask, c.Type)
	}
	return nil
}

// masker masks documents. It is nil when nothing is declared so.
type masker struct {
	// document is the tree of what is masked, row the same below a row's member
	// doc.
	document, row *node
	mac           hash.Hash
	scan          scanner
	out, buf      []byte
	sum           [sha256.Size]byte
	// active are the nodes that mean a value which is being read, those of the
	// values around it below them.
	active []*node
}

func newMasker(all []declared, salt string) *masker {
	m := &masker{document: &node{}, row: &node{}, mac: hmac.New(sha256.New, []byte(salt))}
	some := false
	for i := range all {
		kind := map[string]mask{MaskDrop: maskDrop, MaskHash: maskHash, MaskRedact: maskRedact}[all[i].Mask]
		if kind != maskNothing {
			some = true
			at := m.document.reach(all[i].steps)
			at.mask = max(at.mask, kind)
		}
	}
	if !some {
		return nil
	}
	m.row.keys = map[string]*node{"doc": m.document}
	return m
}

// changes are the changes of a batch with their texts masked. The batch itself
// stays as it is. What cannot be read is not let through: such a change is
// broken, and says so.
func (m *masker) changes(cs []changes.Change) []changes.Change {
	masked := make([]changes.Change, len(cs))
	for i := range cs {
		c := cs[i]
		if len(c.Raw) > 0 {
			raw, err := m.text(m.row, c.Raw)
			if c.Raw = raw; err != nil && c.Defect != "" {
				c.Defect += "; " + withheld
			}
		}
		if !noBody(c.Body) {
			body, err := m.text(m.document, c.Body)
			if c.Body = body; err != nil && c.Defect == "" {
				c.Defect = err.Error() + "; " + withheld
			}
		}
		masked[i] = c
	}
	return masked
}

// text is a JSON object with what is declared below a node masked: itself when
// there is nothing of it.
func (m *masker) text(n *node, data []byte) ([]byte, error) {
	if err := m.scan.check(data); err != nil {
		return nil, err
	}
	m.out, m.active = m.out[:0], append(m.active[:0], n)
	from := m.inside(0, m.scan.space(0), 0)
	if from == 0 {
		return data, nil
	}
	return append(append(make([]byte, 0, len(m.out)+len(data)-from), m.out...), data[from:]...), nil
}

// inside masks what is below the composite at place i, which the nodes from at on
// mean. What stands before from is in m.out already; it returns the new from.
func (m *masker) inside(at, i, from int) int {
	s := &m.scan
	object := s.data[i] == '{'
	var name, value token
	i = s.space(i + 1)
	top := len(m.active)
	for item := 0; s.data[i] != '}' && s.data[i] != ']'; item++ {
		start := i
		if object {
			s.value(i, &name)
			i = s.colon(name.end)
			key := name.text(s.data)
			if name.kind == tokenEscaped {
				m.buf = appendUnescaped(m.buf[:0], key)
				key = m.buf
			}
			m.member(at, top, key)
		} else {
			m.item(at, top, item)
		}
		s.value(i, &value)
		i = s.space(value.end)
		last := s.data[i] != ','
		if !last {
			i = s.space(i + 1)
		}
		switch strictest := m.strictest(top); {
		case len(m.active) == top:
		case strictest == maskDrop && object:
			from = m.drop(from, start, i, last)
		default:
			from = m.value(top, strictest, &value, from)
		}
		m.active = m.active[:top]
	}
	return from
}

// member makes the nodes active that mean the member of that name of what the
// nodes from at to top mean. CouchDB's own members of a document are none of a
// wildcard's.
func (m *masker) member(at, top int, name []byte) {
	for _, n := range m.active[at:top] {
		if next := n.keys[string(name)]; next != nil {
			m.active = append(m.active, next)
		}
		if n.anyKey != nil && (n != m.document || len(name) == 0 || name[0] != '_') {
			m.active = append(m.active, n.anyKey)
		}
	}
}

// item is member for the items of an array.
func (m *masker) item(at, top, item int) {
	for _, n := range m.active[at:top] {
		if next := n.items[item]; next != nil {
			m.active = append(m.active, next)
		}
		if n.anyItem != nil {
			m.active = append(m.active, n.anyItem)
		}
	}
}

// strictest is the greatest mask of the nodes from top on.
func (m *masker) strictest(top int) (is mask) {
	for _, n := range m.active[top:] {
		is = max(is, n.mask)
	}
	return is
}

// drop takes out a member from start to the place of the next one, or that of
// the closing brace.
func (m *masker) drop(from, start, next int, last bool) int {
	m.out = append(m.out, m.scan.data[from:start]...)
	if last {
		m.out = bytes.TrimSuffix(bytes.TrimRight(m.out, " \t\r\n"), []byte(","))
	}
	return next
}

// value masks one value, or what is below it, where the nodes from top on mean
// it.
func (m *masker) value(top int, is mask, t *token, from int) int {
	switch {
	case t.kind == tokenNull:
		return from
	case is == maskNothing && t.kind == tokenComposite:
		return m.inside(top, t.start, from)
	case is == maskNothing:
		return from
	}
	m.out = append(m.out, m.scan.data[from:t.start]...)
	switch is {
	case maskHash:
		m.out = m.hash(m.out, t)
	case maskRedact:
		m.out = append(m.out, redacted...)
	default:
		m.out = append(m.out, "null"...)
	}
	return t.end
}

// hash appends the HMAC of a value as a JSON string.
func (m *masker) hash(dst []byte, t *token) []byte {
	text := m.scan.data[t.start:t.end]
	if t.kind == tokenString || t.kind == tokenEscaped {
		m.buf = appendUnescaped(m.buf[:0], t.text(m.scan.data))
		text = m.buf
	}
	m.mac.Reset()
	_, _ = m.mac.Write(text) // a hash never fails
	dst = append(dst, '"')
	dst = hex.AppendEncode(dst, m.mac.Sum(m.sum[:0]))
	return append(dst, '"')
}
