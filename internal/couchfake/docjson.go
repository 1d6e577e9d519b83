package couchfake

import (
	"strconv"
	"strings"
)

// extras are the members that a reader asks for on top of a document.
type extras struct {
	revs, revsInfo, conflicts, deletedConflicts, localSeq bool
}

func (e extras) any() bool {
	return e.revs || e.revsInfo || e.conflicts || e.deletedConflicts || e.localSeq
}

// appendDocument writes one revision: id, revision, members, _deleted, what was asked for, attachments.
func appendDocument(b []byte, d *document, n *node, e extras) []byte {
	b = appendHead(b, d.id, n)
	b = append(b, n.body...)
	if n.deleted {
		b = append(b, `,"_deleted":true`...)
	}
	if e.any() {
		b = e.append(b, d, n)
	}
	b = append(b, n.atts...)
	return append(b, '}')
}

func (e extras) append(b []byte, d *document, n *node) []byte {
	if e.revs {
		b = appendRevisions(b, n)
	}
	if e.revsInfo {
		b = appendRevsInfo(b, n)
	}
	if e.conflicts {
		b = appendLosers(b, `,"_conflicts":[`, d, n, false)
	}
	if e.deletedConflicts {
		b = appendLosers(b, `,"_deleted_conflicts":[`, d, n, true)
	}
	if e.localSeq {
		b = append(b, `,"_local_seq":`...)
		b = strconv.AppendUint(b, d.cur.update, 10)
	}
	return b
}

func appendRevisions(b []byte, n *node) []byte {
	b = append(b, `,"_revisions":{"start":`...)
	b = strconv.AppendInt(b, int64(n.gen), 10)
	b = append(b, `,"ids":[`...)
	for a := n; a != nil; a = a.parent {
		if a != n {
			b = append(b, ',')
		}
		b = appendString(b, a.hash)
	}
	return append(b, `]}`...)
}

func appendRevsInfo(b []byte, n *node) []byte {
	b = append(b, `,"_revs_info":[`...)
	for a := n; a != nil; a = a.parent {
		if a != n {
			b = append(b, ',')
		}
		status := "available"
		switch {
		case !a.known:
			status = "missing"
		case a.deleted:
			status = "deleted"
		}
		b = append(b, `{"rev":`...)
		b = appendRev(b, a)
		b = append(b, `,"status":"`...)
		b = append(b, status...)
		b = append(b, `"}`...)
	}
	return append(b, ']')
}

// appendLosers lists the other leaves that are deleted, or those that are not.
func appendLosers(b []byte, open string, d *document, n *node, deleted bool) []byte {
	count := 0
	for _, o := range d.leaves {
		if o == n || o.deleted != deleted {
			continue
		}
		if count == 0 {
			b = append(b, open...)
		} else {
			b = append(b, ',')
		}
		b = appendRev(b, o)
		count++
	}
	if count == 0 {
		return b
	}
	return append(b, ']')
}

func compareStrings(a, b string) int { return strings.Compare(a, b) }
