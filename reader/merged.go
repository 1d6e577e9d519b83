package reader

import (
	"context"
	"fmt"
	"iter"
	"slices"

	"github.com/couch2hudi/couch2hudi/hudi"
	"github.com/couch2hudi/couch2hudi/hudi/basefile"
	"github.com/couch2hudi/couch2hudi/table"
)

// Merged yields what a slice would hold if newer were one more log file of it,
// on top: the rows of its next base file. They come in the order of keys as
// UTF-16 units, as far as the base file has that order; what the logs and newer
// add is put where it belongs. The rows of newer have the columns of target and
// are told by their empty CommitTime; all others keep theirs. Deletes are never
// yielded. A record of newer is used no longer than its step.
func Merged(ctx context.Context, v *table.View, s hudi.Slice, target *hudi.Schema, newer iter.Seq[*hudi.Record], o Options) iter.Seq2[*hudi.Record, error] {
	return func(yield func(*hudi.Record, error) bool) {
		o.HardDeletes, o.Keys = false, nil
		m, err := newMerger(ctx, v, s, target, o)
		if err != nil {
			yield(nil, err)
			return
		}
		m.newer = newer
		m.run(ctx, yield)
	}
}

// top puts the newer records on top of the logs.
func (m *merger) top(ctx context.Context, logs *newest) error {
	if m.newer == nil {
		return nil
	}
	for r := range m.newer {
		if err := m.alive(ctx); err != nil {
			return err
		}
		if err := logs.add(r); err != nil {
			return fmt.Errorf("merge record %q: %w", r.Key.Record, err)
		}
	}
	return nil
}

// match finds which of the logs' keys the base file has, by its key column
// alone, and puts the others in the order of keys: they have to be yielded
// before the base rows that they come before. It does nothing for a merge
// whose order does not matter.
func (m *merger) match(ctx context.Context, f *basefile.File, logs *newest) error {
	if m.newer == nil || len(logs.entries) == 0 {
		return nil
	}
	if f != nil {
		for key, err := range f.Keys() {
			if err == nil {
				err = m.alive(ctx)
			}
			if err != nil {
				return err
			}
			if e := logs.find(key); e != nil {
				e.used = true
			}
		}
	}
	for i := range logs.entries {
		if e := &logs.entries[i]; !e.used && !e.deleted {
			m.loose = append(m.loose, int32(i))
		}
	}
	slices.SortFunc(m.loose, func(a, b int32) int {
		return hudi.CompareUTF16(logs.entries[a].key, logs.entries[b].key)
	})
	return nil
}

// before yields the rows of the logs that come before a key of the base file.
// It says whether to go on.
func (m *merger) before(key string, logs *newest, yield func(*hudi.Record, error) bool) (bool, error) {
	for len(m.loose) > 0 {
		e := &logs.entries[m.loose[0]]
		if hudi.CompareUTF16(e.key, key) > 0 {
			break
		}
		m.loose = m.loose[1:]
		e.used = true
		if err := m.take(logs, e); err != nil {
			return true, err
		}
		if !m.emit(yield) {
			return false, nil
		}
	}
	return true, nil
}
