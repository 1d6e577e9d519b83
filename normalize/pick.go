package normalize

import (
	"fmt"
	"unicode/utf8"

	"github.com/couch2hudi/couch2hudi/changes"
)

// Pick reads one scalar of documents, such as the type by which they are told
// apart. It keeps scratch memory and is not safe for concurrent use.
type Pick struct {
	steps []step
	scan  scanner
	found token
	buf   []byte
}

// NewPick takes where the value stands, like type or meta.kind: members alone, no
// places in arrays. Anything else is ErrOptions.
func NewPick(path string) (*Pick, error) {
	steps, err := parsePath(path)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrOptions, err)
	}
	for _, s := range steps {
		if s.index >= 0 {
			return nil, fmt.Errorf("%w: path %q: a place in an array", ErrOptions, path)
		}
	}
	p := &Pick{steps: steps}
	p.scan.member = p.member
	return p, nil
}

// Text is the value's text: a string's own, a number's and a boolean's as JSON has
// it. It is nil where there is none, or null, an array or an object, and valid
// until the next call. The error says that the body is no JSON object.
func (p *Pick) Text(body []byte) ([]byte, error) {
	p.found = token{}
	err := p.scan.object(body)
	p.scan.data = nil
	if err != nil {
		return nil, err
	}
	for _, s := range p.steps[1:] {
		if p.found.kind != tokenComposite || body[p.found.start] != '{' {
			return nil, nil
		}
		p.descend(body, s.key)
	}
	t := &p.found
	switch t.kind {
	case tokenString:
		return t.text(body), nil
	case tokenEscaped:
		p.buf = appendUnescaped(p.buf[:0], t.text(body))
		return p.buf, nil
	case tokenNull, tokenComposite:
		return nil, nil
	default:
		return body[t.start:t.end], nil
	}
}

// member keeps the value of the path's first member: the last one of its name.
func (p *Pick) member(name, value *token) {
	if p.is(name, p.scan.data, p.steps[0].key) {
		p.found = *value
	}
}

// descend goes to a member of the object found. The scanner knows it to be JSON.
func (p *Pick) descend(body []byte, key string) {
	inside := body[p.found.start:p.found.end]
	from := p.found.start
	s := scanner{data: inside}
	p.found = token{}
	var name, value token
	i := s.space(1)
	for s.data[i] != '}' {
		s.value(i, &name)
		s.value(s.colon(name.end), &value)
		if p.is(&name, inside, key) {
			p.found = value
			p.found.start, p.found.end = value.start+from, value.end+from
		}
		if i = s.space(value.end); s.data[i] == ',' {
			i = s.space(i + 1)
		}
	}
}

func (p *Pick) is(name *token, body []byte, key string) bool {
	text := name.text(body)
	if name.kind == tokenEscaped {
		p.buf = appendUnescaped(p.buf[:0], text)
		text = p.buf
	}
	return string(text) == key
}

// Nameable says whether a change names a document and a revision of it: of one
// that does not nothing can be said but that it is broken.
func Nameable(c *changes.Change) bool {
	return c.Defect == "" && c.ID != "" && utf8.ValidString(c.ID) &&
		(c.Absent || (c.Rev.Generation > 0 && c.Rev.Hash != "" && utf8.ValidString(c.Rev.Hash)))
}
