package storagetest

import (
	"context"
	"errors"
	"iter"
	"strings"

	"github.com/couch2hudi/couch2hudi/storage"
)

// Before is a driver that stands before another, for tests to embed: what that one can
// do besides storage.Driver it can do too, and what it cannot do, Before does as a
// Bucket would.
type Before struct{ storage.Driver }

var (
	_ storage.UnknownLister = Before{}
	_ storage.Pruner        = Before{}
	_ storage.Prober        = Before{}
	_ storage.Opener        = Before{}
	_ storage.HolderTeller  = Before{}
)

// Another is a driver of a store that can be opened once more.
type Another interface {
	// Another is the same store as a further process has it.
	Another() storage.Driver
}

// ListUnknown implements storage.UnknownLister.
func (b Before) ListUnknown(ctx context.Context, folder string, known func(name string) bool) iter.Seq2[storage.Object, error] {
	if d, ok := b.Driver.(storage.UnknownLister); ok {
		return d.ListUnknown(ctx, folder, known)
	}
	return unknown(b.List(ctx, folder, true), folder, known)
}

// unknown leaves out of a list of a folder what is known.
func unknown(list iter.Seq2[storage.Object, error], folder string, known func(name string) bool) iter.Seq2[storage.Object, error] {
	return func(yield func(storage.Object, error) bool) {
		for o, err := range list {
			if err == nil && known(strings.TrimSuffix(strings.TrimPrefix(o.Name, folder), "/")) {
				continue
			}
			if !yield(o, err) {
				return
			}
		}
	}
}

// Prune implements storage.Pruner.
func (b Before) Prune(ctx context.Context, folder string) error {
	if d, ok := b.Driver.(storage.Pruner); ok {
		return d.Prune(ctx, folder)
	}
	return nil
}

// Probe implements storage.Prober.
func (b Before) Probe(ctx context.Context, folder string) error {
	if d, ok := b.Driver.(storage.Prober); ok {
		return d.Probe(ctx, folder)
	}
	return nil
}

// BlockBytes implements storage.BlockReader: 0 for drivers that are none, or that have
// to be asked before they are read.
func (b Before) BlockBytes() int64 {
	if d, ok := b.Driver.(storage.Opener); ok {
		return d.BlockBytes()
	}
	return 0
}

// ReadFirst implements storage.Opener.
func (b Before) ReadFirst(ctx context.Context, name string, offset, most int64) ([]byte, storage.Object, error) {
	if d, ok := b.Driver.(storage.Opener); ok {
		return d.ReadFirst(ctx, name, offset, most)
	}
	return nil, storage.Object{}, errors.ErrUnsupported
}

// Holder implements storage.HolderTeller.
func (b Before) Holder(ctx context.Context, name string) (*storage.LockedError, error) {
	if d, ok := b.Driver.(storage.HolderTeller); ok {
		return d.Holder(ctx, name)
	}
	return nil, nil
}

// another is d as a further process has it. What cannot be opened once more is shared.
func another(d storage.Driver) storage.Driver {
	if d, ok := d.(Another); ok {
		return d.Another()
	}
	return d
}
