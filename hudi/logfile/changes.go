package logfile

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"iter"
	"math"
	"strings"

	"github.com/couch2hudi/couch2hudi/hudi"
	"github.com/couch2hudi/couch2hudi/internal/avro"
)

// Change is one row of a change file. What the table's mode leaves out is nil,
// and so are the images that an operation does not have.
type Change struct {
	Op hudi.Op
	// Key is the record key, "" in the mode that has both images.
	Key           string
	Before, After hudi.Row
}

const (
	fieldOp     = "op"
	fieldTime   = "ts_ms"
	fieldKey    = "record_key"
	fieldBefore = "before"
	fieldAfter  = "after"
)

// changeSchema is the schema of a change file's blocks, as Hudi has it
// (docs/format/cdc.md).
func changeSchema(s *hudi.Schema, m hudi.CDCMode) string {
	if m == hudi.CDCOpKeyOnly {
		return `{"type":"record","name":"Record","fields":[{"name":"op","type":["string","null"]},{"name":"record_key","type":["string","null"]}]}`
	}
	name, full := `"CDC"`, s.Name
	if s.Namespace != "" {
		name, full = `"CDC","namespace":"`+s.Namespace+`"`, s.Namespace+"."+s.Name
	}
	var b strings.Builder
	b.WriteString(`{"type":"record","name":` + name + `,"fields":[`)
	field := func(name, typ, sep string) {
		b.WriteString(`{"name":"` + name + `","type":["null",` + typ + `],"doc":"","default":null}` + sep)
	}
	field(fieldOp, `"string"`, ",")
	if m == hudi.CDCDataBefore {
		field(fieldKey, `"string"`, ",")
		field(fieldBefore, s.Avro(), "")
	} else {
		field(fieldTime, `"string"`, ",")
		field(fieldBefore, s.Avro(), ",")
		field(fieldAfter, `"`+full+`"`, "")
	}
	b.WriteString("]}")
	return b.String()
}

// ChangeWriter writes a change file: what one commit did to the rows of a base
// file that it replaced. After an error it must not be used further.
type ChangeWriter struct {
	w       io.Writer
	mode    hudi.CDCMode
	instant string
	schema  string
	limit   int
	rows    *rowEncoder
	data    []byte
	count   int64
	// begun says that a block was written.
	begun bool
	err   error
}

// NewChangeWriter makes a writer of changes to rows of schema s. It does not
// close w. Of the options Stamp, File and BlockBytes matter.
func NewChangeWriter(w io.Writer, s *hudi.Schema, m hudi.CDCMode, o WriterOptions) (*ChangeWriter, error) {
	if o.Stamp.Instant == "" || o.File == "" || m == hudi.CDCOff {
		return nil, fmt.Errorf("%w: a change file needs an instant, a file group and a mode", ErrRecord)
	}
	rows, err := newRowEncoder(s, o)
	if err != nil {
		return nil, err
	}
	limit := o.BlockBytes
	if limit <= 0 {
		limit = DefaultBlockBytes
	}
	return &ChangeWriter{w: w, mode: m, instant: string(o.Stamp.Instant), schema: changeSchema(s, m), limit: limit, rows: rows,
		data: make([]byte, contentHead)}, nil
}

// Append takes a change, with whatever images: those that the mode leaves out are
// not written. It is encoded at once.
func (w *ChangeWriter) Append(c Change) error {
	if w.err != nil {
		return w.err
	}
	start := len(w.data)
	data, err := w.encode(append(w.data, 0, 0, 0, 0), c)
	if err != nil {
		w.data = data[:start]
		return fmt.Errorf("change of key %q: %w", c.Key, err)
	}
	binary.BigEndian.PutUint32(data[start:], uint32(len(data)-start-countBytes))
	w.data = data
	w.count++
	if len(w.data) >= w.limit {
		w.err = w.flush()
	}
	return w.err
}

func (w *ChangeWriter) encode(dst []byte, c Change) ([]byte, error) {
	op := c.Op.String()
	if w.mode == hudi.CDCOpKeyOnly {
		// Here the unions have null last.
		return avro.AppendText(avro.AppendLong(avro.AppendText(avro.AppendLong(dst, 0), op), 0), c.Key), nil
	}
	dst = appendMetaText(dst, op)
	if w.mode == hudi.CDCDataBefore {
		return w.image(appendMetaText(dst, c.Key), c.Before)
	}
	dst, err := w.image(appendMetaText(dst, w.instant), c.Before)
	if err != nil {
		return dst, err
	}
	return w.image(dst, c.After)
}

// image appends a row without meta columns, or null for none.
func (w *ChangeWriter) image(dst []byte, r hudi.Row) ([]byte, error) {
	if r == nil {
		return append(dst, branchNull), nil
	}
	if len(r) != len(w.rows.columns) {
		return dst, fmt.Errorf("%w: %d cells, the schema has %d columns", ErrRecord, len(r), len(w.rows.columns))
	}
	dst = append(dst, branchValue)
	var err error
	for i := range r {
		if dst, err = appendCell(dst, &w.rows.columns[i], &r[i]); err != nil {
			return dst, err
		}
	}
	return dst, nil
}

// Close writes what is left. A file without a change has one empty block, by
// which a rollback knows whose it is. A second Close returns an error.
func (w *ChangeWriter) Close() error {
	if w.err != nil {
		return w.err
	}
	if w.count > 0 || !w.begun {
		if err := w.flush(); err != nil {
			w.err = err
			return err
		}
	}
	w.err = errClosed
	return nil
}

func (w *ChangeWriter) flush() error {
	if w.count > math.MaxInt32 {
		return fmt.Errorf("%w: %d changes in a block", ErrRecord, w.count)
	}
	binary.BigEndian.PutUint32(w.data, contentVersion)
	binary.BigEndian.PutUint32(w.data[4:], uint32(w.count))
	head, tail := frame(nil, CDCData, len(w.data), headerEntry{InstantTime, w.instant}, headerEntry{SchemaText, w.schema})
	for _, part := range [][]byte{head, w.data, tail[:]} {
		if _, err := w.w.Write(part); err != nil {
			return fmt.Errorf("write change block: %w", err)
		}
	}
	w.data, w.count, w.begun = w.data[:contentHead], 0, true
	return nil
}

// Changes are the rows of a block of a change file, their images resolved onto
// target as Records does it. A change is valid until the next step; after an
// error nothing follows. Blocks of other types give ErrUnsupported.
func (b *Block) Changes(target *hudi.Schema) iter.Seq2[*Change, error] {
	return func(yield func(*Change, error) bool) {
		err := fmt.Errorf("%w: %s block", ErrUnsupported, b.Type)
		if b.Type == CDCData {
			err = b.changes(target, yield)
		}
		if err != nil && !errors.Is(err, errStop) {
			yield(nil, fmt.Errorf("log block at %d: %w", b.Offset, err))
		}
	}
}

func (b *Block) changes(target *hudi.Schema, yield func(*Change, error) bool) error {
	d, err := newChangeDecoder(b.Schema, target)
	if err != nil {
		return err
	}
	return b.datums(func(datum []byte) error {
		if err := d.decode(datum); err != nil {
			return err
		}
		if !yield(&d.change, nil) {
			return errStop
		}
		return nil
	})
}

// changeDecoder decodes the rows of one block of a change file.
type changeDecoder struct {
	fields []*avro.Field
	// images are the plans of the two rows, by the name of the field.
	images map[string]*plan
	change Change
}

func newChangeDecoder(schema string, target *hudi.Schema) (*changeDecoder, error) {
	s, err := avro.Parse(schema)
	if err != nil {
		return nil, err
	}
	if s.Type().Kind != avro.Record {
		return nil, fmt.Errorf("%w: schema is no record", ErrCorrupt)
	}
	d := &changeDecoder{images: map[string]*plan{}}
	for i := range s.Type().Fields {
		f := &s.Type().Fields[i]
		d.fields = append(d.fields, f)
		inner, _, nullable := f.Type.Optional()
		switch image := f.Name == fieldBefore || f.Name == fieldAfter; {
		case !nullable:
			return nil, fmt.Errorf("%w: field %q of a change is no union with null", ErrCorrupt, f.Name)
		case image && inner.Kind != avro.Record:
			return nil, fmt.Errorf("%w: field %q of a change is no row", ErrUnsupported, f.Name)
		case image:
			if d.images[f.Name], err = planOf(inner, target, ""); err != nil {
				return nil, err
			}
		}
	}
	return d, nil
}

func (d *changeDecoder) decode(b []byte) error {
	d.change = Change{}
	for _, f := range d.fields {
		inner, null, _ := f.Type.Optional()
		branch, rest, err := avro.ReadBranch(f.Type, b)
		if err != nil {
			return fmt.Errorf("%w: field %q: %w", ErrCorrupt, f.Name, err)
		}
		if b = rest; branch == null {
			continue
		}
		if b, err = d.field(f.Name, inner, b); err != nil {
			return fmt.Errorf("%w: field %q: %w", ErrCorrupt, f.Name, err)
		}
	}
	if len(b) > 0 {
		return fmt.Errorf("%w: %d bytes behind the last field", ErrCorrupt, len(b))
	}
	switch d.change.Op {
	case hudi.OpInsert, hudi.OpUpdate, hudi.OpDelete:
		return nil
	}
	return fmt.Errorf("%w: operation %q", ErrCorrupt, d.change.Op)
}

func (d *changeDecoder) field(name string, t *avro.Type, b []byte) ([]byte, error) {
	if p := d.images[name]; p != nil {
		rest, err := p.decodeSome(b)
		if name == fieldBefore {
			d.change.Before = p.row
		} else {
			d.change.After = p.row
		}
		return rest, err
	}
	if t.Kind != avro.String {
		return avro.Skip(t, b)
	}
	text, rest, err := avro.ReadText(b)
	switch name {
	case fieldOp:
		if len(text) == 1 {
			d.change.Op = hudi.Op(text[0])
		}
	case fieldKey:
		d.change.Key = hudi.StringOf(text).Text()
	}
	return rest, err
}

// ChangeMode is what a block of a change file holds, CDCOff for other blocks.
func (b *Block) ChangeMode() (hudi.CDCMode, error) {
	if b.Type != CDCData {
		return hudi.CDCOff, nil
	}
	s, err := avro.Parse(b.Schema)
	switch {
	case err != nil:
		return hudi.CDCOff, fmt.Errorf("log block at %d: %w", b.Offset, err)
	case s.Type().Field(fieldAfter) != nil:
		return hudi.CDCDataBeforeAfter, nil
	case s.Type().Field(fieldBefore) != nil:
		return hudi.CDCDataBefore, nil
	}
	return hudi.CDCOpKeyOnly, nil
}
