package cloud

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/couch2hudi/couch2hudi/storage"
)

var _ storage.Prober = (*Driver)(nil)

// Probe implements storage.Prober with one object of a name that nobody else has:
// put if absent, put so again, put over a version that it never was, and completed as
// an upload in parts if absent.
func (d *Driver) Probe(ctx context.Context, folder string) (err error) {
	name := folder + "probe-" + uuid.NewString()
	key := d.prefix + name
	first, err := d.Put(ctx, name, []byte("the first put of a probe"), storage.Cond{Absent: true})
	if err != nil {
		return err
	}
	defer func() {
		const patience = 30 * time.Second
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
		defer cancel()
		if gone := d.Delete(ctx, name); gone != nil && !errors.Is(gone, storage.ErrNotExist) {
			err = errors.Join(err, fmt.Errorf("remove the probe's object: %w", gone))
		}
	}()
	_, err = d.Put(ctx, name, []byte("the second put of a probe"), storage.Cond{Absent: true})
	if err := minded(err, storage.ErrExist, "a put if nothing is there went over an object"); err != nil {
		return err
	}
	// A version that was, and is not any more: some stores look at the header's form.
	if _, err = d.Put(ctx, name, []byte("the third put of a probe"), storage.Cond{ETag: first.ETag}); err != nil {
		return fmt.Errorf("put over the version that is there: %w", err)
	}
	_, err = d.Put(ctx, name, []byte("the fourth put of a probe"), storage.Cond{ETag: first.ETag})
	if err := minded(err, storage.ErrChanged, "a put over one version went over another"); err != nil {
		return err
	}
	return minded(d.probeParts(ctx, key), storage.ErrExist, "an upload in parts, to be completed if nothing is there, went over an object")
}

func (d *Driver) probeParts(ctx context.Context, key string) error {
	up := &upload{d: d, ctx: ctx, key: key, cond: storage.Cond{Absent: true}, token: uuid.NewString(), buffer: []byte("the last put of a probe")}
	if err := up.send(); err != nil {
		return errors.Join(err, up.Abort()) //nolint:contextcheck // the upload has it
	}
	_, err := up.Commit() //nolint:contextcheck // the upload has it
	return err
}

// minded says what a store did with a condition that did not hold.
func minded(err, want error, otherwise string) error {
	switch {
	case errors.Is(err, want):
		return nil
	case err == nil:
		return fmt.Errorf("%w: %s", storage.ErrUnsafe, otherwise)
	}
	return err
}
