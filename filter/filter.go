// Package filter decides by an expression over a document's fields whether the
// document is for a table. The language is a part of that of github.com/expr-lang/expr,
// which parses it; what it means is said here, since a filter must be true or false for
// every document: no field has to be there or be of a certain type (docs/filters.md).
package filter

import (
	"bytes"
	"errors"
	"fmt"
	"strings"

	"github.com/expr-lang/expr/file"
	"github.com/expr-lang/expr/parser"
)

// ErrFilter marks an expression that is no filter; the message names the place.
var ErrFilter = errors.New("not a filter")

// maxText bounds an expression: what it costs to evaluate is in proportion to its
// length and the document's.
const maxText = 16 << 10

// Filter is a compiled expression. It keeps scratch memory and is not safe for
// concurrent use. Its answers depend on nothing but the document.
type Filter struct {
	text   string
	fields []string
	root   eval
	scope  scope
}

// Compile reads an expression. Errors are ErrFilter, with the line and the column.
func Compile(text string) (*Filter, error) {
	if len(text) > maxText {
		return nil, fmt.Errorf("%w: %d bytes are more than %d", ErrFilter, len(text), maxText)
	}
	tree, err := parser.Parse(text)
	if err != nil {
		return nil, refused(err)
	}
	c := &compiler{places: map[string]int{}}
	root := c.condition(tree.Node)
	if c.err != nil {
		return nil, refused(c.err.Bind(tree.Source))
	}
	f := &Filter{text: text, fields: c.fields, root: root}
	f.scope.raw = make([][]byte, len(f.fields))
	return f, nil
}

// refused is a parser's error in one line.
func refused(err error) error {
	var at *file.Error
	if !errors.As(err, &at) {
		return fmt.Errorf("%w: %w", ErrFilter, err)
	}
	return fmt.Errorf("%w: line %d, column %d: %s", ErrFilter, at.Line, at.Column+1, strings.ReplaceAll(at.Message, "\n", " "))
}

// String is the expression as it was written.
func (f *Filter) String() string { return f.text }

// Fields are the top-level fields that the expression looks at, in the order in which
// it names them.
func (f *Filter) Fields() []string { return f.fields }

// Match says whether a document is for the table. doc is its JSON text; of one that is
// not JSON the answer means nothing, but there is one. Of a name that comes twice
// the last value counts, as in CouchDB.
func (f *Filter) Match(doc []byte) bool {
	eachMember(doc, func(key, value []byte) bool {
		f.Note(key, value)
		return true
	})
	return f.Decide()
}

// Note is told of a top-level member of the next document, for those who walk over it
// themselves: its name, in quotes, and its value, as they stand in the JSON text.
func (f *Filter) Note(key, value []byte) {
	for i, name := range f.fields {
		if len(key) == len(name)+2 && string(key[1:len(key)-1]) == name {
			f.scope.raw[i] = value
			return
		}
	}
	if bytes.IndexByte(key, '\\') < 0 {
		return
	}
	for i, name := range f.fields {
		if sameName(key, name) {
			f.scope.raw[i] = value
		}
	}
}

// Decide is Match for the document whose members were noted. It forgets them.
func (f *Filter) Decide() bool {
	is := f.root(&f.scope).truth()
	f.Forget()
	return is
}

// Forget forgets what was noted.
func (f *Filter) Forget() {
	clear(f.scope.raw)
	f.scope.item = value{}
}

// scope is what an evaluation sees: the fields' JSON texts, and the item that a
// predicate stands on.
type scope struct {
	raw  [][]byte
	item value
}

// eval is a compiled node.
type eval func(*scope) value
