package normalize

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
)

// step is one part of a path: a member's name, or the place in an array.
type step struct {
	key   string
	index int // -1 for a member
}

// parsePath reads where in a document a value stands: address.zip, tags[0],
// ["a name with a dot"].zip. A name between quotes is a JSON string; a bare one
// holds none of . [ ] ".
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
	s.key = text[:end]
	return s, text[end:], nil
}

// pathText is parsePath backwards, always in the same words.
func pathText(steps []step) string {
	var b strings.Builder
	for i, s := range steps {
		switch {
		case s.index >= 0:
			b.WriteString("[" + strconv.Itoa(s.index) + "]")
		case s.key == "" || strings.ContainsAny(s.key, ".[]\""):
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

// node is a place in documents below which something is declared.
type node struct {
	keys  map[string]*node
	items map[int]*node
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
		var next *node
		if s.index >= 0 {
			if next = n.items[s.index]; next == nil {
				if n.items == nil {
					n.items = map[int]*node{}
				}
				next = &node{stamp: -1}
				n.items[s.index] = next
			}
		} else if next = n.keys[s.key]; next == nil {
			if n.keys == nil {
				n.keys = map[string]*node{}
			}
			next = &node{stamp: -1}
			n.keys[s.key] = next
		}
		n = next
	}
	return n
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
