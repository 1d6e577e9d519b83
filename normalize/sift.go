package normalize

import (
	"slices"

	"github.com/couch2hudi/couch2hudi/changes"
)

// Filter is the text of the filter, empty without one.
func (n *Normalizer) Filter() string {
	if n.o.Filter == nil {
		return ""
	}
	return n.o.Filter.String()
}

// sift marks the changes that the filter leaves out. The batch itself stays as it is.
// A deletion is not asked about, since it has no fields: it is for those who hold the
// document.
func (n *Normalizer) sift(cs []changes.Change) []changes.Change {
	if n.o.Filter == nil {
		return cs
	}
	cs = slices.Clone(cs)
	for i := range cs {
		c := &cs[i]
		switch {
		case c.Elsewhere || c.Defect != "":
		case c.Deleted:
			c.Elsewhere = true
		case noBody(c.Body):
		case n.sieve.object(c.Body) != nil:
			n.o.Filter.Forget() // what cannot be read is not left out, but broken
		default:
			c.Elsewhere = !n.o.Filter.Decide()
		}
	}
	n.sieve.data = nil
	return cs
}

// noted tells the filter of a member of the document that is being sifted.
func (n *Normalizer) noted(name, value *token) {
	n.o.Filter.Note(n.sieve.data[name.start:name.end], n.sieve.data[value.start:value.end])
}
