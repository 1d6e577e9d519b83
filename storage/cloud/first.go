package cloud

import (
	"context"
	"errors"
	"io"

	"github.com/couch2hudi/couch2hudi/storage"
)

// BlockBytes implements storage.BlockReader.
func (d *Driver) BlockBytes() int64 { return readBlock }

// ReadFirst implements storage.Opener: the answer to a read tells its object's size,
// version and time. Where it does not, and where there is nothing to read, the object is
// asked for.
func (d *Driver) ReadFirst(ctx context.Context, name string, offset, most int64) ([]byte, storage.Object, error) {
	key, err := d.key(name)
	if err != nil {
		return nil, storage.Object{}, err
	}
	var (
		data []byte
		of   info
	)
	err = d.safely(ctx, int(most), func(ctx context.Context) error {
		got, err := d.store.get(ctx, key, "", offset, most)
		if err != nil {
			return err
		}
		of, data = got.of, make([]byte, min(most, max(got.length, 0)))
		n, err := got.read(data)
		data = data[:n:n]
		return err
	})
	switch {
	case err == nil && of.version != "" && of.size >= 0:
		return data, d.object(of), nil
	case err == nil || d.fault(err) == beyond:
		return d.readKnown(ctx, name, offset, most)
	}
	return nil, storage.Object{}, d.named(err)
}

// readKnown is ReadFirst by two requests. An object that is replaced between them is
// asked for anew.
func (d *Driver) readKnown(ctx context.Context, name string, offset, most int64) ([]byte, storage.Object, error) {
	const attempts = 8
	for attempt := 1; ; attempt++ {
		o, err := d.Stat(ctx, name)
		if err != nil || offset >= o.Size {
			return nil, o, err
		}
		data := make([]byte, min(most, o.Size-offset))
		n, err := d.ReadAt(ctx, o, data, offset)
		switch {
		case n == len(data) && (err == nil || errors.Is(err, io.EOF)):
			return data, o, nil
		case err == nil || errors.Is(err, io.EOF):
			err = io.ErrUnexpectedEOF
		}
		if !errors.Is(err, storage.ErrChanged) || attempt == attempts {
			return nil, storage.Object{}, err
		}
	}
}
