package normalize

// sketch is what was seen of the values at one place in documents and of all
// inside them.
type sketch struct {
	sighting
	// values counts those that a column could hold; objects and arrays are those
	// of its composites.
	values, objects, arrays int
	// names are the members' in the order in which they appeared.
	names   []string
	members map[string]*sketch
	item    *sketch
	// holes says that arrays have nulls, or numbers that no column can hold, among
	// their items.
	holes bool
	// over says that the limits leave the values JSON text.
	over bool
}

// sketcher looks at values within the limits of nested columns. It holds scratch
// memory and is not safe for concurrent use.
type sketcher struct {
	depth, width int
	// left is how many more places it may remember.
	left int
	scan scanner
	buf  []byte
}

// placesPerColumn bounds the places that are remembered, by the most columns
// that a table may get.
const placesPerColumn = 4

// sketcher is nil when arrays and objects become JSON text.
func (o *Options) sketcher() *sketcher {
	if o.Nested != NestedStruct || o.Others != Inferred {
		return nil
	}
	return &sketcher{depth: o.NestedDepth, width: o.NestedWidth, left: placesPerColumn * o.MaxColumns}
}

// look adds the value of a field. Nothing is remembered of scalars: the sighting
// says all of them.
func (k *sketcher) look(s *sighting, body []byte, t *token) {
	if s.inside == nil {
		if t.kind != tokenComposite {
			return
		}
		if s.inside = k.place(); s.inside == nil {
			return
		}
	}
	k.see(s.inside, body, t, 0)
}

// see adds a value. depth counts the arrays and objects around it.
func (k *sketcher) see(s *sketch, body []byte, t *token, depth int) {
	f := wants(body, t)
	if f == fitNothing {
		return
	}
	if s.kinds == 0 {
		s.first = f
	}
	s.see(f, t)
	s.values++
	if t.kind != tokenComposite {
		return
	}
	if depth >= k.depth {
		k.drop(s)
	}
	if body[t.start] == '{' {
		s.objects++
	} else {
		s.arrays++
	}
	if !s.over {
		k.inside(s, body, t, depth)
	}
}

func (k *sketcher) inside(s *sketch, body []byte, t *token, depth int) {
	k.scan.data = body
	w := enter(&k.scan, t)
	for w.next() {
		if !w.object {
			if s.item == nil {
				if s.item = k.place(); s.item == nil {
					k.drop(s)
					return
				}
			}
			s.holes = s.holes || wants(body, &w.value) == fitNothing
			k.see(s.item, body, &w.value, depth+1)
			continue
		}
		key := w.name.text(body)
		if w.name.kind == tokenEscaped {
			k.buf = appendUnescaped(k.buf[:0], key)
			key = k.buf
		}
		if len(key) > maxName || w.value.kind == tokenNull {
			continue
		}
		m := s.members[string(key)]
		if m == nil {
			if len(s.members) < k.width {
				m = k.place()
			}
			if m == nil {
				k.drop(s)
				return
			}
			if s.members == nil {
				s.members = map[string]*sketch{}
			}
			name := string(key)
			s.members[name], s.names = m, append(s.names, name)
		}
		k.see(m, body, &w.value, depth+1)
	}
}

// place is a new place to remember, nil when there are too many.
func (k *sketcher) place() *sketch {
	if k.left == 0 {
		return nil
	}
	k.left--
	return &sketch{}
}

// drop forgets what was seen inside: it stays JSON text.
func (k *sketcher) drop(s *sketch) {
	k.left += s.places() - 1
	s.over, s.names, s.members, s.item = true, nil, nil, nil
}

func (s *sketch) places() int {
	n := 1
	for _, m := range s.members {
		n += m.places()
	}
	if s.item != nil {
		n += s.item.places()
	}
	return n
}

// keysAreData says whether an object's names are users' data and no names: they
// are many, and none of them is in a quarter of the objects.
func (s *sketch) keysAreData() bool {
	const few, part = 8, 4
	if len(s.names) <= few {
		return false
	}
	for _, m := range s.members {
		if m.values*part >= s.objects {
			return false
		}
	}
	return true
}

// shape is the type for all that was seen, nil when nothing was. Names are those
// of a struct's type.
func (s *sketch) shape(record, namespace, policy string) *shape {
	const composites = 1 << fitJSON
	switch {
	case s.kinds == 0:
		return nil
	case s.kinds != composites && policy == NewColumn:
		return newLeaf(s.fit(Rescue)) // there is no place beside a member
	case s.kinds != composites:
		return newLeaf(s.fit(policy))
	case s.over || (s.objects > 0 && s.arrays > 0):
		return newLeaf(fitJSON)
	case s.arrays > 0:
		return s.list(record, namespace)
	case s.keysAreData():
		return newLeaf(fitJSON)
	}
	made := newStruct(record, namespace)
	taken := newNames(memberNames()...)
	for _, key := range s.names {
		name := taken.column(key)
		if of := s.members[key].shape(name, made.below(), policy); of != nil {
			made.add(member{key: key, name: name, of: of})
		}
	}
	if len(made.members) == 0 {
		return newLeaf(fitJSON)
	}
	return made
}

// memberNames are the names that no member of a struct gets: a list of structs
// whose only member is called so looks like a list of something else.
func memberNames() []string { return []string{"element", "array", "list"} }

// list is an array's type; one of several kinds, null being one, stays JSON text.
func (s *sketch) list(record, namespace string) *shape {
	if s.item == nil || s.holes {
		return newLeaf(fitJSON)
	}
	item := s.item.shape(record, namespace, Rescue)
	if item == nil || item.leaf != nil && (item.leaf.fit == fitJSON || item.leaf.fit == fitMixed) {
		return newLeaf(fitJSON)
	}
	return newList(item)
}
