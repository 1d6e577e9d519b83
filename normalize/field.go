package normalize

import "github.com/couch2hudi/couch2hudi/hudi"

// How a string column came to hold text, as Describe says it.
const (
	// RuleText: the documents' own strings.
	RuleText = ""
	// RuleJSON: arrays and objects as their JSON text.
	RuleJSON = docJSON
	// RuleAny: every value as its JSON text.
	RuleAny = docAny
	// RuleMixed: strings as they are, all else as its JSON text.
	RuleMixed = docMixed
)

// Origin is where the values of a column of a table of ours come from. It does
// not know which columns are the envelope's.
type Origin struct {
	// Field is the documents' top-level field. It differs from the column's name
	// when Avro or another column forbade that.
	Field string
	// Path is where in documents the values stand, Field when that is all of it.
	Path string
	// Whole says that the column holds the field's value and no part of it.
	Whole bool
	// Rule is how a string column came to hold text.
	Rule string
	// Declared says that the configuration asked for the column, Beside that it
	// takes the values which another column of the same place could not.
	Declared, Beside bool
	// Format is how a timestamp or date is written in documents, Mask what was
	// done to the values; empty for nothing.
	Format, Mask string
}

// Describe reads a column's origin from its doc.
func Describe(c *hudi.Column) Origin {
	n := parseNote(c.Doc, c.Name)
	o := Origin{Path: pathText(n.steps), Declared: n.declared, Beside: n.beside, Format: n.format, Mask: n.mask}
	o.Field, o.Whole = n.field()
	if c.Type != "" || c.Kind != hudi.KindString {
		return o
	}
	switch n.text {
	case fitJSON:
		o.Rule = RuleJSON
	case fitAny:
		o.Rule = RuleAny
	case fitMixed:
		o.Rule = RuleMixed
	default:
	}
	return o
}
