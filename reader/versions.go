package reader

import (
	"context"
	"iter"

	"github.com/couch2hudi/couch2hudi/hudi"
	"github.com/couch2hudi/couch2hudi/table"
)

// Version is what a slice says of one key, a hard delete too.
type Version struct {
	*hudi.Record
	// InBase says that the key stands in the slice's base file, in whatever
	// version.
	InBase bool
}

// Versions is Slice for those who keep account of keys: it yields a version of
// every key that the slice names, also of those that the logs delete and the
// base file does not have: those have no Row unless the logs have one. Of the logs only blocks of instants are read that
// only says, all when it is nil. With o.Keys it passes over other keys.
func Versions(ctx context.Context, v *table.View, s hudi.Slice, target *hudi.Schema, only func(hudi.Time) bool, o Options) iter.Seq2[Version, error] {
	return func(yield func(Version, error) bool) {
		o.HardDeletes = true
		m, err := newMerger(ctx, v, s, target, o)
		if err != nil {
			yield(Version{}, err)
			return
		}
		m.only, m.all = only, true
		m.run(ctx, func(r *hudi.Record, err error) bool { return yield(Version{r, m.inBase}, err) })
	}
}
