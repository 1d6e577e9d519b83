package catalog

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/couch2hudi/couch2hudi/hudi"
)

// names is a column's type in the words of Hive, and in those of Spark's schema JSON.
type names struct {
	hive  string
	spark any
}

// sparkStruct and its fields are Spark's StructType as its JSON has it.
type sparkStruct struct {
	Type   string       `json:"type"`
	Fields []sparkField `json:"fields"`
}

type sparkField struct {
	Name     string   `json:"name"`
	Type     any      `json:"type"`
	Nullable bool     `json:"nullable"`
	Metadata struct{} `json:"metadata"`
}

type sparkArray struct {
	Type         string `json:"type"`
	Element      any    `json:"elementType"`
	ContainsNull bool   `json:"containsNull"`
}

type sparkMap struct {
	Type         string `json:"type"`
	Key          any    `json:"keyType"`
	Value        any    `json:"valueType"`
	ContainsNull bool   `json:"valueContainsNull"`
}

// avroType is an Avro type that is more than a name.
type avroType struct {
	Type      json.RawMessage `json:"type"`
	Name      string          `json:"name"`
	Namespace string          `json:"namespace"`
	Logical   string          `json:"logicalType"`
	Precision int             `json:"precision"`
	Scale     int             `json:"scale"`
	Items     json.RawMessage `json:"items"`
	Values    json.RawMessage `json:"values"`
	Fields    []struct {
		Name string          `json:"name"`
		Type json.RawMessage `json:"type"`
	} `json:"fields"`
}

// typeReader reads the Avro types of a schema. A named type may be referred to by its
// name further on.
type typeReader struct{ named map[string]names }

// column is the type of a column.
func (r *typeReader) column(c *hudi.Column) (names, error) {
	n, _, err := r.read(json.RawMessage(c.AvroType()), "")
	if err != nil {
		return names{}, fmt.Errorf("%w: %s: %w", ErrColumns, c.Name, err)
	}
	return n, nil
}

// primitives are Avro's, which Hive and Spark call so.
func primitives(name string) (names, bool) {
	switch name {
	case "boolean", "float", "double", "string":
		return names{name, name}, true
	case "int":
		return names{"int", "integer"}, true
	case "long":
		return names{"bigint", "long"}, true
	case "bytes":
		return names{"binary", "binary"}, true
	}
	return names{}, false
}

// read is a type, and whether it may be null.
func (r *typeReader) read(raw json.RawMessage, space string) (names, bool, error) {
	var name string
	if json.Unmarshal(raw, &name) == nil {
		return r.byName(name, space)
	}
	var union []json.RawMessage
	if json.Unmarshal(raw, &union) == nil {
		return r.union(union, space)
	}
	var t avroType
	if err := json.Unmarshal(raw, &t); err != nil {
		return names{}, false, err
	}
	var kind string
	if err := json.Unmarshal(t.Type, &kind); err != nil {
		return r.read(t.Type, space)
	}
	n, err := r.composite(kind, &t, space)
	return n, false, err
}

func (r *typeReader) byName(name, space string) (names, bool, error) {
	if n, ok := primitives(name); ok {
		return n, false, nil
	}
	for _, full := range []string{name, space + "." + name} {
		if n, ok := r.named[full]; ok {
			return n, false, nil
		}
	}
	return names{}, false, fmt.Errorf("no type %q", name)
}

func (r *typeReader) union(of []json.RawMessage, space string) (n names, null bool, err error) {
	seen := 0
	for _, raw := range of {
		if strings.TrimSpace(string(raw)) == `"null"` {
			null = true
			continue
		}
		if n, _, err = r.read(raw, space); err != nil {
			return names{}, false, err
		}
		seen++
	}
	if seen != 1 {
		return names{}, false, fmt.Errorf("a union of %d types", seen)
	}
	return n, null, nil
}

func (r *typeReader) composite(kind string, t *avroType, space string) (names, error) {
	if t.Namespace != "" {
		space = t.Namespace
	}
	var n names
	var err error
	switch {
	case t.Logical == "decimal":
		text := fmt.Sprintf("decimal(%d,%d)", t.Precision, t.Scale)
		n = names{text, text}
	case t.Logical == "date":
		n = names{"date", "date"}
	case strings.HasPrefix(t.Logical, "timestamp-") || strings.HasPrefix(t.Logical, "local-timestamp-"):
		n = names{"timestamp", "timestamp"}
	case kind == "enum":
		n = names{"string", "string"}
	case kind == "fixed":
		n = names{"binary", "binary"}
	case kind == "array":
		n, err = r.array(t.Items, space)
	case kind == "map":
		n, err = r.mapping(t.Values, space)
	case kind == "record":
		n, err = r.record(t, space)
	default:
		n, _, err = r.byName(kind, space)
	}
	if err == nil && t.Name != "" {
		full := t.Name
		if !strings.Contains(full, ".") && space != "" {
			full = space + "." + full
		}
		r.named[full] = n
	}
	return n, err
}

func (r *typeReader) array(items json.RawMessage, space string) (names, error) {
	e, null, err := r.read(items, space)
	return names{"array<" + e.hive + ">", sparkArray{"array", e.spark, null}}, err
}

func (r *typeReader) mapping(values json.RawMessage, space string) (names, error) {
	v, null, err := r.read(values, space)
	return names{"map<string," + v.hive + ">", sparkMap{"map", "string", v.spark, null}}, err
}

func (r *typeReader) record(t *avroType, space string) (names, error) {
	members := make([]string, 0, len(t.Fields))
	fields := make([]sparkField, 0, len(t.Fields))
	taken := map[string]string{}
	for _, f := range t.Fields {
		n, null, err := r.read(f.Type, space)
		if err != nil {
			return names{}, fmt.Errorf("%s: %w", f.Name, err)
		}
		lower := strings.ToLower(f.Name)
		if other, ok := taken[lower]; ok {
			return names{}, fmt.Errorf("the members %s and %s differ only in case", other, f.Name)
		}
		taken[lower] = f.Name
		members = append(members, lower+":"+n.hive)
		fields = append(fields, sparkField{Name: f.Name, Type: n.spark, Nullable: null})
	}
	return names{"struct<" + strings.Join(members, ",") + ">", sparkStruct{"struct", fields}}, nil
}
