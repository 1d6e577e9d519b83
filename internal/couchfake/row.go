package couchfake

import "strconv"

// version is a document as the feed shows it at one update number. Its row is rendered when it is written, so that a feed
// only has to put a seq before it. All but gone is immutable.
type version struct {
	doc    *document
	update uint64 // the update number within the shard
	row    []byte
	// Offsets in row: the end of the winner's revision, of all leaves, where the doc begins, and what follows its members.
	firstEnd, leavesEnd, docAt, metaAt uint32
	live                               uint32 // how many of the leaves are not deleted
	deleted                            bool
	gone                               bool // a later version or a purge took its place; guarded by the database's lock
}

// shape is what a request wants of a row.
type shape struct {
	allLeaves   bool // style=all_docs
	includeDocs bool
	conflicts   bool
}

// render builds the row of the document's present state:
//
//	,"id":ID,"changes":[{"rev":R} ,{"rev":R2}… ][,"deleted":true] ,"doc":{"_id":ID,"_rev":R…} }
//
// The winner's body moves into the row, so that it is held once.
func (d *document) render() *version {
	w := d.winner()
	v := &version{doc: d, deleted: w.deleted}
	for _, n := range d.leaves {
		if !n.deleted {
			v.live++
		}
	}
	b := make([]byte, 0, 112+2*len(d.id)+2*len(w.hash)+len(w.body)+len(w.atts)+48*(len(d.leaves)-1))
	b = append(b, `,"id":`...)
	b = appendString(b, d.id)
	b = append(b, `,"changes":[{"rev":`...)
	b = appendRev(b, w)
	b = append(b, '}')
	v.firstEnd = uint32(len(b))
	for _, n := range d.leaves[1:] {
		b = append(b, `,{"rev":`...)
		b = appendRev(b, n)
		b = append(b, '}')
	}
	v.leavesEnd = uint32(len(b))
	b = append(b, ']')
	if w.deleted {
		b = append(b, `,"deleted":true`...)
	}
	v.docAt = uint32(len(b))
	b = append(b, `,"doc":`...)
	b = appendHead(b, d.id, w)
	body := len(b)
	b = append(b, w.body...)
	w.body = b[body:len(b):len(b)]
	if w.deleted {
		b = append(b, `,"_deleted":true`...)
	}
	v.metaAt = uint32(len(b))
	b = append(b, w.atts...)
	w.atts = b[v.metaAt:len(b):len(b)]
	b = append(b, '}', '}')
	v.row = b
	return v
}

// appendHead opens a document: its id and revision.
func appendHead(b []byte, id string, n *node) []byte {
	b = append(b, `{"_id":`...)
	b = appendString(b, id)
	b = append(b, `,"_rev":`...)
	return appendRev(b, n)
}

// appendRev writes a revision in quotes.
func appendRev(b []byte, n *node) []byte {
	b = append(b, '"')
	b = strconv.AppendInt(b, int64(n.gen), 10)
	b = append(b, '-')
	if isDigest(n.hash) {
		b = append(b, n.hash...)
		return append(b, '"')
	}
	q := appendString(nil, n.hash)
	return append(b, q[1:]...)
}

// appendRow writes what follows the seq of a row, closing brace included.
func (v *version) appendRow(b []byte, s shape) []byte {
	if s.allLeaves || v.firstEnd == v.leavesEnd {
		b = append(b, v.row[:v.leavesEnd]...)
	} else {
		b = append(b, v.row[:v.firstEnd]...)
	}
	if !s.includeDocs {
		b = append(b, v.row[v.leavesEnd:v.docAt]...)
		return append(b, '}')
	}
	if !s.conflicts {
		return append(b, v.row[v.leavesEnd:]...)
	}
	b = append(b, v.row[v.leavesEnd:v.metaAt]...)
	b = v.appendConflicts(b)
	return append(b, v.row[v.metaAt:]...)
}

// appendConflicts writes the live losing leaves, when there are any. They are read from the row itself, so that they belong to the same state.
func (v *version) appendConflicts(b []byte) []byte {
	if v.live < 2 {
		return b
	}
	b = append(b, `,"_conflicts":[`...)
	const before, after = `,{"rev":`, `}`
	for i, at := 1, int(v.firstEnd); i < int(v.live); i++ {
		start := at + len(before)
		end := start + 1
		for v.row[end] != '"' {
			if v.row[end] == '\\' {
				end++
			}
			end++
		}
		if i > 1 {
			b = append(b, ',')
		}
		b = append(b, v.row[start:end+1]...)
		at = end + 1 + len(after)
	}
	return append(b, ']')
}

// appendNullRow writes a row whose doc is missing, as a server does whose copy of the body cannot be read.
func (v *version) appendNullRow(b []byte, s shape) []byte {
	b = v.appendRow(b, shape{allLeaves: s.allLeaves})
	b = append(b[:len(b)-1], `,"doc":null}`...)
	return b
}

// document returns the winner as include_docs shows it. The bytes are shared: read only.
func (v *version) document() []byte {
	return v.row[int(v.docAt)+len(`,"doc":`) : len(v.row)-1]
}
