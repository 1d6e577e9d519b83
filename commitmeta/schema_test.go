package commitmeta_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/couch2hudi/couch2hudi/commitmeta"
	"github.com/couch2hudi/couch2hudi/internal/avro"
)

// vectorRecord is a record as avro_fields.json has it: name, type and default
// of each field.
type vectorRecord struct {
	Namespace string
	Fields    [][3]*string
}

// notation writes a type as avro_fields.json does and calls seen with every
// record inside.
func notation(t any, namespace string, seen func(name, namespace string, fields []any)) string {
	switch v := t.(type) {
	case string:
		return v
	case []any:
		parts := make([]string, len(v))
		for i := range v {
			parts[i] = notation(v[i], namespace, seen)
		}
		return strings.Join(parts, "|")
	case map[string]any:
		if n, ok := v["namespace"].(string); ok {
			namespace = n
		}
		switch v["type"] {
		case "array":
			return "array<" + notation(v["items"], namespace, seen) + ">"
		case "map":
			return "map<" + notation(v["values"], namespace, seen) + ">"
		case "record":
			seen(v["name"].(string), namespace, v["fields"].([]any))
			return v["name"].(string)
		}
		return notation(v["type"], namespace, seen)
	}
	return fmt.Sprint(t)
}

// TestSchemasHaveTheFieldsOfHudi compares every record of every schema that we
// write with what reflection found in Hudi's classes.
func TestSchemasHaveTheFieldsOfHudi(t *testing.T) {
	data, err := os.ReadFile("../testdata/vectors/avro_fields.json")
	if err != nil {
		t.Fatal(err)
	}
	var vectors struct {
		Versions map[string]map[string]vectorRecord
	}
	if err := json.Unmarshal(data, &vectors); err != nil {
		t.Fatal(err)
	}
	known := vectors.Versions["0.15.0"]
	files, err := filepath.Glob("avsc/*.avsc")
	if err != nil || len(files) == 0 {
		t.Fatalf("no schemas: %v", err)
	}
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		var schema any
		if err := json.Unmarshal(text, &schema); err != nil {
			t.Fatal(err)
		}
		records := 0
		var seen func(name, namespace string, fields []any)
		seen = func(name, namespace string, fields []any) {
			records++
			got := vectorRecord{Namespace: namespace}
			for _, f := range fields {
				field := f.(map[string]any)
				entry := [3]*string{ptr(field["name"].(string)), ptr(notation(field["type"], namespace, seen))}
				if d, ok := field["default"]; ok {
					text, err := json.Marshal(d)
					if err != nil {
						t.Fatal(err)
					}
					entry[2] = ptr(string(text))
				}
				got.Fields = append(got.Fields, entry)
			}
			if want := known[name]; !reflect.DeepEqual(got, want) {
				t.Errorf("%s: record %s: %s, want %s", f, name, show(got), show(want))
			}
		}
		if name := notation(schema, "", seen); name != strings.TrimSuffix(filepath.Base(f), ".avsc") {
			t.Errorf("%s holds %s", f, name)
		}
		if records == 0 {
			t.Errorf("%s: no record", f)
		}
	}
}

func ptr[T any](v T) *T { return &v }

func show(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// fileSchema is the schema in a container file's head.
func fileSchema(t *testing.T, data []byte) string {
	t.Helper()
	const key = "avro.schema"
	at := bytes.Index(data, []byte(key))
	if at < 0 {
		t.Fatal("no schema")
	}
	text, _, err := avro.ReadText(data[at+len(key):])
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// again decodes a file and encodes what came out.
func again[T any](decode func([]byte) (T, error), encode func(T) ([]byte, error)) func([]byte) ([]byte, error) {
	return func(data []byte) ([]byte, error) {
		v, err := decode(data)
		if err != nil {
			return nil, err
		}
		return encode(v)
	}
}

// TestWrittenAsHudiWrites decodes every file that real Hudi wrote and encodes it
// again: the schema is the same to the byte, and every field has the same value.
func TestWrittenAsHudiWrites(t *testing.T) {
	for suffix, encode := range map[string]func([]byte) ([]byte, error){
		".compaction.requested":    again(commitmeta.DecodeCompactionPlan, commitmeta.EncodeCompactionPlan),
		".replacecommit.requested": again(commitmeta.DecodeReplacePlan, commitmeta.EncodeReplacePlan),
		".clean.requested":         again(commitmeta.DecodeCleanPlan, commitmeta.EncodeCleanPlan),
		".clean.inflight":          again(commitmeta.DecodeCleanPlan, commitmeta.EncodeCleanPlan),
		".clean":                   again(commitmeta.DecodeCleanResult, commitmeta.EncodeCleanResult),
		".savepoint":               again(commitmeta.DecodeSavepoint, commitmeta.EncodeSavepoint),
		".restore.requested":       again(commitmeta.DecodeRestorePlan, commitmeta.EncodeRestorePlan),
		".restore":                 again(commitmeta.DecodeRestoreResult, commitmeta.EncodeRestoreResult),
		".rollback":                again(commitmeta.DecodeRollbackResult, commitmeta.EncodeRollbackResult),
	} {
		goldenFiles(t, func(name string, data []byte) {
			ours, err := encode(data)
			if err != nil {
				t.Errorf("%s: %v", name, err)
				return
			}
			if got, want := fileSchema(t, ours), fileSchema(t, data); got != want {
				t.Errorf("%s: schema\n%s\nwant\n%s", name, got, want)
			}
			var got, want map[string]any
			if err := avro.DecodeFile(data, &want); err != nil {
				t.Fatal(err)
			}
			if err := avro.DecodeFile(ours, &got); err != nil {
				t.Fatal(err)
			}
			if len(want) == 0 || !reflect.DeepEqual(got, want) {
				t.Errorf("%s:\n%s\nwant\n%s", name, show(got), show(want))
			}
		}, suffix)
	}
	plan, err := commitmeta.EncodeRollbackPlan(commitmeta.RollbackPlan{})
	if err != nil {
		t.Fatal(err)
	}
	goldenFiles(t, func(name string, data []byte) {
		if got, want := fileSchema(t, plan), fileSchema(t, data); got != want {
			t.Errorf("%s: schema\n%s\nwant\n%s", name, got, want)
		}
	}, ".rollback.requested")
}
