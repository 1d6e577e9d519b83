package normalize

import (
	"cmp"
	"slices"

	"github.com/couch2hudi/couch2hudi/hudi"
)

// rescuedPaths is the member of _rescued that holds parts of fields, by their
// paths: no field of a document is called so, since CouchDB keeps names with an
// underscore in front to itself.
const rescuedPaths = "_paths"

// rescue writes the _rescued column: a JSON object from field name to the
// value's JSON text, in the order of the document.
func (n *Normalizer) rescue() {
	slices.SortStableFunc(n.rescues, func(a, b rescue) int {
		return cmp.Or(cmp.Compare(a.record, b.record), cmp.Compare(a.value.start, b.value.start))
	})
	for rest := n.rescues; len(rest) > 0; {
		k := 1
		for k < len(rest) && rest[k].record == rest[0].record {
			k++
		}
		n.rescueRow(lastOnes(rest[:k]))
		rest = rest[k:]
	}
}

func (n *Normalizer) rescueRow(rs []rescue) {
	body := n.bodies[rs[0].record]
	n.buf = n.buf[:0]
	sep := byte('{')
	paths := false
	for i := range rs {
		r := &rs[i]
		if r.gone || (r.value.kind == tokenNull && !n.exact) {
			continue
		}
		if !r.exact {
			n.result.Stats.Rescued++
		}
		if r.budget {
			n.result.Stats.OverBudget++
		}
		if r.path {
			paths = true
			continue
		}
		n.buf = append(n.buf, sep)
		n.buf = appendMember(n.buf, r, body)
		sep = ','
	}
	if paths {
		n.buf = append(n.buf, sep)
		n.buf = append(n.buf, `"`+rescuedPaths+`":`...)
		sep = '{'
		for i := range rs {
			if r := &rs[i]; r.path && !r.gone {
				n.buf = append(n.buf, sep)
				n.buf = appendMember(n.buf, r, body)
				sep = ','
			}
		}
		n.buf = append(n.buf, '}')
	}
	if len(n.buf) > 0 {
		n.buf = append(n.buf, '}')
		n.result.Records[rs[0].record].Row[n.plan.rescued] = hudi.StringOf(n.arena.copy(n.buf))
	}
}

func appendMember(dst []byte, r *rescue, body []byte) []byte {
	dst = appendQuoted(dst, r.name)
	dst = append(dst, ':')
	return append(dst, body[r.value.start:r.value.end]...)
}

// lastOnes keeps the last of the values of each name. The names of columns come
// once; only those without one may come again.
func lastOnes(rs []rescue) []rescue {
	if len(rs) == 1 {
		return rs
	}
	type place struct {
		name string
		path bool
	}
	last := make(map[place]int, len(rs))
	for i := range rs {
		if rs[i].gone {
			continue
		}
		at := place{rs[i].name, rs[i].path}
		if j, ok := last[at]; ok {
			rs[j].gone = true
		}
		last[at] = i
	}
	return rs
}
