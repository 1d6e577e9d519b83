package reader

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Where is a predicate over the rows of a table: conditions that must all hold.
// Nil holds for every row.
type Where struct{ conditions []condition }

// ParseWhere reads a predicate: conditions on columns with "and" between them,
//
//	column = value    (also !=, <>, <, <=, >, >=)
//	column in (value, …)
//	column is null
//	column is not null
//
// Values are strings in single or double quotes, in which a doubled quote is
// one, numbers, true and false. Key words are of any case, names of columns are
// as they are. A comparison with null is never true, as in SQL. The error is a
// WhereError.
func ParseWhere(text string) (*Where, error) {
	tokens, err := lex(text)
	if err != nil {
		return nil, err
	}
	p := whereParser{tokens: tokens}
	w := &Where{}
	for {
		c, err := p.condition()
		if err != nil {
			return nil, err
		}
		w.conditions = append(w.conditions, c)
		if p.peek().kind == tokenEnd {
			return w, nil
		}
		if !p.word("and") {
			return nil, p.unexpected(c.column, `"and" or the end`)
		}
	}
}

// Columns are the columns that the predicate names, each once.
func (w *Where) Columns() []string {
	var names []string
	if w == nil {
		return nil
	}
	for i := range w.conditions {
		if name := w.conditions[i].column; !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// WhereError is a predicate that cannot be used.
type WhereError struct {
	// Column is the column whose condition it is, "" when there is none yet.
	Column string
	// Position is the place of the fault in the text, counted in bytes from 1.
	Position int
	// Reason says what is wrong.
	Reason string
}

// Error implements error.
func (e *WhereError) Error() string {
	if e.Column == "" {
		return fmt.Sprintf("predicate, position %d: %s", e.Position, e.Reason)
	}
	return fmt.Sprintf("predicate, position %d, column %q: %s", e.Position, e.Column, e.Reason)
}

// operator is what a condition asks of a value.
type operator uint8

const (
	opEqual operator = iota + 1
	opNotEqual
	opLess
	opAtMost
	opGreater
	opAtLeast
	opIn
	opIsNull
	opNotNull
)

// condition is one condition on one column, as it was written.
type condition struct {
	column string
	at     int
	op     operator
	values []literal
}

type literalKind uint8

const (
	literalString literalKind = iota
	literalNumber
	literalBoolean
)

// literal is a value in a predicate.
type literal struct {
	kind literalKind
	text string
	at   int
}

type tokenKind uint8

const (
	tokenEnd tokenKind = iota
	tokenName
	tokenSymbol
	tokenString
	tokenNumber
)

type token struct {
	kind tokenKind
	text string
	at   int // from 1
}

// lex parts a predicate into tokens; the last is tokenEnd.
func lex(text string) ([]token, error) {
	var list []token
	for i := 0; i < len(text); {
		c := text[i]
		if c == ' ' || c == '\t' || c == '\n' || c == '\r' {
			i++
			continue
		}
		t := token{at: i + 1}
		var n int
		switch {
		case c == '\'' || c == '"':
			if t.text, n = quoted(text[i:]); n == 0 {
				return nil, &WhereError{Position: t.at, Reason: "a string without its closing quote"}
			}
			t.kind = tokenString
		case nameByte(c) && !digit(c):
			for n = 1; i+n < len(text) && nameByte(text[i+n]); n++ {
			}
			t.kind, t.text = tokenName, text[i:i+n]
		case digit(c) || (strings.IndexByte("+-.", c) >= 0 && i+1 < len(text) && (digit(text[i+1]) || text[i+1] == '.')):
			n = number(text[i:])
			t.kind, t.text = tokenNumber, text[i:i+n]
		default:
			if n = symbol(text[i:]); n == 0 {
				return nil, &WhereError{Position: t.at, Reason: fmt.Sprintf("%q has no place in a predicate", firstRune(text[i:]))}
			}
			t.kind, t.text = tokenSymbol, text[i:i+n]
		}
		list = append(list, t)
		i += n
	}
	return append(list, token{kind: tokenEnd, at: len(text) + 1}), nil
}

func digit(c byte) bool { return c >= '0' && c <= '9' }

func nameByte(c byte) bool {
	return c == '_' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || digit(c)
}

func firstRune(s string) string {
	for _, r := range s {
		return string(r)
	}
	return ""
}

// quoted is the string at the start of s and how many bytes it takes with its
// quotes, 0 when it has no end.
func quoted(s string) (text string, n int) {
	quote := s[0]
	var b strings.Builder
	for i := 1; i < len(s); i++ {
		if s[i] != quote {
			b.WriteByte(s[i])
			continue
		}
		if i+1 < len(s) && s[i+1] == quote {
			b.WriteByte(quote)
			i++
			continue
		}
		return b.String(), i + 1
	}
	return "", 0
}

// number is how many bytes at the start of s look like a number; whether they
// are one is found out when the column is known.
func number(s string) int {
	n := 1
	for ; n < len(s); n++ {
		c := s[n]
		if sign := (c == '+' || c == '-') && (s[n-1] == 'e' || s[n-1] == 'E'); !nameByte(c) && c != '.' && !sign {
			break
		}
	}
	return n
}

// symbol is the length of the operator or mark at the start of s, 0 for none.
func symbol(s string) int {
	for _, two := range []string{"!=", "<>", "<=", ">="} {
		if strings.HasPrefix(s, two) {
			return len(two)
		}
	}
	if strings.IndexByte("=<>(),", s[0]) >= 0 {
		return 1
	}
	return 0
}

type whereParser struct {
	tokens []token
	next   int
}

func (p *whereParser) peek() token { return p.tokens[p.next] }

func (p *whereParser) take() token {
	t := p.tokens[p.next]
	if t.kind != tokenEnd {
		p.next++
	}
	return t
}

// word takes the next token if it is that key word.
func (p *whereParser) word(w string) bool {
	if t := p.peek(); t.kind != tokenName || !strings.EqualFold(t.text, w) {
		return false
	}
	p.next++
	return true
}

func (p *whereParser) symbol(s string) bool {
	if t := p.peek(); t.kind != tokenSymbol || t.text != s {
		return false
	}
	p.next++
	return true
}

func (p *whereParser) unexpected(column, want string) error {
	t := p.peek()
	found := strconv.Quote(t.text)
	if t.kind == tokenEnd {
		found = "the end"
	}
	return &WhereError{Column: column, Position: t.at, Reason: fmt.Sprintf("%s, where %s is expected", found, want)}
}

func (p *whereParser) condition() (condition, error) {
	if p.peek().kind != tokenName {
		return condition{}, p.unexpected("", "a column")
	}
	name := p.take()
	c := condition{column: name.text, at: name.at}
	switch {
	case p.word("is"):
		c.op = opIsNull
		if p.word("not") {
			c.op = opNotNull
		}
		if !p.word("null") {
			return c, p.unexpected(c.column, `"null"`)
		}
		return c, nil
	case p.word("in"):
		c.op = opIn
		return c, p.list(&c)
	}
	var known bool
	if t := p.peek(); t.kind == tokenSymbol {
		c.op, known = comparison(t.text)
	}
	if !known {
		return c, p.unexpected(c.column, "=, !=, <, <=, >, >=, in or is")
	}
	p.take()
	v, err := p.value(&c)
	c.values = []literal{v}
	return c, err
}

func comparison(symbol string) (operator, bool) {
	switch symbol {
	case "=":
		return opEqual, true
	case "!=", "<>":
		return opNotEqual, true
	case "<":
		return opLess, true
	case "<=":
		return opAtMost, true
	case ">":
		return opGreater, true
	case ">=":
		return opAtLeast, true
	}
	return 0, false
}

func (p *whereParser) list(c *condition) error {
	if !p.symbol("(") {
		return p.unexpected(c.column, `"("`)
	}
	for {
		v, err := p.value(c)
		if err != nil {
			return err
		}
		c.values = append(c.values, v)
		if p.symbol(")") {
			return nil
		}
		if !p.symbol(",") {
			return p.unexpected(c.column, `"," or ")"`)
		}
	}
}

func (p *whereParser) value(c *condition) (literal, error) {
	t := p.peek()
	l := literal{text: t.text, at: t.at}
	switch {
	case t.kind == tokenString:
		l.kind = literalString
	case t.kind == tokenNumber:
		l.kind = literalNumber
	case t.kind == tokenName && (strings.EqualFold(t.text, "true") || strings.EqualFold(t.text, "false")):
		l.kind, l.text = literalBoolean, strings.ToLower(t.text)
	case t.kind == tokenName && strings.EqualFold(t.text, "null"):
		return l, &WhereError{Column: c.column, Position: t.at, Reason: `null is asked for with "is null" or "is not null"`}
	default:
		return l, p.unexpected(c.column, "a value (strings stand in quotes)")
	}
	p.take()
	return l, nil
}
