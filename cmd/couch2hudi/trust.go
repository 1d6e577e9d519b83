package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/couch2hudi/couch2hudi/config"
	"github.com/couch2hudi/couch2hudi/storage"
)

// probeFolder is where a probe's object is for a moment: other engines leave it alone.
const probeFolder = ".hoodie/couch2hudi/"

// unsafeNext is the next step with a store that ignores conditions.
const unsafeNext = "choose a store that minds them (docs/stores.md), or, where nothing but this process ever writes to the table, add --trust-single-writer (table.trust_single_writer)"

// probe refuses a store that ignores the condition of a put, on which all safety
// between two writers rests, unless the URL says that there is one writer.
func probe(ctx context.Context, b *storage.Bucket, u config.TableURL) error {
	tuning, _, err := u.Split()
	if err != nil || tuning.Trusted {
		return err
	}
	err = b.Probe(ctx, probeFolder)
	if errors.Is(err, storage.ErrUnsafe) {
		return &usageError{err: fmt.Errorf("%s: %w; %s", u, err, unsafeNext)}
	}
	return err
}

// conditions tries the same for check.
func (c *checker) conditions(ctx context.Context, t *checkedTable) {
	if t.url.Local() {
		return
	}
	tuning, _, _ := t.url.Split() // it was opened by it
	err := t.bucket.Probe(ctx, probeFolder)
	switch {
	case err == nil:
		c.ok("table.store", "it may be written to, and it minds the conditions of puts")
	case errors.Is(err, storage.ErrUnsafe) && tuning.Trusted:
		c.warn("table.store", "see to it that nothing but one process ever writes to the table", "%s; it is used all the same, as trust_single_writer says", err)
	case errors.Is(err, storage.ErrUnsafe):
		c.fail("table.store", &usageError{err: err}, unsafeNext)
	default:
		c.fail("table.store", err, "give couch2hudi the permissions that docs/stores.md lists")
	}
}
