package reader

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"github.com/couch2hudi/couch2hudi/hudi"
)

// errRow marks bytes that are no encoded row: the temporary file was spoilt.
var errRow = errors.New("kept row is damaged")

// appendRow appends what a merged record needs beside its key and its order: the
// meta columns and the cells. The bytes live in memory or in a temporary file
// of this process, nowhere else, so they may change from build to build.
func appendRow(dst []byte, r *hudi.Record) []byte {
	dst = appendText(dst, string(r.CommitTime))
	dst = appendText(dst, r.CommitSeqno)
	dst = binary.AppendUvarint(dst, uint64(len(r.Row)))
	for i := range r.Row {
		dst = appendCell(dst, r.Row[i])
	}
	return dst
}

func appendText(dst []byte, s string) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(s)))
	return append(dst, s...)
}

func appendCell(dst []byte, v hudi.Value) []byte {
	dst = append(dst, byte(v.Kind()))
	switch v.Kind() {
	case hudi.KindBoolean:
		if v.Boolean() {
			return append(dst, 1)
		}
		return append(dst, 0)
	case hudi.KindInt, hudi.KindLong:
		return binary.AppendVarint(dst, v.Long())
	case hudi.KindFloat:
		return binary.LittleEndian.AppendUint32(dst, math.Float32bits(v.Float()))
	case hudi.KindDouble:
		return binary.LittleEndian.AppendUint64(dst, math.Float64bits(v.Double()))
	case hudi.KindString, hudi.KindBytes, hudi.KindNested:
		return appendText(dst, v.Text())
	default:
		return dst
	}
}

// readRow fills the meta columns and the row of r, reusing its memory. Strings
// share b.
func readRow(b []byte, r *hudi.Record) error {
	d := decoder{rest: b}
	r.CommitTime = hudi.Time(d.text())
	r.CommitSeqno = d.text()
	n := d.count()
	if r.Row == nil || uint64(cap(r.Row)) < n {
		r.Row = make(hudi.Row, 0, n)
	}
	r.Row = r.Row[:0]
	for ; n > 0 && !d.bad; n-- {
		r.Row = append(r.Row, d.cell())
	}
	if d.bad || len(d.rest) > 0 {
		return fmt.Errorf("%w: %d bytes", errRow, len(b))
	}
	return nil
}

// decoder reads an encoded row; after the first fault bad is set and all that
// follows is empty.
type decoder struct {
	rest []byte
	bad  bool
}

func (d *decoder) fail() {
	d.rest, d.bad = nil, true
}

func (d *decoder) uvarint() uint64 {
	n, w := binary.Uvarint(d.rest)
	if w <= 0 {
		d.fail()
		return 0
	}
	d.rest = d.rest[w:]
	return n
}

// count is a number of cells: each takes at least a byte, so that no damaged
// count makes us allocate more than the row's size.
func (d *decoder) count() uint64 {
	n := d.uvarint()
	if n > uint64(len(d.rest)) {
		d.fail()
		return 0
	}
	return n
}

func (d *decoder) take(n uint64) []byte {
	if n > uint64(len(d.rest)) {
		d.fail()
		return nil
	}
	b := d.rest[:n:n]
	d.rest = d.rest[n:]
	return b
}

func (d *decoder) text() string { return hudi.StringOf(d.take(d.uvarint())).Text() }

func (d *decoder) cell() hudi.Value {
	kind := d.take(1)
	if d.bad {
		return hudi.Value{}
	}
	switch hudi.Kind(kind[0]) {
	case hudi.KindNull:
		return hudi.Value{}
	case hudi.KindString:
		return hudi.StringOf(d.take(d.uvarint()))
	case hudi.KindBytes:
		return hudi.Bytes(d.take(d.uvarint()))
	case hudi.KindNested:
		return hudi.Nested(d.take(d.uvarint()))
	default:
		return d.number(hudi.Kind(kind[0]))
	}
}

func (d *decoder) number(k hudi.Kind) hudi.Value {
	const floatBytes, doubleBytes = 4, 8
	switch k {
	case hudi.KindBoolean:
		b := d.take(1)
		return hudi.Boolean(!d.bad && b[0] != 0)
	case hudi.KindInt:
		return hudi.Int(int32(d.varint()))
	case hudi.KindLong:
		return hudi.Long(d.varint())
	case hudi.KindFloat:
		if b := d.take(floatBytes); !d.bad {
			return hudi.Float(math.Float32frombits(binary.LittleEndian.Uint32(b)))
		}
	case hudi.KindDouble:
		if b := d.take(doubleBytes); !d.bad {
			return hudi.Double(math.Float64frombits(binary.LittleEndian.Uint64(b)))
		}
	default:
		d.fail()
	}
	return hudi.Value{}
}

func (d *decoder) varint() int64 {
	n, w := binary.Varint(d.rest)
	if w <= 0 {
		d.fail()
		return 0
	}
	d.rest = d.rest[w:]
	return n
}
