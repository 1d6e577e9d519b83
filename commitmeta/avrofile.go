package commitmeta

import (
	"embed"
	"fmt"

	"github.com/couch2hudi/couch2hudi/internal/avro"
)

// schemas are the records of org.apache.hudi.avro.model as Hudi 0.15 writes
// them into its files, byte for byte. Each file is named after its record.
//
//go:embed avsc/*.avsc
var schemas embed.FS

// schemaText is the schema of a record.
func schemaText(record string) string {
	text, err := schemas.ReadFile("avsc/" + record + ".avsc")
	if err != nil { // the files are part of the program
		panic(err)
	}
	return string(text)
}

// encodeFile parses the schema each time: plans are rare, and a parsed schema
// kept would be state of the package. Entries of maps stand in no order.
func encodeFile(record string, v any) ([]byte, error) {
	s, err := avro.Parse(schemaText(record))
	if err != nil {
		return nil, err
	}
	data, err := s.EncodeFile(v)
	if err != nil {
		return nil, fmt.Errorf("encode %s: %w", record, err)
	}
	return data, nil
}

// decodeFile reads the one record of a container file.
func decodeFile(record string, data []byte, v any) error {
	if err := avro.DecodeFile(data, v); err != nil {
		return fmt.Errorf("%w: %s: %w", ErrDecode, record, err)
	}
	return nil
}

// text is what a field holds, "" for null.
func text(s *string) string { return orZero(s) }

// list is nil for an empty list too.
func list(l *[]string) []string {
	if l == nil || len(*l) == 0 {
		return nil
	}
	return *l
}

func orZero[T any](v *T) T {
	if v == nil {
		var zero T
		return zero
	}
	return *v
}

func ptr[T any](v T) *T { return &v }

// orNull is null for the zero value.
func orNull[T comparable](v T) *T {
	var zero T
	if v == zero {
		return nil
	}
	return &v
}

// filled is a map that is written as such when it is nil: Hudi's own code takes
// sizes of maps without asking for null.
func filled[V any](m map[string]V) map[string]V {
	if m == nil {
		return map[string]V{}
	}
	return m
}

// some is the map, nil when it is null or empty.
func some[V any](m *map[string]V) map[string]V {
	if m == nil || len(*m) == 0 {
		return nil
	}
	return *m
}

// items is a list that is written as such when it is nil.
func items(l []string) []string {
	if l == nil {
		return []string{}
	}
	return l
}

// baseName is the last part of a path. Object stores' paths have "/" too.
func baseName(path string) string {
	for i := len(path) - 1; i >= 0; i-- {
		if path[i] == '/' {
			return path[i+1:]
		}
	}
	return path
}
