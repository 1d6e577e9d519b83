package normalize

import "github.com/couch2hudi/couch2hudi/hudi"

// How a string column came to hold text, as FieldOf says it.
const (
	// RuleText: the documents' own strings.
	RuleText = ""
	// RuleJSON: arrays and objects as their JSON text.
	RuleJSON = docJSON
	// RuleMixed: strings as they are, all else as its JSON text.
	RuleMixed = docMixed
)

// FieldOf is the documents' field from which a column of a table of ours is
// made, and, for a string column, the rule by which. The field differs from the
// column's name when Avro or another column forbade that. It does not know which
// columns are the envelope's.
func FieldOf(c *hudi.Column) (field, rule string) {
	field, f := columnFit(c)
	switch f {
	case fitJSON:
		return field, RuleJSON
	case fitMixed:
		return field, RuleMixed
	default:
		return field, RuleText
	}
}
