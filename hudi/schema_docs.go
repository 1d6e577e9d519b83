package hudi

import (
	"bytes"
	"encoding/json"
	"reflect"
)

// docsInside is a nested type with the docs of the fields of the same names in
// another one, where it has none. When that is all that makes the two differ the
// other one is returned as it is.
func docsInside(have, from string) string {
	h, f := decoded(have), decoded(from)
	if h == nil || f == nil {
		return have
	}
	if !takeDocs(h, f) {
		return have
	}
	if reflect.DeepEqual(h, f) {
		return from
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if e.Encode(h) != nil {
		return have
	}
	return string(bytes.TrimSpace(b.Bytes()))
}

func decoded(text string) (v any) {
	d := json.NewDecoder(bytes.NewReader([]byte(text)))
	d.UseNumber()
	if d.Decode(&v) != nil {
		return nil
	}
	return v
}

// takeDocs says whether it took any.
func takeDocs(have, from any) (took bool) {
	switch h := have.(type) {
	case []any: // a union; the branches may stand in another order
		f, _ := from.([]any)
		for _, a := range h {
			for _, b := range f {
				took = takeDocs(a, b) || took
			}
		}
	case map[string]any:
		f, ok := from.(map[string]any)
		if !ok || !reflect.DeepEqual(h["type"], f["type"]) {
			return false
		}
		took = takeDocs(h["items"], f["items"])
		took = takeDocs(h["values"], f["values"]) || took
		return takeFieldDocs(h["fields"], f["fields"]) || took
	}
	return took
}

func takeFieldDocs(have, from any) (took bool) {
	h, _ := have.([]any)
	f, _ := from.([]any)
	named := map[any]map[string]any{}
	for _, field := range f {
		if m, ok := field.(map[string]any); ok {
			named[m["name"]] = m
		}
	}
	for _, field := range h {
		m, ok := field.(map[string]any)
		if !ok || named[m["name"]] == nil {
			continue
		}
		doc, noted := named[m["name"]]["doc"]
		if old := m["doc"]; noted && (old == nil || old == "") {
			m["doc"], took = doc, true
		} else if old == "" {
			delete(m, "doc")
		}
		took = takeDocs(m["type"], named[m["name"]]["type"]) || took
	}
	return took
}
