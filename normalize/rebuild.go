package normalize

import (
	"errors"
	"fmt"
	"slices"

	"github.com/couch2hudi/couch2hudi/hudi"
)

// ErrRebuild says that a row does not tell a document: it was spoilt, or is none
// of ours.
var ErrRebuild = errors.New("the document cannot be rebuilt")

// Rebuilder makes documents of rows again. It holds scratch memory and is not
// safe for concurrent use.
type Rebuilder struct {
	schema  *hudi.Schema
	targets []*target
	scan    scanner
	// rescued are the members of _rescued in their order, given those that stand
	// in the document already.
	rescued []rescuedMember
	given   map[string]bool
	buf     []byte
}

type rescuedMember struct{ name, value string }

// NewRebuilder makes a Rebuilder for a table's rows. partition is the name of the
// partition column, empty for none.
func NewRebuilder(s *hudi.Schema, partition string) *Rebuilder {
	r := &Rebuilder{schema: s, given: map[string]bool{}}
	r.scan.member = r.member
	ours := append(reserved(), partition)
	for i := range s.Columns() {
		c := &s.Columns()[i]
		if slices.Contains(ours, c.Name) {
			continue
		}
		note := parseNote(c.Doc, c.Name)
		t := newTarget(&Options{}, c, i, &note, nil)
		if t.whole && t.fit != fitNothing {
			r.targets = append(r.targets, t)
		}
	}
	return r
}

// Append appends the document of a row. With _doc it is that, byte for byte.
// Without, it holds the same members, those of the table's columns first, and
// every value as CouchDB gave it: numbers with their text, arrays and objects
// byte for byte, strings with the same characters. Fields that the configuration
// left out (columns.others: dropped) and masked values are not there to give back. A
// purged document has none: the answer is empty.
func (r *Rebuilder) Append(dst []byte, row hudi.Row) ([]byte, error) {
	at := func(name string) hudi.Value { return r.schema.At(row, name) }
	if doc := at(hudi.ColumnDoc); !doc.IsNull() {
		return append(dst, doc.Text()...), nil
	}
	if at(hudi.ColumnRev).IsNull() {
		return dst, nil
	}
	r.rescued = r.rescued[:0]
	clear(r.given)
	if text := at(hudi.ColumnRescued); !text.IsNull() {
		if err := r.scan.object(text.Raw()); err != nil {
			return dst, fmt.Errorf("%w: %s of %q: %w", ErrRebuild, hudi.ColumnRescued, clip(at(hudi.ColumnID).Text()), err)
		}
	}
	for i := range r.rescued {
		r.given[r.rescued[i].name] = true
	}
	dst = appendQuoted(append(dst, `{"_id":`...), at(hudi.ColumnID).Text())
	dst = appendQuoted(append(dst, `,"_rev":`...), at(hudi.ColumnRev).Text())
	if at(hudi.ColumnDeleted).Boolean() {
		dst = append(dst, `,"_deleted":true`...)
	}
	if a := at(hudi.ColumnAttachments); !a.IsNull() {
		dst = append(append(dst, `,"_attachments":`...), a.Text()...)
	}
	for _, t := range r.targets {
		if v := row[t.column]; !v.IsNull() && !r.given[t.path] {
			r.given[t.path] = true
			dst = append(appendQuoted(append(dst, ','), t.path), ':')
			dst = appendCell(dst, t, v)
		}
	}
	for i := range r.rescued {
		m := &r.rescued[i]
		dst = append(appendQuoted(append(dst, ','), m.name), ':')
		dst = append(dst, m.value...)
	}
	return append(dst, '}'), nil
}

// member notes a member of _rescued. Parts of fields are told by the fields.
func (r *Rebuilder) member(name, value *token) {
	r.buf = appendUnescaped(r.buf[:0], name.text(r.scan.data))
	if string(r.buf) != rescuedPaths {
		r.rescued = append(r.rescued, rescuedMember{string(r.buf), string(r.scan.data[value.start:value.end])})
	}
}
