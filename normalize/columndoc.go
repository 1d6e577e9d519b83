package normalize

import (
	"encoding/json"
	"fmt"
	"strings"
)

// A column's doc says what its name and type do not: where in documents its
// values stand when that is not the field of the column's name, and how they
// became what the column holds. It reads `field "a b", json`, or
// `path "address.zip", declared, mask "hash"`; every part may be missing, the
// order is fixed. It travels in the table's schema, so that the mapping is never
// kept anywhere else.
const (
	docField    = "field"
	docPath     = "path"
	docJSON     = "json"
	docAny      = "json of all"
	docMixed    = "mixed"
	docBeside   = "beside"
	docDeclared = "declared"
	docFormat   = "format"
	docMask     = "mask"
)

// columnNote is a column's doc, read.
type columnNote struct {
	// steps is where the values stand.
	steps []step
	// text is the rule of a string column: fitText, fitJSON, fitAny, fitMixed.
	text fit
	// beside says that the column takes what another column of the same place
	// could not.
	beside, declared bool
	// format is that of a timestamp or date, mask what the values went through.
	format, mask string
}

// field is the top-level field, and whether the column holds all of it.
func (n *columnNote) field() (string, bool) { return n.steps[0].key, len(n.steps) == 1 }

// doc is the note of a column of that name as text.
func (n *columnNote) doc(column string) string {
	var parts []string
	add := func(word, quoted string) { parts = append(parts, word+" "+string(appendQuoted(nil, quoted))) }
	switch field, whole := n.field(); {
	case !whole:
		add(docPath, pathText(n.steps))
	case field != column:
		add(docField, field)
	}
	switch n.text {
	case fitJSON:
		parts = append(parts, docJSON)
	case fitAny:
		parts = append(parts, docAny)
	case fitMixed:
		parts = append(parts, docMixed)
	default:
	}
	if n.beside {
		parts = append(parts, docBeside)
	}
	if n.declared {
		parts = append(parts, docDeclared)
	}
	if n.format != "" {
		add(docFormat, n.format)
	}
	if n.mask != "" {
		add(docMask, n.mask)
	}
	return strings.Join(parts, ", ")
}

// parseNote is doc backwards. A doc that somebody else wrote says nothing: the
// field is the column's name and strings are strings.
func parseNote(doc, column string) columnNote {
	nothing := columnNote{steps: []step{{key: column, index: -1}}, text: fitText}
	n := nothing
	for rest := doc; rest != ""; {
		word, quoted, after, err := notePart(rest)
		if err != nil || !n.take(word, quoted) {
			return nothing
		}
		rest = after
	}
	if n.doc(column) != doc {
		return nothing
	}
	return n
}

// take adds one part; false when it is not one of ours.
func (n *columnNote) take(word, quoted string) bool {
	switch word {
	case docField:
		n.steps = []step{{key: quoted, index: -1}}
	case docPath:
		steps, err := parsePath(quoted)
		n.steps = steps
		return err == nil
	case docJSON:
		n.text = fitJSON
	case docAny:
		n.text = fitAny
	case docMixed:
		n.text = fitMixed
	case docBeside:
		n.beside = true
	case docDeclared:
		n.declared = true
	case docFormat:
		n.format = quoted
	case docMask:
		n.mask = quoted
	default:
		return false
	}
	return true
}

// notePart takes the first part off a doc: a word, and what stands in quotes
// behind it.
func notePart(doc string) (word, quoted, rest string, err error) {
	end := strings.IndexAny(doc, ",\"")
	if end < 0 {
		return doc, "", "", nil
	}
	word, rest = strings.TrimSuffix(doc[:end], " "), doc[end:]
	if rest[0] == '"' {
		d := json.NewDecoder(strings.NewReader(rest))
		if err := d.Decode(&quoted); err != nil {
			return "", "", "", fmt.Errorf("doc %q: %w", doc, err)
		}
		rest = rest[d.InputOffset():]
	}
	return word, quoted, strings.TrimPrefix(rest, ", "), nil
}
