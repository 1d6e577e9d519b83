package filter

import (
	"bytes"
	"fmt"
	"regexp"

	"github.com/expr-lang/expr/ast"
	"github.com/expr-lang/expr/file"
)

// compiler turns a tree into functions. The first thing that is not part of the
// language stops it.
type compiler struct {
	fields []string
	places map[string]int
	// inside says that a predicate is being compiled: it sees its item alone, so that
	// no document costs more than in proportion to its length.
	inside bool
	err    *file.Error
}

func (c *compiler) refuse(n ast.Node, format string, args ...any) eval {
	if c.err == nil {
		c.err = &file.Error{Location: n.Location(), Message: fmt.Sprintf(format, args...)}
	}
	return func(*scope) value { return value{} }
}

// condition compiles a node that says yes or no.
func (c *compiler) condition(n ast.Node) eval {
	switch n := n.(type) {
	case *ast.StringNode, *ast.IntegerNode, *ast.FloatNode, *ast.NilNode, *ast.ArrayNode:
		return c.refuse(n, "%s is no condition; write field == value", n)
	case *ast.BuiltinNode:
		if !conditional(n.Name) {
			return c.refuse(n, "%s(…) is no condition; compare it with something", n.Name)
		}
	}
	return c.node(n)
}

func (c *compiler) node(n ast.Node) eval {
	switch n := n.(type) {
	case *ast.NilNode:
		return constant(value{})
	case *ast.BoolNode:
		return constant(truthValue(n.Value))
	case *ast.StringNode:
		return constant(value{kind: text, bytes: []byte(n.Value)})
	case *ast.IntegerNode:
		return constant(value{kind: integer, long: int64(n.Value)})
	case *ast.FloatNode:
		return constant(value{kind: double, double: n.Value})
	case *ast.IdentifierNode:
		return c.field(n, n.Value)
	case *ast.PointerNode:
		if n.Name != "" {
			return c.refuse(n, "#%s is not part of filters", n.Name)
		}
		return func(s *scope) value { return s.item }
	case *ast.ChainNode:
		return c.node(n.Node)
	case *ast.MemberNode:
		return c.member(n)
	case *ast.UnaryNode:
		return c.unary(n)
	case *ast.BinaryNode:
		return c.binary(n)
	case *ast.ConditionalNode:
		cond, yes, no := c.condition(n.Cond), c.node(n.Exp1), c.node(n.Exp2)
		return func(s *scope) value {
			if cond(s).truth() {
				return yes(s)
			}
			return no(s)
		}
	case *ast.BuiltinNode:
		return c.builtin(n)
	case *ast.ArrayNode:
		return c.refuse(n, "a list stands behind in alone")
	}
	return c.refuse(n, "%s is not part of filters", n)
}

func constant(v value) eval { return func(*scope) value { return v } }

// field is a document's top-level field.
func (c *compiler) field(n ast.Node, name string) eval {
	switch {
	case name == "$env":
		return c.refuse(n, `$env stands with a field's name alone, as in $env["a name"]`)
	case name == "_deleted":
		return c.refuse(n, "deletions pass every filter where the table holds the document, so _deleted is not to be asked; table.deletes says what they become")
	case c.inside:
		return c.refuse(n, "%s is a field of the document: within a predicate write .name for what belongs to the item", name)
	}
	i, known := c.places[name]
	if !known {
		i = len(c.fields)
		c.places[name] = i
		c.fields = append(c.fields, name)
	}
	return func(s *scope) value { return read(s.raw[i]) }
}

func (c *compiler) member(n *ast.MemberNode) eval {
	name, named := n.Property.(*ast.StringNode)
	if root, ok := n.Node.(*ast.IdentifierNode); ok && root.Value == "$env" && named {
		return c.field(n, name.Value)
	}
	if named {
		of := c.node(n.Node)
		return func(s *scope) value { return of(s).member(name.Value) }
	}
	sign, property := 1, n.Property
	if minus, ok := property.(*ast.UnaryNode); ok && minus.Operator == "-" {
		sign, property = -1, minus.Node
	}
	place, ok := property.(*ast.IntegerNode)
	if !ok {
		return c.refuse(n.Property, "in brackets stands a number or a text")
	}
	of, i := c.node(n.Node), sign*place.Value
	return func(s *scope) value { return of(s).at(i) }
}

func (c *compiler) unary(n *ast.UnaryNode) eval {
	switch n.Operator {
	case "not", "!":
		of := c.condition(n.Node)
		return func(s *scope) value { return truthValue(!of(s).truth()) }
	case "-":
		switch n := n.Node.(type) {
		case *ast.IntegerNode:
			return constant(value{kind: integer, long: -int64(n.Value)})
		case *ast.FloatNode:
			return constant(value{kind: double, double: -n.Value})
		}
	}
	return c.refuse(n, "%s stands before a number alone", n.Operator)
}

func (c *compiler) binary(n *ast.BinaryNode) eval {
	switch n.Operator {
	case "and", "&&":
		left, right := c.condition(n.Left), c.condition(n.Right)
		return func(s *scope) value { return truthValue(left(s).truth() && right(s).truth()) }
	case "or", "||":
		left, right := c.condition(n.Left), c.condition(n.Right)
		return func(s *scope) value { return truthValue(left(s).truth() || right(s).truth()) }
	case "in":
		return c.in(n)
	case "matches":
		return c.matches(n)
	}
	left, right := c.node(n.Left), c.node(n.Right)
	if n.Operator == "??" {
		return func(s *scope) value {
			if v := left(s); v.kind != null {
				return v
			}
			return right(s)
		}
	}
	is := relation(n.Operator)
	if is == nil {
		return c.refuse(n, "%s is not part of filters", n.Operator)
	}
	return func(s *scope) value { return truthValue(is(left(s), right(s))) }
}

// relation is an operator between two values, nil for one that is none.
func relation(operator string) func(a, b value) bool {
	ordered := func(want func(int) bool) func(a, b value) bool {
		return func(a, b value) bool {
			c, ok := compare(a, b)
			return ok && want(c)
		}
	}
	texts := func(is func(a, b []byte) bool) func(a, b value) bool {
		return func(a, b value) bool { return a.kind == text && b.kind == text && is(a.bytes, b.bytes) }
	}
	switch operator {
	case "==":
		return equal
	case "!=":
		return func(a, b value) bool { return !equal(a, b) }
	case "<":
		return ordered(func(c int) bool { return c < 0 })
	case "<=":
		return ordered(func(c int) bool { return c <= 0 })
	case ">":
		return ordered(func(c int) bool { return c > 0 })
	case ">=":
		return ordered(func(c int) bool { return c >= 0 })
	case "contains":
		return texts(bytes.Contains)
	case "startsWith":
		return texts(bytes.HasPrefix)
	case "endsWith":
		return texts(bytes.HasSuffix)
	}
	return nil
}

func (c *compiler) in(n *ast.BinaryNode) eval {
	left := c.node(n.Left)
	list, ok := n.Right.(*ast.ArrayNode)
	if !ok {
		right := c.node(n.Right)
		return func(s *scope) value { return truthValue(left(s).within(right(s))) }
	}
	items := make([]value, len(list.Nodes))
	for i, item := range list.Nodes {
		of := item
		if minus, ok := item.(*ast.UnaryNode); ok && minus.Operator == "-" {
			of = minus.Node
		}
		switch of.(type) {
		case *ast.StringNode, *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.NilNode:
			items[i] = c.node(item)(&scope{})
		default:
			return c.refuse(item, "a list holds texts, numbers, true, false and nil")
		}
	}
	return func(s *scope) value {
		v := left(s)
		for i := range items {
			if equal(v, items[i]) {
				return truthValue(true)
			}
		}
		return truthValue(false)
	}
}

// matches takes a pattern of package regexp, which needs no more than time in
// proportion to the text.
func (c *compiler) matches(n *ast.BinaryNode) eval {
	left := c.node(n.Left)
	pattern, ok := n.Right.(*ast.StringNode)
	if !ok {
		return c.refuse(n.Right, "behind matches stands a pattern in quotes")
	}
	r, err := regexp.Compile(pattern.Value)
	if err != nil {
		return c.refuse(pattern, "%s", err)
	}
	return func(s *scope) value {
		v := left(s)
		return truthValue(v.kind == text && r.Match(v.bytes))
	}
}

// conditional says whether a function says yes or no.
func conditional(name string) bool { return name == "any" || name == "all" || name == "none" }

func (c *compiler) builtin(n *ast.BuiltinNode) eval {
	if conditional(n.Name) || n.Name == "count" {
		return c.predicate(n)
	}
	var does func(value) value
	onText := func(f func([]byte) []byte) func(value) value {
		return func(v value) value {
			if v.kind != text {
				return value{}
			}
			return value{kind: text, bytes: f(v.bytes)}
		}
	}
	switch n.Name {
	case "len":
		does = value.length
	case "lower":
		does = onText(bytes.ToLower)
	case "upper":
		does = onText(bytes.ToUpper)
	case "trim":
		does = onText(bytes.TrimSpace)
	}
	if does == nil || len(n.Arguments) != 1 {
		return c.refuse(n, "%s is not part of filters", n)
	}
	of := c.node(n.Arguments[0])
	return func(s *scope) value { return does(of(s)) }
}

// predicate is any, all, none or count: of what is no array there are no items.
func (c *compiler) predicate(n *ast.BuiltinNode) eval {
	if len(n.Arguments) != 2 {
		return c.refuse(n, "%s takes a list and a predicate", n.Name)
	}
	if c.inside {
		return c.refuse(n, "a predicate within a predicate is not part of filters")
	}
	of := c.node(n.Arguments[0])
	body, ok := n.Arguments[1].(*ast.PredicateNode)
	if !ok {
		return c.refuse(n.Arguments[1], "here stands a predicate, as in any(lines, .sku == \"A\")")
	}
	c.inside = true
	holds := c.condition(body.Node)
	c.inside = false
	name := n.Name
	return func(s *scope) value {
		list := of(s)
		var yes, no int64
		if list.kind == array {
			eachItem(list.bytes, func(raw []byte) bool {
				s.item = read(raw)
				if holds(s).truth() {
					yes++
				} else {
					no++
				}
				return name == "count" || (name == "all" && no == 0) || (name != "all" && yes == 0)
			})
		}
		switch name {
		case "any":
			return truthValue(yes > 0)
		case "all":
			return truthValue(no == 0)
		case "none":
			return truthValue(yes == 0)
		}
		return value{kind: integer, long: yes}
	}
}
