package avro

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

// parser turns the JSON of a schema into a tree of types.
type parser struct {
	// named are the types with names so far, by full name.
	named map[string]*Type
	depth int
}

// node is the JSON object of a type.
type node map[string]any

func (n node) text(key string) string {
	s, _ := n[key].(string)
	return s
}

// number is an integer of the schema, -1 when there is none.
func (n node) number(key string) int {
	f, ok := n[key].(float64)
	if !ok || f != math.Trunc(f) || f < 0 || f > math.MaxInt32 {
		return -1
	}
	return int(f)
}

func bad(format string, a ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{ErrSchema}, a...)...)
}

func (p *parser) parse(v any, namespace string) (*Type, error) {
	if p.depth++; p.depth > maxDepth {
		return nil, bad("nested deeper than %d", maxDepth)
	}
	defer func() { p.depth-- }()
	switch v := v.(type) {
	case string:
		if k := slices.Index(kindNames[:], v); k >= 0 && Kind(k) <= Bytes {
			return &Type{Kind: Kind(k)}, nil
		}
		if t := p.named[fullName(v, namespace)]; t != nil {
			return t, nil
		}
		if t := p.named[v]; t != nil {
			return t, nil
		}
		return nil, bad("unknown type %q", v)
	case []any:
		return p.union(v, namespace)
	case map[string]any:
		return p.object(v, namespace)
	}
	return nil, bad("no type: %v", v)
}

func (p *parser) union(branches []any, namespace string) (*Type, error) {
	t := &Type{Kind: Union}
	for _, b := range branches {
		branch, err := p.parse(b, namespace)
		if err != nil {
			return nil, err
		}
		if branch.Kind == Union {
			return nil, bad("a union in a union")
		}
		for _, o := range t.Branches {
			if o.Kind == branch.Kind && o.Name == branch.Name {
				return nil, bad("a union with two branches of %s", branch)
			}
		}
		t.Branches = append(t.Branches, branch)
	}
	if len(t.Branches) == 0 {
		return nil, bad("a union of nothing")
	}
	return t, nil
}

func (p *parser) object(n node, namespace string) (*Type, error) {
	switch n.text("type") {
	case "record", "error":
		return p.record(n, namespace)
	case "enum":
		t := &Type{Kind: Enum}
		symbols, _ := n["symbols"].([]any)
		for _, s := range symbols {
			text, ok := s.(string)
			if !ok || text == "" {
				return nil, bad("enum with the symbol %v", s)
			}
			t.Symbols = append(t.Symbols, text)
		}
		if len(t.Symbols) == 0 {
			return nil, bad("enum without symbols")
		}
		_, err := p.name(t, n, namespace)
		return t, err
	case "fixed":
		t := &Type{Kind: Fixed, Size: n.number("size")}
		if t.Size < 0 {
			return nil, bad("fixed of size %v", n["size"])
		}
		t.setLogical(n)
		_, err := p.name(t, n, namespace)
		return t, err
	case "array":
		item, err := p.parse(n["items"], namespace)
		return &Type{Kind: Array, Item: item}, err
	case "map":
		item, err := p.parse(n["values"], namespace)
		return &Type{Kind: Map, Item: item}, err
	}
	// A primitive with attributes, or a type wrapped once more.
	t, err := p.parse(n["type"], namespace)
	if err == nil && t.Name == "" && t.Kind <= Bytes {
		t.setLogical(n)
	}
	return t, err
}

func (p *parser) record(n node, namespace string) (*Type, error) {
	t := &Type{Kind: Record}
	inner, err := p.name(t, n, namespace)
	if err != nil {
		return nil, err
	}
	fields, ok := n["fields"].([]any)
	if !ok {
		return nil, bad("record %q without fields", t.Name)
	}
	for _, f := range fields {
		field, ok := f.(map[string]any)
		if !ok {
			return nil, bad("record %q: no field: %v", t.Name, f)
		}
		name := node(field).text("name")
		if !legal(name) || t.Field(name) != nil {
			return nil, bad("record %q: field name %q", t.Name, name)
		}
		typ, err := p.parse(field["type"], inner)
		if err != nil {
			return nil, fmt.Errorf("field %q: %w", name, err)
		}
		t.Fields = append(t.Fields, Field{Name: name, Type: typ})
	}
	return t, nil
}

// name gives t its full name and remembers it. The namespace in which types
// within it are found is returned.
func (p *parser) name(t *Type, n node, namespace string) (string, error) {
	if own, ok := n["namespace"].(string); ok {
		namespace = own
	}
	t.Name = fullName(n.text("name"), namespace)
	for part := range strings.SplitSeq(t.Name, ".") {
		if !legal(part) {
			return "", bad("name %q", t.Name)
		}
	}
	if p.named[t.Name] != nil {
		return "", bad("two types named %q", t.Name)
	}
	p.named[t.Name] = t
	i := max(strings.LastIndexByte(t.Name, '.'), 0)
	return t.Name[:i], nil
}

func fullName(name, namespace string) string {
	if namespace == "" || strings.Contains(name, ".") {
		return name
	}
	return namespace + "." + name
}

func legal(name string) bool {
	for i := range len(name) {
		c := name[i]
		letter := c == '_' || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z')
		if !letter && (i == 0 || c < '0' || c > '9') {
			return false
		}
	}
	return name != ""
}

// setLogical takes a logical type over if it is one that goes with the type;
// others are to be ignored, says Avro.
func (t *Type) setLogical(n node) {
	l := n.text("logicalType")
	switch {
	case t.Kind == String && l == "uuid", t.Kind == Int && (l == "date" || l == "time-millis"), t.Kind == Fixed && t.Size == 12 && l == "duration":
		t.Logical = l
	case t.Kind == Long:
		if slices.Contains([]string{"time-micros", "timestamp-millis", "timestamp-micros", "local-timestamp-millis", "local-timestamp-micros"}, l) {
			t.Logical = l
		}
	case l == logicalDecimal && (t.Kind == Bytes || t.Kind == Fixed):
		precision, scale := n.number("precision"), max(n.number("scale"), 0)
		if precision > 0 && scale <= precision && (t.Kind == Bytes || precision <= digitsIn(t.Size)) {
			t.Logical, t.Precision, t.Scale = l, precision, scale
		}
	}
}

// digitsIn is how many decimal digits a signed integer of that many bytes always holds.
func digitsIn(bytes int) int {
	const digitsPerBit = 0.30102999566398120
	return int(digitsPerBit * float64(8*bytes-1))
}
