package storage_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/couch2hudi/couch2hudi/storage"
	"github.com/couch2hudi/couch2hudi/storage/mem"
)

// Whoever puts the object first has won; the rest are told.
func ExampleBucket_PutIfAbsent() {
	ctx, b := context.Background(), storage.New(mem.New(nil), nil)
	for _, writer := range []string{"first", "second"} {
		_, err := b.PutIfAbsent(ctx, "timeline/1", []byte(writer))
		fmt.Println(writer, err, errors.Is(err, storage.ErrExist))
	}
	data, err := b.ReadAll(ctx, "timeline/1", 1<<20)
	fmt.Println(string(data), err)
	// Output:
	// first <nil> false
	// second put "timeline/1": object exists already true
	// first <nil>
}

// A large object is written piece by piece and seen whole.
func ExampleBucket_Create() {
	ctx, b := context.Background(), storage.New(mem.New(nil), nil)
	up, err := b.Create(ctx, "pt=1/file", storage.Cond{})
	if err != nil {
		fmt.Println(err)
		return
	}
	for i := range 3 {
		if _, err := fmt.Fprintf(up, "row %d\n", i); err != nil {
			fmt.Println(errors.Join(err, up.Abort()))
			return
		}
	}
	before, err := b.Exists(ctx, "pt=1/file")
	fmt.Println("before:", before, err)
	o, err := up.Commit()
	fmt.Println("after:", o.Size, err)
	// Output:
	// before: false <nil>
	// after: 18 <nil>
}
