package normalize

// inner walks over the members of an object or the items of an array. The scanner
// has found it to be JSON before, so nothing can fail here.
type inner struct {
	s      *scanner
	at     int
	object bool
	// name is an object's member's, value that of a member or an item.
	name, value token
}

// enter stands before the first member or item of a composite in s.data.
func enter(s *scanner, t *token) inner {
	return inner{s: s, at: s.space(t.start + 1), object: s.data[t.start] == '{'}
}

func (w *inner) next() bool {
	if c := w.s.data[w.at]; c == '}' || c == ']' {
		return false
	}
	if w.object {
		w.s.value(w.at, &w.name)
		w.at = w.s.colon(w.name.end)
	}
	w.s.value(w.at, &w.value)
	if w.at = w.s.space(w.value.end); w.s.data[w.at] == ',' {
		w.at = w.s.space(w.at + 1)
	}
	return true
}
