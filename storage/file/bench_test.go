package file_test

import (
	"fmt"
	"testing"

	"github.com/couch2hudi/couch2hudi/storage"
	"github.com/couch2hudi/couch2hudi/storage/file"
)

func benchBucket(b *testing.B, o *file.Options) *storage.Bucket {
	d, err := file.New(b.TempDir(), o)
	if err != nil {
		b.Fatal(err)
	}
	return storage.New(d, nil)
}

// BenchmarkPutIfAbsent is what a commit point costs.
func BenchmarkPutIfAbsent(b *testing.B) {
	for name, o := range map[string]*file.Options{"synced": nil, "not synced": {NoSync: true}} {
		b.Run(name, func(b *testing.B) {
			bucket, data, i := benchBucket(b, o), make([]byte, 4<<10), 0
			for b.Loop() {
				i++
				if _, err := bucket.PutIfAbsent(b.Context(), fmt.Sprintf("timeline/%d", i), data); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkReadAt is a small read out of a large object: a page's header.
func BenchmarkReadAt(b *testing.B) {
	bucket := benchBucket(b, &file.Options{NoSync: true})
	if _, err := bucket.Put(b.Context(), "o", make([]byte, 8<<20)); err != nil {
		b.Fatal(err)
	}
	r, err := bucket.Open(b.Context(), "o")
	if err != nil {
		b.Fatal(err)
	}
	p, offset := make([]byte, 4<<10), int64(0)
	for b.Loop() {
		offset = (offset + 4099<<4) % (7 << 20)
		if _, err := r.ReadAt(p, offset); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkList walks 100 folders of 50 objects; one operation is one object.
func BenchmarkList(b *testing.B) {
	bucket := benchBucket(b, &file.Options{NoSync: true})
	const objects = 5000
	for i := range objects {
		if _, err := bucket.Put(b.Context(), fmt.Sprintf("pt=%d/o%d", i%100, i), nil); err != nil {
			b.Fatal(err)
		}
	}
	b.ResetTimer()
	for n := 0; n < b.N; {
		for _, err := range bucket.List(b.Context(), "") {
			if err != nil {
				b.Fatal(err)
			}
			n++
		}
	}
}
