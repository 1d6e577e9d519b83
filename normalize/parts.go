package normalize

// parts takes the declared parts of a field's value.
func (n *Normalizer) parts(f *field, value *token) {
	if f.below.stamp == n.cursor.record {
		n.forgetParts(f.below)
	}
	f.below.stamp = n.cursor.record
	n.inside(f.below, value)
}

// forgetParts takes back what the document that is being read said before of a
// place and of all below it.
func (n *Normalizer) forgetParts(at *node) {
	at.each(func(c *node) {
		c.stamp = -1
		for _, g := range c.targets {
			n.unset(g)
			n.unrescue(g.path, true)
		}
	})
}

// inside looks for what is declared below a place in its value. The scanner has
// found the value to be JSON, so nothing can fail here.
func (n *Normalizer) inside(at *node, value *token) {
	s := &n.inner
	s.data = n.scan.data
	if value.kind != tokenComposite {
		return
	}
	in := enter(s, value)
	if in.object && at.keys == nil || !in.object && at.items == nil {
		return
	}
	for k := 0; in.next(); k++ {
		next := at.items[k]
		if in.object {
			next = at.keys[string(n.key(s.data, &in.name))]
		}
		if next != nil {
			n.reached(next, &in.value)
		}
	}
}

// reached takes the value at a declared place, or one with declared places in it.
func (n *Normalizer) reached(at *node, t *token) {
	if at.stamp == n.cursor.record {
		n.forgetParts(at)
	}
	at.stamp = n.cursor.record
	if t.kind != tokenNull {
		for _, g := range at.targets {
			n.put(g, t)
		}
	}
	n.inside(at, t)
}
