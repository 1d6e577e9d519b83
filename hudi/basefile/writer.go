package basefile

import (
	"errors"
	"fmt"
	"io"
	"math"
	"strings"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/encoding"

	"github.com/couch2hudi/couch2hudi/hudi"
	"github.com/couch2hudi/couch2hudi/internal/avro"
	"github.com/couch2hudi/couch2hudi/internal/bloom"
)

// Codec is the compression of pages. The zero Codec is Snappy, which all
// readers have.
type Codec uint8

// The codecs.
const (
	Snappy Codec = iota
	Zstd
	Gzip
	Uncompressed
)

// DefaultRowGroupBytes is the size at which a row group is closed, before
// compression.
const DefaultRowGroupBytes = 32 << 20

// WriterOptions say what is not in the records.
type WriterOptions struct {
	// Stamp is given to records that have no commit time.
	Stamp hudi.Stamp
	// FileName goes into the rows' file name column.
	FileName string
	Codec    Codec
	// RowGroupBytes is the size at which a row group is closed, before
	// compression, and so about what the writer holds in memory; 0 means
	// DefaultRowGroupBytes.
	RowGroupBytes int64
	// Bare writes plain Parquet of the rows alone: no meta columns, no key range
	// and no filter. Of a record only the row counts, and Stamp and FileName not.
	// Such a file has no bound of size, and the bounds of texts, which may be as long
	// as texts are, would be in memory until it is closed: it has none.
	Bare bool
}

// Writer writes one base file. Record keys should come in UTF-16 order; the
// file is right in any order. After an error it must not be used further.
type Writer struct {
	o      WriterOptions
	schema *hudi.Schema
	avro   string
	out    *tail
	// file is made with the first batch: what is in it decides encodings.
	file   *parquet.GenericWriter[any]
	leaves []*parquet.ColumnWriter
	// metas is how many meta columns stand in front.
	metas int
	batch columns
	arena []byte
	// lent is how many bytes of the batch are the record's own.
	lent    int
	rows    int
	layout  []leafColumn
	group   int64
	stamped int64
	keys    bloom.Builder
	footer  Footer
	err     error
}

// leafColumn says how a data column is written.
type leafColumn struct {
	name  string
	kind  hudi.Kind
	first int
	// def is 1 for a nullable column.
	def int
	// size is that of a fixed-length leaf; a decimal shorter than it is extended.
	size    int
	decimal bool
	// nested takes the values of a composite column apart.
	nested *shredder
	// nullable are the leaves to put a null into: first to last.
	last int
}

const (
	metaCount = 5
	// A batch of rows is handed to the columns at once.
	batchRows  = 256
	batchBytes = 128 << 10
)

// NewWriter makes a writer of rows of schema s. It does not close w.
func NewWriter(w io.Writer, s *hudi.Schema, o WriterOptions) (*Writer, error) {
	if !o.Bare && (o.FileName == "" || o.Stamp.Instant == "") {
		return nil, fmt.Errorf("%w: a base file needs its name and an instant", ErrRecord)
	}
	if o.RowGroupBytes <= 0 {
		o.RowGroupBytes = DefaultRowGroupBytes
	}
	if _, err := o.Codec.compression(); err != nil {
		return nil, err
	}
	text := s.AvroWithMeta()
	if o.Bare {
		text = s.Avro()
	}
	parsed, err := avro.Parse(text)
	if err != nil {
		return nil, fmt.Errorf("parse the schema of the rows: %w", err)
	}
	// Fails early on a column that has no Parquet type.
	if _, err := nodeOf(parsed.Type(), &parquet.Plain, 0); err != nil {
		return nil, err
	}
	bw := &Writer{o: o, schema: s, avro: text, out: &tail{w: w, unbounded: unbounded}}
	bw.metas = metaCount
	if o.Bare {
		bw.metas = 0
		bw.out.unbounded = func(column string) bool { return unbounded(column) || texts(s, column) }
	}
	next := bw.metas
	for i := range s.Columns() {
		bw.layout = append(bw.layout, newLeafColumn(&s.Columns()[i], parsed.Type().Fields[bw.metas+i].Type, &next))
	}
	bw.batch = make(columns, next)
	return bw, nil
}

func newLeafColumn(c *hudi.Column, t *avro.Type, next *int) leafColumn {
	l := leafColumn{name: c.Name, kind: c.Kind, first: *next, def: 1}
	if c.Required {
		l.def = 0
	}
	inner, _, _ := t.Optional()
	if c.Kind == hudi.KindNested {
		l.nested = newShredder(inner, 0, l.def, next)
	} else {
		*next++
		l.decimal = inner.Logical == logicalDecimal
		if inner.Kind == avro.Fixed {
			l.size = inner.Size
		} else if l.decimal {
			l.size = decimalBytes(inner.Precision)
		}
	}
	l.last = *next
	return l
}

// Append takes a record and copies it: it may be reused afterwards. Deletes
// have no place in a base file. A record that does not fit gives an error that
// wraps ErrRecord and leaves the writer as it was.
func (w *Writer) Append(r *hudi.Record) error {
	if w.err != nil {
		return w.err
	}
	if err := w.check(r); err != nil {
		return fmt.Errorf("key %q: %w", r.Key.Record, err)
	}
	start := len(w.arena)
	if !w.o.Bare {
		w.meta(r)
	}
	for i := range r.Row {
		if err := w.cell(&w.layout[i], &r.Row[i]); err != nil {
			w.undo()
			return fmt.Errorf("key %q: %w: column %q: %w", r.Key.Record, ErrRecord, w.layout[i].name, err)
		}
	}
	w.rows++
	w.group += int64(len(w.arena)-start+w.lent) + int64(len(w.batch))*4
	if w.o.Bare {
		w.footer.Rows++
	} else {
		w.count(r.Key.Record)
	}
	if w.rows >= batchRows || len(w.arena)+w.lent >= batchBytes {
		w.err = w.flush()
	}
	return w.err
}

// check refuses what must not be in the file before anything is changed.
func (w *Writer) check(r *hudi.Record) error {
	switch {
	case r.Delete:
		return fmt.Errorf("%w: a delete", ErrRecord)
	case r.Key.Record == "" && !w.o.Bare:
		return fmt.Errorf("%w: empty record key", ErrRecord)
	case len(r.Row) != len(w.layout):
		return fmt.Errorf("%w: %d cells, the schema has %d columns", ErrRecord, len(r.Row), len(w.layout))
	}
	for i := range r.Row {
		l, v := &w.layout[i], &r.Row[i]
		if v.IsNull() {
			if l.def == 0 {
				return fmt.Errorf("%w: null in column %q, which takes none", ErrRecord, l.name)
			}
		} else if !l.takes(v) {
			return fmt.Errorf("%w: column %q takes %s, not %s of %d bytes", ErrRecord, l.name, l.kind, v.Kind(), len(v.Text()))
		}
	}
	return nil
}

func (l *leafColumn) takes(v *hudi.Value) bool {
	k := v.Kind()
	switch {
	case k == l.kind:
		return k != hudi.KindBytes || l.size == 0 || l.decimal || len(v.Text()) == l.size
	case l.kind == hudi.KindLong:
		return k == hudi.KindInt
	case l.kind == hudi.KindDouble:
		return k == hudi.KindFloat
	}
	return false
}

func (w *Writer) count(key string) {
	w.keys.Add(key)
	if w.footer.Rows == 0 || hudi.CompareUTF16(key, w.footer.MinKey) < 0 {
		w.footer.MinKey = strings.Clone(key)
	}
	if w.footer.Rows == 0 || hudi.CompareUTF16(key, w.footer.MaxKey) > 0 {
		w.footer.MaxKey = strings.Clone(key)
	}
	w.footer.Rows++
}

// data is the bytes of a string or of bytes. Those that fill a batch alone are
// not copied: the batch is handed on before the record can be reused.
func (w *Writer) data(v *hudi.Value) []byte {
	if b := v.Raw(); len(b) >= batchBytes {
		w.lent += len(b)
		return b
	}
	return w.text(v.Text())
}

// text copies s into the batch's memory.
func (w *Writer) text(s string) []byte {
	start := len(w.arena)
	w.arena = append(w.arena, s...)
	return w.arena[start:len(w.arena):len(w.arena)]
}

func (w *Writer) put(leaf, def int, v parquet.Value) {
	w.batch[leaf] = append(w.batch[leaf], v.Level(0, def, leaf))
}

func (w *Writer) meta(r *hudi.Record) {
	var seqno []byte
	time := string(r.CommitTime)
	if time == "" {
		time = string(w.o.Stamp.Instant)
		start := len(w.arena)
		w.arena = w.o.Stamp.AppendSeqno(w.arena, w.stamped)
		seqno = w.arena[start:len(w.arena):len(w.arena)]
		w.stamped++
	} else {
		seqno = w.text(r.CommitSeqno)
	}
	w.put(0, 1, parquet.ByteArrayValue(w.text(time)))
	w.put(1, 1, parquet.ByteArrayValue(seqno))
	w.put(2, 1, parquet.ByteArrayValue(w.text(r.Key.Record)))
	w.put(3, 1, parquet.ByteArrayValue(w.text(r.Key.Partition)))
	w.put(4, 1, parquet.ByteArrayValue(w.text(w.o.FileName)))
}

func (w *Writer) cell(l *leafColumn, v *hudi.Value) error {
	if v.IsNull() {
		for i := l.first; i < l.last; i++ {
			w.put(i, 0, parquet.Value{})
		}
		return nil
	}
	var p parquet.Value
	switch l.kind {
	case hudi.KindString:
		p = parquet.ByteArrayValue(w.data(v))
	case hudi.KindLong:
		p = parquet.Int64Value(v.Long())
	case hudi.KindInt:
		p = parquet.Int32Value(v.Int())
	case hudi.KindBoolean:
		p = parquet.BooleanValue(v.Boolean())
	case hudi.KindDouble:
		if v.Kind() == hudi.KindFloat {
			p = parquet.DoubleValue(float64(v.Float()))
		} else {
			p = parquet.DoubleValue(v.Double())
		}
	case hudi.KindFloat:
		p = parquet.FloatValue(v.Float())
	case hudi.KindBytes:
		if l.size == 0 {
			p = parquet.ByteArrayValue(w.data(v))
			break
		}
		b, err := fitDecimal(w.text(v.Text()), l.size)
		if err != nil {
			return err
		}
		p = parquet.FixedLenByteArrayValue(b)
	case hudi.KindNested:
		rest, err := l.nested.put(w.batch, w.text(v.Text()), 0)
		if err == nil && len(rest) > 0 {
			err = fmt.Errorf("%d bytes behind the value", len(rest))
		}
		return err
	default:
		return fmt.Errorf("kind %s", l.kind)
	}
	w.put(l.first, l.def, p)
	return nil
}

// undo takes the unfinished last row out of the batch: what is behind w.rows
// values that begin a row.
func (w *Writer) undo() {
	w.lent = 0
	for i, values := range w.batch {
		rows, n := 0, 0
		for ; n < len(values); n++ {
			if values[n].RepetitionLevel() == 0 {
				if rows == w.rows {
					break
				}
				rows++
			}
		}
		w.batch[i] = values[:n]
	}
}

// Size is about how many bytes the file would have if it were closed now,
// without its filter and footer.
func (w *Writer) Size() int64 {
	n := int64(len(w.arena))
	if w.file != nil {
		n += w.file.Size()
	}
	return n
}

// flush hands the batch to the columns, and closes the row group when it is large.
func (w *Writer) flush() error {
	if w.file == nil {
		if err := w.open(); err != nil {
			return err
		}
	}
	for i, c := range w.leaves {
		if len(w.batch[i]) > 0 {
			if _, err := c.WriteRowValues(w.batch[i]); err != nil {
				return fmt.Errorf("write base file: %w", err)
			}
		}
		if w.lent > 0 {
			clear(w.batch[i]) // holds the record no longer
		}
		w.batch[i] = w.batch[i][:0]
	}
	w.rows, w.arena, w.lent = 0, w.arena[:0], 0
	if w.group < w.o.RowGroupBytes {
		return nil
	}
	w.group = 0
	if err := w.file.Flush(); err != nil {
		return fmt.Errorf("write base file: %w", err)
	}
	return nil
}

// open makes the Parquet writer once the first batch is there.
func (w *Writer) open() error {
	codec, err := w.o.Codec.compression()
	if err != nil {
		return err
	}
	parsed, err := avro.Parse(w.avro)
	if err != nil {
		return err
	}
	var names []string
	var nodes []parquet.Node
	options := []parquet.WriterOption{parquet.Compression(codec), parquet.DataPageVersion(1),
		parquet.DictionaryMaxBytes(maxDictionary), parquet.DataPageStatistics(false), parquet.MaxRowsPerRowGroup(math.MaxInt64), parquet.PageBufferSize(pageBytes)}
	leaf := 0
	for _, f := range parsed.Type().Fields {
		n, err := nodeOf(f.Type, w.encoding(leaf), 0)
		if err != nil {
			return fmt.Errorf("column %q: %w", f.Name, err)
		}
		if w.out.unbounded(f.Name) {
			for path := range leafPaths(n, []string{f.Name}) {
				options = append(options, parquet.SkipPageBounds(path...))
			}
		}
		names, nodes = append(names, f.Name), append(nodes, n)
		newShredder(f.Type, 0, 0, &leaf)
	}
	root := w.schema.Name
	if w.schema.Namespace != "" {
		root = w.schema.Namespace + "." + root
	}
	w.file = parquet.NewGenericWriter[any](w.out, append(options, parquet.NewSchema(root, newGroup(names, nodes)))...)
	w.leaves = w.file.ColumnWriters()
	return nil
}

const (
	maxDictionary = 1 << 20
	pageBytes     = 256 << 10
)

// encoding chooses how the strings of a leaf column are stored, by the first
// batch: a dictionary where values come again and again.
func (w *Writer) encoding(leaf int) encoding.Encoding {
	const most = 4 // a dictionary pays when a value comes this often on average
	seen := map[string]struct{}{}
	n, large := 0, 0
	for i := range w.batch[leaf] {
		v := &w.batch[leaf][i]
		if v.IsNull() || v.Kind() != parquet.ByteArray {
			continue
		}
		n++
		if b := v.ByteArray(); len(b) >= batchBytes {
			large++ // not looked at: it would be copied
		} else {
			seen[string(b)] = struct{}{}
		}
	}
	if leaf < w.metas && leaf != 1 && leaf != 2 || n > most && (len(seen)+large)*most <= n {
		return &parquet.RLEDictionary
	}
	return &parquet.Plain
}

var errClosed = errors.New("base file writer is closed")

// Close writes what is left and the footer. A file without rows is a file all
// the same. A second Close returns an error.
func (w *Writer) Close() (Footer, error) {
	if w.err != nil {
		return w.footer, w.err
	}
	if w.err = w.close(); w.err != nil {
		return w.footer, w.err
	}
	w.err = errClosed
	return w.footer, nil
}

func (w *Writer) close() error {
	if err := w.flush(); err != nil {
		return err
	}
	if !w.o.Bare {
		filter := w.keys.Filter(bloom.Rate)
		w.file.SetKeyValueMetadata(keyBloom, filter.Encode())
		w.file.SetKeyValueMetadata(keyBloomCode, filter.Code())
	}
	if w.footer.Rows > 0 && !w.o.Bare {
		w.file.SetKeyValueMetadata(keyMin, w.footer.MinKey)
		w.file.SetKeyValueMetadata(keyMax, w.footer.MaxKey)
	}
	w.file.SetKeyValueMetadata(keySchema, w.avro)
	// The last row group goes out before anything is held back.
	if err := w.file.Flush(); err != nil {
		return fmt.Errorf("write base file: %w", err)
	}
	w.out.hold = true
	if err := w.file.Close(); err != nil {
		return fmt.Errorf("write base file: %w", err)
	}
	if err := w.out.finish(w.file.File().Metadata()); err != nil {
		return err
	}
	w.footer.Schema, w.footer.HasBloom, w.footer.Bytes = w.avro, !w.o.Bare, w.out.written
	return nil
}
