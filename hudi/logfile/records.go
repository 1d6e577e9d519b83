package logfile

import (
	"errors"
	"fmt"
	"iter"

	"github.com/couch2hudi/couch2hudi/hudi"
)

// Records are the block's rows and deletes in file order. Rows are resolved by
// name from the schema in the block's header onto target: columns that target
// lacks are skipped, columns that the block lacks are null, integers and
// floats are widened. Order is the value of orderColumn, an int or a long, and
// 0 when the row has none. A row with _hoodie_is_deleted or with _hoodie_operation
// D or -U is a delete.
//
// A record is valid until the next step. The content is read in pieces: what
// is held is one piece, or the longest record. After an error nothing follows.
// Command blocks have no records. HFile and Parquet blocks, and the delete
// blocks of Hudi before 0.13, give ErrUnsupported, a corrupt stretch gives
// ErrCorrupt.
func (b *Block) Records(target *hudi.Schema, orderColumn string) iter.Seq2[*hudi.Record, error] {
	return func(yield func(*hudi.Record, error) bool) {
		var err error
		switch b.Type {
		case Command:
		case AvroData, CDCData:
			err = b.rows(target, orderColumn, yield)
		case Delete:
			err = b.deletedKeys(yield)
		case Corrupt:
			err = fmt.Errorf("%w: %d bytes are no block", ErrCorrupt, b.Length)
		default:
			err = fmt.Errorf("%w: %s block", ErrUnsupported, b.Type)
		}
		if err != nil && !errors.Is(err, errStop) {
			yield(nil, fmt.Errorf("log block at %d: %w", b.Offset, err))
		}
	}
}

// head reads the two integers that begin a block's content.
func (b *Block) head() (w *window, version, n int32, err error) {
	w = newWindow(b.r, b.ContentOffset, b.ContentLength)
	if version, err = w.int32(); err != nil {
		return nil, 0, 0, err
	}
	n, err = w.int32()
	return w, version, n, err
}

func (b *Block) rows(target *hudi.Schema, orderColumn string, yield func(*hudi.Record, error) bool) error {
	p, err := newPlan(b.Schema, target, orderColumn)
	if err != nil {
		return err
	}
	return b.datums(func(datum []byte) error {
		if err := p.decode(datum); err != nil {
			return err
		}
		if p.record.Key.Record == "" && b.Type == AvroData {
			return fmt.Errorf("%w: no record key", ErrCorrupt)
		}
		if !yield(&p.record, nil) {
			return errStop
		}
		return nil
	})
}

// datums calls each with every row of a data block, as it stands there.
func (b *Block) datums(each func(datum []byte) error) error {
	w, version, count, err := b.head()
	if err != nil {
		return err
	}
	// Version 0 had no count; 1 and 2 are as 3.
	if version < 1 || version > contentVersion {
		return fmt.Errorf("%w: data block content of version %d", ErrUnsupported, version)
	}
	if count < 0 || int64(count) > w.left()/countBytes {
		return fmt.Errorf("%w: %d rows in %d bytes", ErrCorrupt, count, w.left())
	}
	for i := range count {
		n, err := w.int32()
		if err != nil {
			return fmt.Errorf("row %d: %w", i, err)
		}
		datum, err := w.next(int(n))
		if err != nil {
			return fmt.Errorf("row %d: %w", i, err)
		}
		if err := each(datum); err != nil {
			return fmt.Errorf("row %d: %w", i, err)
		}
	}
	if w.left() != 0 {
		return fmt.Errorf("%w: %d bytes behind the last row", ErrCorrupt, w.left())
	}
	return nil
}

// Datums are the rows of an Avro data block that are no rows of a table, as
// they stand there: encoded by the block's Schema, each valid until the next
// step. After an error nothing follows; blocks of other types give
// ErrUnsupported.
func (b *Block) Datums() iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		err := fmt.Errorf("%w: %s block", ErrUnsupported, b.Type)
		if b.Type == AvroData {
			err = b.datums(func(datum []byte) error {
				if !yield(datum, nil) {
					return errStop
				}
				return nil
			})
		}
		if err != nil && !errors.Is(err, errStop) {
			yield(nil, fmt.Errorf("log block at %d: %w", b.Offset, err))
		}
	}
}
