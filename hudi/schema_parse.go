package hudi

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
)

// ParseSchema reads a table schema from Avro JSON. Meta columns in front are
// left out, so that it takes the schema of a commit as well as that of a file.
func ParseSchema(avro string) (*Schema, error) {
	var rec struct {
		Type      string            `json:"type"`
		Name      string            `json:"name"`
		Namespace string            `json:"namespace"`
		Fields    []json.RawMessage `json:"fields"`
	}
	if err := json.Unmarshal([]byte(avro), &rec); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrSchema, err)
	}
	if rec.Type != "record" || rec.Name == "" {
		return nil, fmt.Errorf("%w: not a record: type %q, name %q", ErrSchema, rec.Type, rec.Name)
	}
	columns := make([]Column, 0, len(rec.Fields))
	for _, f := range rec.Fields {
		c, err := parseField(f)
		if err != nil {
			return nil, err
		}
		if !IsMetaColumn(c.Name) {
			columns = append(columns, c)
		}
	}
	return MakeSchema(rec.Name, rec.Namespace, columns...)
}

// IsMetaColumn says whether a column is Hudi's own.
func IsMetaColumn(name string) bool {
	if !strings.HasPrefix(name, "_hoodie_") {
		return false
	}
	for _, m := range MetaColumns() {
		if m == name {
			return true
		}
	}
	return name == MetaOperation
}

func parseField(raw json.RawMessage) (Column, error) {
	var f struct {
		Name string          `json:"name"`
		Type json.RawMessage `json:"type"`
		Doc  string          `json:"doc"`
	}
	if err := json.Unmarshal(raw, &f); err != nil {
		return Column{}, fmt.Errorf("%w: %w", ErrSchema, err)
	}
	c := Column{Name: f.Name, Doc: f.Doc}
	typ, nullable, err := withoutNull(f.Type)
	if err != nil {
		return Column{}, fmt.Errorf("column %q: %w", f.Name, err)
	}
	c.Required = !nullable
	if c.Kind, c.Type, err = parseType(typ); err != nil {
		return Column{}, fmt.Errorf("column %q: %w", f.Name, err)
	}
	return c, nil
}

// withoutNull takes the null out of a union of two; ["null",T] and [T,"null"]
// both occur.
func withoutNull(raw json.RawMessage) (json.RawMessage, bool, error) {
	var union []json.RawMessage
	if len(raw) == 0 || raw[0] != '[' {
		return raw, false, nil
	}
	if err := json.Unmarshal(raw, &union); err != nil {
		return nil, false, fmt.Errorf("%w: %w", ErrSchema, err)
	}
	var rest []json.RawMessage
	for _, b := range union {
		if string(b) != `"null"` {
			rest = append(rest, b)
		}
	}
	if len(rest) != 1 {
		return nil, false, fmt.Errorf("%w: a union of %d types: %s", ErrSchema, len(rest), raw)
	}
	return rest[0], len(rest) < len(union), nil
}

func parseType(raw json.RawMessage) (Kind, string, error) {
	var name string
	if json.Unmarshal(raw, &name) == nil {
		if k, ok := primitive(name); ok {
			return k, "", nil
		}
		return KindNull, "", fmt.Errorf("%w: type %q", ErrSchema, name)
	}
	var t struct {
		Type    json.RawMessage `json:"type"`
		Logical string          `json:"logicalType"`
	}
	if err := json.Unmarshal(raw, &t); err != nil {
		return KindNull, "", fmt.Errorf("%w: type %s: %w", ErrSchema, raw, err)
	}
	if json.Unmarshal(t.Type, &name) != nil {
		// {"type":{"type":"string",…}}: one more level than needed.
		return parseType(t.Type)
	}
	text, err := compact(raw)
	if err != nil {
		return KindNull, "", err
	}
	switch name {
	case "record", "array", "map":
		return KindNested, text, nil
	case "fixed":
		return KindBytes, text, nil
	case "enum":
		return KindString, text, nil
	}
	k, ok := primitive(name)
	if !ok {
		return KindNull, "", fmt.Errorf("%w: type %q", ErrSchema, name)
	}
	if t.Logical == "" {
		// {"type":"string","avro.java.string":"String"} is a plain string.
		return k, "", nil
	}
	return k, text, nil
}

func primitive(name string) (Kind, bool) {
	for k := KindBoolean; k <= KindBytes; k++ {
		if kindNames[k] == name {
			return k, true
		}
	}
	return KindNull, false
}

func compact(raw json.RawMessage) (string, error) {
	var b bytes.Buffer
	if err := json.Compact(&b, raw); err != nil {
		return "", fmt.Errorf("%w: %w", ErrSchema, err)
	}
	return b.String(), nil
}

func quote(s string) string {
	b, err := json.Marshal(s)
	if err != nil { // a string always marshals
		panic(err)
	}
	return string(b)
}
