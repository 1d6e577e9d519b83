package storagetest

import (
	"context"
	"testing"

	"github.com/couch2hudi/couch2hudi/storage"
)

// testReadFirst holds for drivers that say what they read.
func testReadFirst(t *testing.T, d storage.Driver) {
	o, ok := d.(storage.Opener)
	if !ok || o.BlockBytes() == 0 {
		return
	}
	b, ctx := storage.New(d, nil), t.Context()
	for _, content := range []string{"", "0123456789", "abcde"} {
		must[storage.Object](t)(b.Put(ctx, "f/o", []byte(content)))
		want := must[storage.Object](t)(b.Stat(ctx, "f/o"))
		for offset := range int64(12) {
			for _, most := range []int64{1, 3, 10, 11, 4096} {
				data, got, err := o.ReadFirst(ctx, "f/o", offset, most)
				size := int64(len(content))
				if part := content[min(offset, size):min(offset+most, size)]; err != nil || string(data) != part {
					t.Errorf("%d bytes at %d of %q: %q, %v", most, offset, content, data, err)
				}
				if got.Name != want.Name || got.Size != want.Size || got.ETag != want.ETag || got.Modified.IsZero() {
					t.Errorf("%d bytes at %d: %+v, Stat says %+v", most, offset, got, want)
				}
			}
		}
	}
	for _, name := range []string{"nothing", "f", "f/o/below"} {
		_, _, err := o.ReadFirst(ctx, name, 0, 10)
		wantErr(t, "ReadFirst of "+name, err, storage.ErrNotExist)
	}
	old := must[*storage.Reader](t)(b.Open(ctx, "f/o")).Object()
	must[storage.Object](t)(b.Put(ctx, "f/o", []byte("newer")))
	_, err := d.ReadAt(ctx, old, make([]byte, 2), 1)
	wantErr(t, "ReadAt of a version that ReadFirst described", err, storage.ErrChanged)
	cancelled, cancel := context.WithCancel(ctx)
	cancel()
	_, _, err = o.ReadFirst(cancelled, "f/o", 0, 10)
	wantErr(t, "ReadFirst", err, context.Canceled)
}

// testOpenKnown opens with true and false sizes: what is read is the object.
func testOpenKnown(t *testing.T, d storage.Driver) {
	b, ctx := storage.New(d, nil), t.Context()
	const content = "0123456789"
	must[storage.Object](t)(b.Put(ctx, "o", []byte(content)))
	for _, size := range []int64{0, 1, 9, 10, 11, 1 << 30} {
		for _, end := range []bool{false, true} {
			r, err := b.OpenKnown(ctx, "o", storage.OpenOptions{Size: size, End: end})
			if err != nil {
				t.Errorf("open as of %d bytes: %v", size, err)
				continue
			}
			p := make([]byte, len(content))
			if n, err := r.ReadAt(p, 0); r.Size() != int64(len(content)) || string(p[:n]) != content {
				t.Errorf("open as of %d bytes: %d of %d: %q, %v", size, n, r.Size(), p[:n], err)
			}
			closeAll(t, r)
		}
	}
	_, err := b.OpenKnown(ctx, "nothing", storage.OpenOptions{Size: 10, End: true})
	wantErr(t, "OpenKnown", err, storage.ErrNotExist)
}
