package couchfake

import "slices"

// node is one revision in the tree of a document.
type node struct {
	parent  *node
	hash    string
	body    []byte // the members but for the special ones, a comma before each
	atts    []byte // `,"_attachments":{…}` or nothing
	gen     int32
	kids    int32
	deleted bool
	known   bool // the body is at hand: neither compacted away nor only known as an ancestor
}

func (n *node) rev() Rev { return Rev{Gen: int(n.gen), Hash: n.hash} }

// document is one id with its tree of revisions.
type document struct {
	id     string
	leaves []*node // the winner first, then as losing leaves are listed
	cur    *version
	shard  int
}

func (d *document) winner() *node { return d.leaves[0] }

// beats orders leaves: live before deleted, then by revision, the higher one first.
func beats(a, b *node) int {
	if a.deleted != b.deleted {
		if a.deleted {
			return 1
		}
		return -1
	}
	return b.rev().Compare(a.rev())
}

// find looks a revision up among the leaves and their ancestors.
func (d *document) find(r Rev) *node {
	for _, leaf := range d.leaves {
		for n := leaf; n != nil && int(n.gen) >= r.Gen; n = n.parent {
			if int(n.gen) == r.Gen && n.hash == r.Hash {
				return n
			}
		}
	}
	return nil
}

// leaf returns the leaf with this revision.
func (d *document) leaf(r Rev) *node {
	for _, n := range d.leaves {
		if int(n.gen) == r.Gen && n.hash == r.Hash {
			return n
		}
	}
	return nil
}

// state is what one revision says.
type state struct {
	deleted    bool
	body, atts []byte
}

// graft puts a revision and its path of ancestors (newest first) into the tree. It returns the new leaf, if there is one,
// and whether the tree changed: a revision that is already there keeps its first body. The leaves are in order afterwards.
func (d *document) graft(path []Rev, s state) (leaf *node, changed bool) {
	at, base := 0, (*node)(nil)
	for ; at < len(path); at++ {
		if base = d.find(path[at]); base != nil {
			break
		}
	}
	if base != nil && base.parent == nil && at+1 < len(path) {
		d.extend(base, path[at+1:])
		changed = true
	}
	if at == 0 {
		d.sort()
		return nil, changed
	}
	parent := base
	for i := at - 1; i >= 0; i-- {
		n := &node{parent: parent, hash: path[i].Hash, gen: int32(path[i].Gen)}
		if parent != nil {
			d.adopt(parent)
		}
		parent = n
	}
	parent.known, parent.deleted, parent.body, parent.atts = true, s.deleted, s.body, s.atts
	d.leaves = append(d.leaves, parent)
	d.sort()
	return parent, true
}

// adopt notes that n got a child, and so is no leaf any more.
func (d *document) adopt(n *node) {
	n.kids++
	if n.kids == 1 {
		if i := slices.Index(d.leaves, n); i >= 0 {
			d.leaves = slices.Delete(d.leaves, i, i+1)
		}
	}
}

// extend gives a root the ancestors that a longer path knows of.
func (d *document) extend(root *node, older []Rev) {
	n := root
	for _, r := range older {
		if known := d.find(r); known != nil {
			n.parent = known
			d.adopt(known)
			return
		}
		n.parent = &node{hash: r.Hash, gen: int32(r.Gen), kids: 1}
		n = n.parent
	}
}

func (d *document) sort() {
	if len(d.leaves) > 1 {
		slices.SortFunc(d.leaves, beats)
	}
}

// stem forgets ancestors beyond limit. Branches share ancestors, so a document in conflict keeps all of them.
func (d *document) stem(limit int) {
	if len(d.leaves) != 1 || int(d.leaves[0].gen) <= limit {
		return
	}
	n := d.leaves[0]
	for i := 1; i < limit && n != nil; i++ {
		n = n.parent
	}
	if n != nil {
		n.parent = nil
	}
}

// prune takes leaves out of the tree, and with each the ancestors that only it had. It returns those that were leaves.
func (d *document) prune(revs []Rev) []Rev {
	var gone []Rev
	for _, r := range revs {
		n := d.leaf(r)
		if n == nil {
			continue
		}
		gone = append(gone, r)
		d.leaves = slices.DeleteFunc(d.leaves, func(o *node) bool { return o == n })
		for p := n.parent; p != nil; p = p.parent {
			if p.kids--; p.kids > 0 {
				break
			}
		}
	}
	return gone
}

// inOrder lists the leaves as open_revs and _bulk_get do: by revision, the lowest first.
func (d *document) inOrder() []*node {
	l := slices.Clone(d.leaves)
	slices.SortFunc(l, func(a, b *node) int { return a.rev().Compare(b.rev()) })
	return l
}
