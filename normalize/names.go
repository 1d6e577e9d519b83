package normalize

import (
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

// DeclaredName is a name under which a field's column can be declared: a legal one
// that begins with a letter.
func DeclaredName(field string) string {
	name := strings.TrimLeft(legalColumn(field), "_")
	if name == "" || name[0] >= '0' && name[0] <= '9' {
		return "f_" + name
	}
	return name
}
