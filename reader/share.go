package reader

import (
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/couch2hudi/couch2hudi/hudi"
	"github.com/couch2hudi/couch2hudi/table"
)

// Share is how much of what a snapshot as of end would read, in bytes of stored
// files, Incremental of the range would read: the base files and logs of the
// latest slices that the range wrote, of all of them. It is more than nothing
// after a range of updates, and near 1 after one that compacted all. Of the
// options Partitions and Where count, as far as it names partitions. An empty
// table has the share 0. The errors are those of Incremental.
func Share(ctx context.Context, v *table.View, begin, end hudi.Time, o Options) (float64, error) {
	v, err := v.Reaching(ctx, begin)
	if err != nil {
		return 0, err
	}
	if last := v.Latest(); end == "" || end.After(last) {
		end = last
	}
	if !begin.Before(end) {
		return 0, nil
	}
	r := span{view: v.Until(end), begin: begin, end: end, o: o}
	if _, err := newProjection(ctx, r.view, &r.o); err != nil {
		if errors.Is(err, table.ErrNoSchema) && r.view.Last() == "" {
			return 0, nil // the range ends before the first commit
		}
		return 0, err
	}
	wrote, err := r.wanted(ctx)
	if err != nil {
		return 0, err
	}
	var part, whole int64
	for _, partition := range slices.Sorted(maps.Keys(wrote)) {
		found, err := r.cut(ctx, partition, wrote[partition])
		if err != nil {
			return 0, err
		}
		part += stored(found)
	}
	partitions, err := r.view.Partitions(ctx)
	if err != nil {
		return 0, err
	}
	for _, partition := range r.o.within(partitions) {
		list, err := r.view.Slices(ctx, partition)
		if err != nil {
			return 0, err
		}
		whole += stored(list)
	}
	if whole == 0 {
		return 0, nil
	}
	return float64(part) / float64(whole), nil
}

// stored is how many bytes the files of slices have.
func stored(list []hudi.Slice) (n int64) {
	for _, s := range list {
		n += s.Base.Size
		for _, log := range s.Logs {
			n += log.Size
		}
	}
	return n
}
