package basefile

import (
	"encoding/binary"
	"fmt"
	"io"
	"slices"

	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"

	"github.com/couch2hudi/couch2hudi/hudi"
)

// tail stands between the Parquet library and the file. It holds the end of the
// file back, so that the footer can be put right: the library stores the whole
// least and greatest value of each column, be they megabytes of document, for
// columns without bounds an index that says that all values are empty, and an
// annotation on plain integers.
type tail struct {
	w       io.Writer
	hold    bool
	held    []byte
	written int64
	// unbounded says which columns have no bounds.
	unbounded func(column string) bool
}

// Write passes data on, or holds it back.
func (t *tail) Write(p []byte) (int, error) {
	if t.hold {
		t.held = append(t.held, p...)
		return len(p), nil
	}
	n, err := t.w.Write(p)
	t.written += int64(n)
	return n, err
}

const (
	parquetMagic = "PAR1"
	// creator has the form that parquet-mr parses; without it, it distrusts statistics.
	creator = "couch2hudi version 1.0.0 (build parquet-go)"
	// longestBound is how long a value may be to stand in a column's statistics.
	longestBound = 256
)

// unbounded are columns that hold whole documents or parts: no one looks for
// the greatest of them.
func unbounded(column string) bool {
	return column == hudi.ColumnDoc || column == hudi.ColumnRescued || column == hudi.ColumnLeaves || column == hudi.ColumnAttachments
}

// finish writes what was held back, with the footer put right.
func (t *tail) finish(meta *format.FileMetaData) error {
	const end = 4 + len(parquetMagic)
	if len(t.held) < end || string(t.held[len(t.held)-len(parquetMagic):]) != parquetMagic {
		return fmt.Errorf("%w: written without its footer", ErrFormat)
	}
	old := int(binary.LittleEndian.Uint32(t.held[len(t.held)-end:]))
	if old > len(t.held)-end {
		return fmt.Errorf("%w: footer of %d bytes", ErrFormat, old)
	}
	fixed := *meta
	fixed.CreatedBy = creator
	fixed.Schema = slices.Clone(meta.Schema)
	for i := range fixed.Schema {
		plainInteger(&fixed.Schema[i])
	}
	fixed.RowGroups = slices.Clone(meta.RowGroups)
	for i := range fixed.RowGroups {
		g := &fixed.RowGroups[i]
		g.Columns = slices.Clone(g.Columns)
		for j := range g.Columns {
			t.fixColumn(&g.Columns[j])
		}
	}
	footer, err := thrift.Marshal(new(thrift.CompactProtocol), &fixed)
	if err != nil {
		return fmt.Errorf("encode the footer: %w", err)
	}
	t.hold = false
	t.held = append(t.held[:len(t.held)-end-old], footer...)
	t.held = binary.LittleEndian.AppendUint32(t.held, uint32(len(footer)))
	t.held = append(t.held, parquetMagic...)
	if _, err := t.Write(t.held); err != nil {
		return fmt.Errorf("write base file: %w", err)
	}
	t.held = nil
	return nil
}

// plainInteger takes the annotation off integers that are as wide as their
// storage: Hudi's own writers leave it out, and so no reader trips over it.
func plainInteger(e *format.SchemaElement) {
	if _, ok := e.LogicalType.Value.(*format.IntType); ok {
		e.LogicalType = format.LogicalType{}
		e.ConvertedType.Valid = false
	}
}

// texts says whether a column holds text or bytes, or may have them inside.
func texts(s *hudi.Schema, column string) bool {
	i, ok := s.Lookup(column)
	if !ok {
		return false
	}
	k := s.Columns()[i].Kind
	return k == hudi.KindString || k == hudi.KindBytes || k == hudi.KindNested
}

func (t *tail) fixColumn(c *format.ColumnChunk) {
	s := &c.MetaData.Statistics
	if len(s.MinValue) > longestBound || len(s.MaxValue) > longestBound {
		s.MinValue, s.MaxValue = nil, nil
	}
	if t.unbounded(c.MetaData.PathInSchema[0]) {
		c.ColumnIndexOffset, c.ColumnIndexLength = 0, 0
	}
}
