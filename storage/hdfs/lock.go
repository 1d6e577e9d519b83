package hdfs

import (
	"context"

	"github.com/couch2hudi/couch2hudi/storage"
)

var _ storage.HolderTeller = (*Driver)(nil)

// Lock implements storage.Driver. It is a lease of ours, not HDFS's on an open
// file: that lets a dead writer's go after a minute that nobody can set, and a
// paused one does not learn that it is lost.
func (d *Driver) Lock(ctx context.Context, name string) (storage.Lock, error) {
	if _, err := d.path(name); err != nil {
		return nil, err
	}
	return d.leases.Lock(ctx, name)
}

// Holder implements storage.HolderTeller.
func (d *Driver) Holder(ctx context.Context, name string) (*storage.LockedError, error) {
	return d.leases.Holder(ctx, name)
}
