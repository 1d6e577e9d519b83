package couchdb

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"

	"github.com/couch2hudi/couch2hudi/changes"
)

const (
	// textSlab is how much text shares one allocation. It is small, because
	// whoever keeps one of the strings keeps the slab.
	textSlab = 16 << 10
	revSlab  = 256
)

// parser turns envelopes into changes. The short texts of many rows share an
// allocation, and so do the leaves.
type parser struct {
	includeDesign bool
	text          strings.Builder
	revs          []changes.Rev
	scratch       []byte
}

// change makes the change of a row that was scanned; skip says that the row is
// not to be delivered. bad is the scanner's complaint about raw.
func (p *parser) change(e *envelope, raw []byte, bad error) (c changes.Change, skip bool) {
	c.Seq = p.seq(e)
	if bad != nil {
		return broken(c, raw, "row cannot be read: "+bad.Error()), false
	}
	id, err := p.id(e.id)
	switch {
	case err != nil:
		return broken(c, raw, "id is "+err.Error()), false
	case len(id) == 0:
		return broken(c, raw, "row has no id"), false
	case !p.includeDesign && bytes.HasPrefix(id, []byte("_design/")):
		return c, true
	}
	c.ID = p.keep(id)
	c.Deleted = e.deleted
	if c.Leaves, err = p.leaves(e.revs); err != nil {
		return broken(c, raw, err.Error()), false
	}
	if len(c.Leaves) == 0 {
		return broken(c, raw, "row has no revision"), false
	}
	if e.doc != nil && e.doc[0] != '{' {
		return broken(c, raw, "document is not an object"), false
	}
	c.Body = e.doc
	if len(c.Leaves) > 1 && c.Body != nil {
		p.winnerFirst(&c)
	}
	c.Rev = c.Leaves[0]
	if c.Body == nil && !c.Deleted {
		c.Raw = raw // to be asked for again; should that be in vain, for quarantine
	}
	return c, false
}

func broken(c changes.Change, raw []byte, defect string) changes.Change {
	c.Raw, c.Defect = raw, defect
	return c
}

// seq is the row's sequence; empty when it has none.
func (p *parser) seq(e *envelope) string {
	if e.seqText && bytes.IndexByte(e.seq, '\\') >= 0 {
		plain, err := unescape(p.scratch[:0], e.seq)
		if err != nil {
			return ""
		}
		p.scratch = plain
		return p.keep(plain)
	}
	return p.keep(e.seq)
}

// id decodes a document's id; the result is valid until the next call.
func (p *parser) id(raw []byte) ([]byte, error) {
	plain, err := unescape(p.scratch[:0], raw)
	p.scratch = plain[:0]
	return plain, err
}

// leaves reads the revisions into a slice of the slab.
func (p *parser) leaves(raw [][]byte) ([]changes.Rev, error) {
	if cap(p.revs)-len(p.revs) < len(raw) {
		p.revs = make([]changes.Rev, 0, max(revSlab, len(raw)))
	}
	first := len(p.revs)
	for _, text := range raw {
		rev, err := p.rev(text)
		if err != nil {
			return nil, err
		}
		p.revs = append(p.revs, rev)
	}
	return p.revs[first:len(p.revs):len(p.revs)], nil
}

// rev reads one revision. The usual ones, with a generation of a few digits,
// cost no allocation of their own; changes.ParseRev judges the others.
func (p *parser) rev(text []byte) (changes.Rev, error) {
	const short = 9 // digits that cannot overflow the generation's bound
	dash := bytes.IndexByte(text, '-')
	if dash < 1 || dash > short || text[0] == '0' || dash == len(text)-1 || bytes.IndexByte(text, '\\') >= 0 {
		return changes.ParseRev(string(text))
	}
	generation, err := strconv.ParseInt(string(text[:dash]), 10, 64)
	if err != nil || text[0] < '1' {
		return changes.Rev{}, fmt.Errorf("%w: %q", changes.ErrRev, clip(text))
	}
	return changes.Rev{Generation: generation, Hash: p.keep(text[dash+1:])}, nil
}

// winnerFirst puts the included document's revision in front. CouchDB lists
// it first by itself, PouchDB Server does not.
func (p *parser) winnerFirst(c *changes.Change) {
	winner, err := p.rev(topLevel(c.Body, "_rev"))
	if err != nil {
		return
	}
	for i, leaf := range c.Leaves {
		if leaf == winner {
			copy(c.Leaves[1:i+1], c.Leaves[:i])
			c.Leaves[0] = winner
			return
		}
	}
}

// topLevel is the text of a string at a document's top level; nil when there
// is none or the document cannot be read.
func topLevel(doc []byte, key string) []byte {
	i := blanks(doc, 1)
	var found []byte
	for i < len(doc) && doc[i] == '"' {
		k, next, err := name(doc, i)
		if err != nil {
			return nil
		}
		tok, isText, next, err := token(doc, next)
		if err != nil {
			return nil
		}
		if isText && string(k) == key {
			found = tok
		}
		if i = blanks(doc, next); i < len(doc) && doc[i] == ',' {
			i = blanks(doc, i+1)
		}
	}
	return found
}

// keep copies a short text into the slab.
func (p *parser) keep(b []byte) string {
	if len(b) == 0 {
		return ""
	}
	if p.text.Cap()-p.text.Len() < len(b) {
		p.text = strings.Builder{}
		p.text.Grow(max(textSlab, len(b)))
	}
	first := p.text.Len()
	p.text.Write(b)
	return p.text.String()[first:]
}
