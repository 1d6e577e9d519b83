package couchdb

import (
	"bytes"
	"errors"
)

var (
	// errShort: the text ended within the row.
	errShort = errors.New("the row breaks off")
	// errSyntax: the row is not the JSON that a row is.
	errSyntax = errors.New("the row is not valid JSON")
)

// envelope is what one pass over a row finds. All slices point into the row.
// The document is not decoded: only its extent is found.
type envelope struct {
	seq, id []byte   // between the quotes, still escaped
	seqText bool     // seq was a string (false: a number, or other JSON text)
	revs    [][]byte // of changes, in the order given
	doc     []byte   // the object; nil when null or absent
	deleted bool
	lastSeq []byte // the line that ends a feed politely
	failure []byte // the raw JSON of "error"
	reason  []byte // the raw JSON of "reason"
}

func (e *envelope) reset() {
	*e = envelope{revs: e.revs[:0]}
}

// scan reads one row, in whatever order its keys come; a key given twice
// counts as it came last. It returns the number of bytes that the row takes,
// leading blanks included. It never recurses and looks at each byte once.
func (e *envelope) scan(b []byte) (int, error) {
	e.reset()
	i := blanks(b, 0)
	if i == len(b) {
		return i, errShort
	}
	if b[i] != '{' {
		return i, errSyntax
	}
	i = blanks(b, i+1)
	if i < len(b) && b[i] == '}' {
		return i + 1, nil
	}
	for {
		next, err := e.member(b, i)
		if err != nil {
			return next, err
		}
		i = blanks(b, next)
		if i == len(b) {
			return i, errShort
		}
		switch b[i] {
		case '}':
			return i + 1, nil
		case ',':
			i = blanks(b, i+1)
		default:
			return i, errSyntax
		}
	}
}

// member reads one key and its value, from the key's quote on.
func (e *envelope) member(b []byte, i int) (int, error) {
	key, i, err := name(b, i)
	if err != nil {
		return i, err
	}
	if bytes.IndexByte(key, '\\') >= 0 {
		plain, err := unescape(nil, key)
		if err != nil {
			return i, errSyntax
		}
		key = plain
	}
	switch string(key) {
	case "seq":
		e.seq, e.seqText, i, err = token(b, i)
	case "last_seq":
		e.lastSeq, _, i, err = token(b, i)
	case "id":
		var text bool
		e.id, text, i, err = token(b, i)
		if err == nil && !text {
			e.id = nil
		}
	case "changes":
		i, err = e.leaves(b, i)
	case "deleted":
		start := i
		i, err = value(b, i)
		e.deleted = err == nil && string(b[start:i]) == "true"
	case "doc":
		start := i
		i, err = value(b, i)
		e.doc = nil
		if err == nil && string(b[start:i]) != "null" {
			e.doc = b[start:i:i]
		}
	case "error":
		start := i
		i, err = value(b, i)
		e.failure = b[start:i]
	case "reason":
		start := i
		i, err = value(b, i)
		e.reason = b[start:i]
	default:
		i, err = value(b, i)
	}
	return i, err
}

// leaves reads [{"rev":"1-a"},…].
func (e *envelope) leaves(b []byte, i int) (int, error) {
	e.revs = e.revs[:0]
	if i >= len(b) || b[i] != '[' {
		return value(b, i)
	}
	i = blanks(b, i+1)
	if i < len(b) && b[i] == ']' {
		return i + 1, nil
	}
	for {
		next, err := e.leaf(b, i)
		if err != nil {
			return next, err
		}
		i = blanks(b, next)
		if i >= len(b) {
			return i, errShort
		}
		switch b[i] {
		case ']':
			return i + 1, nil
		case ',':
			i = blanks(b, i+1)
		default:
			return i, errSyntax
		}
	}
}

// leaf reads {"rev":"1-a"}; whatever is no revision is noted as an empty one,
// which the caller then refuses with a reason.
func (e *envelope) leaf(b []byte, i int) (int, error) {
	const head = `{"rev":"`
	if rest := b[min(i, len(b)):]; len(rest) > len(head) && string(rest[:len(head)]) == head {
		start := i + len(head)
		if n := bytes.IndexByte(b[start:], '"'); n >= 0 && start+n+1 < len(b) && b[start+n+1] == '}' &&
			bytes.IndexByte(b[start:start+n], '\\') < 0 {
			e.revs = append(e.revs, b[start:start+n])
			return start + n + 2, nil
		}
	}
	if i >= len(b) || b[i] != '{' {
		e.revs = append(e.revs, nil)
		return value(b, i)
	}
	var rev []byte
	i = blanks(b, i+1)
	for i == len(b) || b[i] != '}' {
		key, next, err := name(b, i)
		if err != nil {
			return next, err
		}
		tok, text, next, err := token(b, next)
		if err != nil {
			return next, err
		}
		if string(key) == "rev" && text {
			rev = tok
		}
		i = blanks(b, next)
		if i < len(b) && b[i] == ',' {
			i = blanks(b, i+1)
			if i < len(b) && b[i] == '}' {
				return i, errSyntax
			}
		} else if i < len(b) && b[i] != '}' {
			return i, errSyntax
		}
	}
	e.revs = append(e.revs, rev)
	return i + 1, nil
}

// name reads a key, its colon and the blanks around it.
func name(b []byte, i int) ([]byte, int, error) {
	if i >= len(b) {
		return nil, i, errShort
	}
	if b[i] != '"' {
		return nil, i, errSyntax
	}
	end, err := text(b, i)
	if err != nil {
		return nil, end, err
	}
	key := b[i+1 : end-1]
	i = blanks(b, end)
	if i == len(b) {
		return nil, i, errShort
	}
	if b[i] != ':' {
		return nil, i, errSyntax
	}
	return key, blanks(b, i+1), nil
}

// token reads a value that is short and wanted as text: what is between the
// quotes of a string, nil for null, any other JSON as it stands.
func token(b []byte, i int) (tok []byte, isText bool, next int, err error) {
	next, err = value(b, i)
	if err != nil {
		return nil, false, next, err
	}
	if b[i] == '"' {
		return b[i+1 : next-1], true, next, nil
	}
	if string(b[i:next]) == "null" {
		return nil, false, next, nil
	}
	return b[i:next], false, next, nil
}

// value finds the end of the value that begins at i.
func value(b []byte, i int) (int, error) {
	if i >= len(b) {
		return i, errShort
	}
	switch b[i] {
	case '"':
		return text(b, i)
	case '{', '[':
		return nested(b, i)
	default:
		return literal(b, i)
	}
}

// nested finds the end of an object or array by counting its brackets, so that
// any depth costs no stack.
func nested(b []byte, i int) (int, error) {
	depth := 0
	for i < len(b) {
		switch b[i] {
		case '"':
			end, err := text(b, i)
			if err != nil {
				return end, err
			}
			i = end
			continue
		case '{', '[':
			depth++
		case '}', ']':
			depth--
			if depth == 0 {
				return i + 1, nil
			}
		}
		i++
	}
	return i, errShort
}

// text finds the end of the string whose quote is at i. Short strings, which
// most are, are walked; the rest of a long one is searched.
func text(b []byte, i int) (int, error) {
	const short = 48
	i++
	for stop := min(i+short, len(b)); i < stop; i++ {
		if c := b[i]; c == '"' {
			return i + 1, nil
		} else if c == '\\' {
			i++ // what follows is escaped, a quote too
		}
	}
	return longText(b, min(i, len(b)))
}

// longText is text from a place where no backslash stands open. A quote ends
// the string unless an odd number of backslashes stands before it.
func longText(b []byte, first int) (int, error) {
	for i := first; ; {
		n := bytes.IndexByte(b[i:], '"')
		if n < 0 {
			return len(b), errShort
		}
		i += n
		k := i
		for k > first && b[k-1] == '\\' {
			k--
		}
		i++
		if (i-1-k)%2 == 0 {
			return i, nil
		}
	}
}

// literal finds the end of true, false, null or a number.
func literal(b []byte, i int) (int, error) {
	start := i
	for i < len(b) {
		switch b[i] {
		case ',', '}', ']', ' ', '\t', '\r', '\n':
			if !isLiteral(b[start:i]) {
				return i, errSyntax
			}
			return i, nil
		}
		i++
	}
	return i, errShort
}

func isLiteral(b []byte) bool {
	switch string(b) {
	case "true", "false", "null":
		return true
	case "":
		return false
	}
	for _, c := range b {
		if (c < '0' || c > '9') && c != '-' && c != '+' && c != '.' && c != 'e' && c != 'E' {
			return false
		}
	}
	return true
}

func blanks(b []byte, i int) int {
	for i < len(b) && (b[i] == ' ' || b[i] == '\n' || b[i] == '\r' || b[i] == '\t') {
		i++
	}
	return i
}
