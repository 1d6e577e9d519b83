package normalize

import (
	"encoding/json"
	"fmt"
	"strings"
)

// maxName is the longest field name in bytes that gets a column. The name goes
// into the schema, which goes into every block of a log file.
const maxName = 256

// names gives columns their names: what Avro allows, each one once even for
// engines that do not tell upper from lower case.
type names struct{ taken map[string]bool }

func newNames(reserved ...string) *names {
	n := &names{taken: make(map[string]bool, len(reserved))}
	for _, r := range reserved {
		n.take(r)
	}
	return n
}

func (n *names) take(column string) { n.taken[strings.ToLower(column)] = true }

// column is the name of the column for a document's field, which it takes.
// When a legal form of the name is taken, the smallest number from 2 on that
// makes it free is appended.
func (n *names) column(field string) string {
	legal := legalColumn(field)
	name := legal
	for i := 2; n.taken[strings.ToLower(name)]; i++ {
		name = fmt.Sprintf("%s_%d", legal, i)
	}
	n.take(name)
	return name
}

// legalColumn replaces each character that Avro does not allow in a name by an
// underscore, and puts one before a digit. Hudi's own prefix loses its
// underscore.
func legalColumn(field string) string {
	const hudiPrefix = "_hoodie_"
	var b strings.Builder
	for i, r := range field {
		legal := r == '_' || (r >= 'a' && r <= 'z') || (r >= 'A' && r <= 'Z')
		digit := r >= '0' && r <= '9'
		if digit && i == 0 {
			b.WriteByte('_')
		}
		if !legal && !digit {
			r = '_'
		}
		b.WriteRune(r)
	}
	name := b.String()
	switch {
	case name == "":
		return "_"
	case len(name) >= len(hudiPrefix) && strings.EqualFold(name[:len(hudiPrefix)], hudiPrefix):
		return name[1:]
	}
	return name
}

// A column's doc says what its name and type do not: the document's own field
// name when the column could not have it, and how the values became strings.
// It reads `field "a b", json`; either part may be missing. It travels in the
// table's schema, so that the mapping is never kept anywhere else.
const (
	docField = "field "
	docJSON  = "json"
	docMixed = "mixed"
)

func columnDoc(field, column string, f fit) string {
	var parts []string
	if field != column {
		parts = append(parts, docField+string(appendQuoted(nil, field)))
	}
	switch f {
	case fitJSON:
		parts = append(parts, docJSON)
	case fitMixed:
		parts = append(parts, docMixed)
	default:
	}
	return strings.Join(parts, ", ")
}

// parseColumnDoc is columnDoc backwards. A doc that somebody else wrote says
// nothing: the field is the column's name and strings are strings.
func parseColumnDoc(doc, column string) (field string, f fit) {
	rest := doc
	field, f = column, fitText
	if quoted, ok := strings.CutPrefix(doc, docField); ok {
		d := json.NewDecoder(strings.NewReader(quoted))
		if err := d.Decode(&field); err != nil {
			return column, fitText
		}
		rest = quoted[d.InputOffset():]
		if rest == "" {
			return field, f
		}
		if rest, ok = strings.CutPrefix(rest, ", "); !ok {
			return column, fitText
		}
	}
	switch rest {
	case docJSON:
		return field, fitJSON
	case docMixed:
		return field, fitMixed
	case "":
		return field, fitText
	}
	return column, fitText
}
