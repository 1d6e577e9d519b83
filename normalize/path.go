package normalize

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// step is one part of a path: a member's name, or the place in an array.
type step struct {
	key   string
	index int // -1 for a member
	// wild is any member, or with an index any place in an array.
	wild bool
}

// parsePath reads where in a document a value stands: address.zip, tags[0],
// ["a name with a dot"].zip. A name between quotes is a JSON string; a bare one
// holds none of . [ ] * ". A bare * is any member, [*] any place in an array.
func parsePath(text string) ([]step, error) {
	var steps []step
	for rest := text; ; {
		s, after, err := parseStep(rest, len(steps) == 0)
		if err != nil {
			return nil, fmt.Errorf("path %q: %w", text, err)
		}
		steps = append(steps, s)
		switch {
		case len(steps) > maxSteps:
			return nil, fmt.Errorf("path %q: more than %d steps", text, maxSteps)
		case after == "":
			return steps, nil
		case after[0] == '.':
			rest = after[1:]
		case after[0] == '[':
			rest = after
		default:
			return nil, fmt.Errorf("path %q: a dot or a bracket is missing before %q", text, after)
		}
	}
}

// maxSteps bounds a path, and so the depth to which documents are looked into.
const maxSteps = 32

const wildcard = "*"

func parseStep(text string, first bool) (s step, rest string, err error) {
	s.index = -1
	inside, bracket := strings.CutPrefix(text, "[")
	switch {
	case bracket && strings.HasPrefix(inside, `"`):
		d := json.NewDecoder(strings.NewReader(inside))
		if err := d.Decode(&s.key); err != nil {
			return s, "", fmt.Errorf("at %q: %w", text, err)
		}
		rest, closed := strings.CutPrefix(inside[d.InputOffset():], "]")
		if !closed {
			return s, "", fmt.Errorf("at %q: no closing bracket", text)
		}
		return s, rest, nil
	case bracket && first:
		return s, "", fmt.Errorf("it begins with %q; a document is no array", text)
	case bracket:
		number, rest, closed := strings.Cut(inside, "]")
		if number == wildcard && closed {
			return step{wild: true}, rest, nil
		}
		if s.index, err = strconv.Atoi(number); err != nil || !closed || s.index < 0 || number[0] == '+' {
			return s, "", fmt.Errorf("at %q: a place in an array is written [0], a name [\"name\"]", text)
		}
		return s, rest, nil
	}
	end := strings.IndexAny(text, ".[]\"")
	if end < 0 {
		end = len(text)
	}
	if end == 0 {
		return s, "", fmt.Errorf("at %q: no name; an empty one is written [\"\"]", text)
	}
	switch name := text[:end]; {
	case name == wildcard:
		return step{index: -1, wild: true}, text[end:], nil
	case strings.Contains(name, wildcard):
		return s, "", fmt.Errorf("at %q: a * stands for a whole name; a name that holds one is written [\"%s\"]", text, name)
	}
	s.key = text[:end]
	return s, text[end:], nil
}

// pathText is parsePath backwards, always in the same words.
func pathText(steps []step) string {
	var b strings.Builder
	for i, s := range steps {
		switch {
		case s.wild && s.index >= 0:
			b.WriteString("[" + wildcard + "]")
		case s.wild && i > 0:
			b.WriteString("." + wildcard)
		case s.wild:
			b.WriteString(wildcard)
		case s.index >= 0:
			b.WriteString("[" + strconv.Itoa(s.index) + "]")
		case s.key == "" || strings.ContainsAny(s.key, ".[]*\""):
			b.WriteByte('[')
			b.Write(appendQuoted(nil, s.key))
			b.WriteByte(']')
		default:
			if i > 0 {
				b.WriteByte('.')
			}
			b.WriteString(s.key)
		}
	}
	return b.String()
}

// wild says whether a path has a wildcard, and so means many values.
func wild(steps []step) bool { return slices.ContainsFunc(steps, func(s step) bool { return s.wild }) }

// covers says whether a path means at least what another one does.
func covers(steps, other []step) bool {
	return slices.EqualFunc(steps, other, func(a, b step) bool {
		if (a.index < 0) != (b.index < 0) {
			return false
		}
		return a.wild || a == b
	})
}

// node is a place in documents below which something is declared.
type node struct {
	keys  map[string]*node
	items map[int]*node
	// anyKey and anyItem are for every member and every item; only masks have
	// them.
	anyKey, anyItem *node
	// targets are the columns of the value at this place.
	targets []*target
	// mask is what the value at this place becomes.
	mask mask
	// stamp is the row that last had a value here.
	stamp int
}

// reach is the node at the end of a path, made where there is none.
func (n *node) reach(steps []step) *node {
	for _, s := range steps {
		n = n.child(s)
	}
	return n
}

func (n *node) child(s step) *node {
	var next *node
	switch {
	case s.wild && s.index >= 0:
		next = n.anyItem
	case s.wild:
		next = n.anyKey
	case s.index >= 0:
		next = n.items[s.index]
	default:
		next = n.keys[s.key]
	}
	if next != nil {
		return next
	}
	next = &node{stamp: -1}
	switch {
	case s.wild && s.index >= 0:
		n.anyItem = next
	case s.wild:
		n.anyKey = next
	case s.index >= 0:
		if n.items == nil {
			n.items = map[int]*node{}
		}
		n.items[s.index] = next
	default:
		if n.keys == nil {
			n.keys = map[string]*node{}
		}
		n.keys[s.key] = next
	}
	return next
}

// each visits the node and all below it.
func (n *node) each(visit func(*node)) {
	visit(n)
	for _, c := range n.keys {
		c.each(visit)
	}
	for _, c := range n.items {
		c.each(visit)
	}
}
