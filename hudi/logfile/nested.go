package logfile

import (
	"fmt"

	"github.com/couch2hudi/couch2hudi/hudi"
	"github.com/couch2hudi/couch2hudi/internal/avro"
)

// AppendNestedJSON appends a value of hudi.KindNested of the given column as
// JSON: for those who show rows and may not know Avro.
func AppendNestedJSON(dst []byte, c *hudi.Column, v hudi.Value) ([]byte, error) {
	s, err := avro.Parse(c.AvroType())
	if err != nil {
		return dst, fmt.Errorf("type of column %q: %w", c.Name, err)
	}
	out, rest, err := avro.AppendJSON(dst, s.Type(), v.Raw())
	if err != nil {
		return dst, fmt.Errorf("show nested value: %w", err)
	}
	if len(rest) > 0 {
		return dst, fmt.Errorf("show nested value: %w: %d bytes too many", avro.ErrData, len(rest))
	}
	return out, nil
}
