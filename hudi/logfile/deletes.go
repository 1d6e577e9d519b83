package logfile

import (
	"fmt"
	"math"

	"github.com/couch2hudi/couch2hudi/hudi"
	"github.com/couch2hudi/couch2hudi/internal/avro"
)

// orderings are the classes of an ordering value in a delete block, by branch,
// with how each encodes its value.
var orderings = [...]struct {
	name string
	kind avro.Kind
}{
	{"null", avro.Null},
	{"BooleanWrapper", avro.Boolean},
	{"IntWrapper", avro.Int},
	{"LongWrapper", avro.Long},
	{"FloatWrapper", avro.Float},
	{"DoubleWrapper", avro.Double},
	{"BytesWrapper", avro.Bytes},
	{"StringWrapper", avro.String},
	{"DateWrapper", avro.Int},
	{"DecimalWrapper", avro.Bytes},
	{"TimeMicrosWrapper", avro.Long},
	{"TimestampMicrosWrapper", avro.Long},
}

const deleteVersionKryo = 2

// deletedKeys reads a delete block: a list of keys with ordering values.
func (b *Block) deletedKeys(yield func(*hudi.Record, error) bool) error {
	if b.ContentLength == 0 {
		return nil
	}
	w, version, length, err := b.head()
	if err != nil {
		return err
	}
	if version >= 1 && version <= deleteVersionKryo {
		return fmt.Errorf("%w: delete block of version %d, written by Hudi before 0.13 (Java serialisation); compact the table with Hudi first", ErrUnsupported, version)
	}
	if version != contentVersion {
		return fmt.Errorf("%w: delete block content of version %d", ErrUnsupported, version)
	}
	if int64(length) != w.left() {
		return fmt.Errorf("%w: %d bytes of deletes in content with room for %d", ErrCorrupt, length, w.left())
	}
	d := deleteReader{w: w}
	for {
		count, err := d.blockHead()
		if err != nil {
			return err
		}
		if count == 0 {
			break
		}
		for range count {
			if err := d.read(); err != nil {
				return err
			}
			if !yield(&d.record, nil) {
				return errStop
			}
		}
	}
	if w.left() != 0 {
		return fmt.Errorf("%w: %d bytes behind the last delete", ErrCorrupt, w.left())
	}
	return nil
}

type deleteReader struct {
	w      *window
	record hudi.Record
	// key and partition outlive the window's moves.
	key, partition []byte
}

func (d *deleteReader) long() (int64, error) {
	const longest = 10
	if err := d.w.fill(int(min(longest, d.w.left()))); err != nil {
		return 0, err
	}
	v, n := avro.ReadLong(d.w.buf[d.w.start:d.w.stop])
	if n == 0 {
		return 0, fmt.Errorf("%w: integer in a list of deletes", ErrCorrupt)
	}
	d.w.start += n
	return v, nil
}

func (d *deleteReader) blockHead() (int64, error) {
	count, err := d.long()
	if err == nil && count < 0 {
		count = -count
		_, err = d.long()
	}
	// A delete has three union branches at least.
	if err == nil && (count < 0 || count > d.w.left()/3) {
		err = fmt.Errorf("%w: %d deletes in %d bytes", ErrCorrupt, count, d.w.left())
	}
	return count, err
}

func (d *deleteReader) read() (err error) {
	d.record = hudi.Record{Delete: true}
	if d.key, err = d.text(d.key); err != nil {
		return err
	}
	if d.partition, err = d.text(d.partition); err != nil {
		return err
	}
	d.record.Key = hudi.Key{Record: hudi.StringOf(d.key).Text(), Partition: hudi.StringOf(d.partition).Text()}
	if d.record.Key.Record == "" {
		return fmt.Errorf("%w: delete without a key", ErrCorrupt)
	}
	return d.order()
}

// text reads a nullable string into dst.
func (d *deleteReader) text(dst []byte) ([]byte, error) {
	dst = dst[:0]
	branch, err := d.long()
	if err != nil || branch == branchNull {
		return dst, err
	}
	if branch != 1 {
		return dst, fmt.Errorf("%w: branch %d of a nullable string", ErrCorrupt, branch)
	}
	n, err := d.long()
	if err != nil {
		return dst, err
	}
	if n < 0 || n > d.w.left() || n > math.MaxInt32 {
		return dst, fmt.Errorf("%w: string of %d bytes", ErrCorrupt, n)
	}
	p, err := d.w.next(int(n))
	return append(dst, p...), err
}

// order reads the ordering value. Int 0 is Hudi's word for "none", as null was
// once: such a delete wins over all before it.
func (d *deleteReader) order() error {
	branch, err := d.long()
	if err != nil {
		return err
	}
	if branch < 0 || branch >= int64(len(orderings)) {
		return fmt.Errorf("%w: ordering value of class %d", ErrUnsupported, branch)
	}
	if branch == orderNull {
		d.record.Natural = true
		return nil
	}
	if k := orderings[branch].kind; k != avro.Int && k != avro.Long {
		return fmt.Errorf("%w: a %s", ErrOrder, orderings[branch].name)
	}
	d.record.Order, err = d.long()
	d.record.Natural = branch == orderInt && d.record.Order == 0
	return err
}
