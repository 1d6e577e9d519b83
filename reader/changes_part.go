package reader

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/couch2hudi/couch2hudi/hudi"
	"github.com/couch2hudi/couch2hudi/hudi/basefile"
	"github.com/couch2hudi/couch2hudi/hudi/logfile"
)

// part yields what a commit did to one file group.
func (h *history) part(ctx context.Context, c commit, p *part) iter.Seq2[*Change, error] {
	switch {
	case p.stat == nil:
		return h.every(ctx, c, p.before, hudi.OpDelete)
	case p.stat.Log != nil:
		return h.logged(ctx, c, p)
	case p.stat.PrevCommit == "":
		return h.every(ctx, c, p.written(), hudi.OpInsert)
	case h.whole(p):
		return h.stored(ctx, c, p)
	}
	return h.rewritten(ctx, c, p)
}

// written is the file that was written, as a slice of its own.
func (p *part) written() hudi.Slice {
	s := hudi.Slice{Location: p.Location, Instant: p.stat.PrevCommit}
	if f := (hudi.File{Name: path.Base(p.stat.Path), Size: p.stat.Bytes}); p.stat.Log == nil {
		s.Base = f
	} else {
		s.Logs = []hudi.File{f}
	}
	return s
}

// every is one change for each row of a slice.
func (h *history) every(ctx context.Context, c commit, s hudi.Slice, op hudi.Op) iter.Seq2[*Change, error] {
	return func(yield func(*Change, error) bool) {
		v := h.view
		if op == hudi.OpDelete {
			v = c.before
		}
		var out Change
		for r, err := range Slice(ctx, v, s, h.read, h.o) {
			if out = (Change{Op: op}); err == nil {
				if out.Key = r.Key; op == hudi.OpDelete {
					out.Before = r
				} else {
					out.After = r
				}
			}
			if !yield(&out, err) || err != nil {
				return
			}
		}
	}
}

// halves are the options of one of two that read at a time.
func (h *history) halves() Options {
	const two = 2
	o := h.o
	o.Memory = o.memory() / two
	return o
}

// few says whether the keys of a file of so many bytes fit beside the memory.
func (h *history) few(bytes int64) bool {
	const share = 8
	return bytes <= h.o.memory()/share
}

// logged are the changes that a log file makes.
func (h *history) logged(ctx context.Context, c commit, p *part) iter.Seq2[*Change, error] {
	o := h.halves()
	records := func() iter.Seq2[*hudi.Record, error] {
		own := o
		own.HardDeletes = true
		return compacted(ctx, h.view, p.written(), h.read, func(t hudi.Time) bool { return t == c.at }, own, &Tally{})
	}
	return func(yield func(*Change, error) bool) {
		if h.few(p.stat.Bytes) {
			var keys []string
			for r, err := range records() {
				if err != nil {
					yield(nil, err)
					return
				}
				keys = append(keys, strings.Clone(r.Key.Record))
			}
			o.Keys = basefile.NewKeySet(keys)
		}
		for change, err := range Images(ctx, c.before, p.before, h.read, records(), o) {
			if err == nil && change.Op == 0 {
				continue
			}
			if !yield(change, err) || err != nil {
				return
			}
		}
	}
}

// rewritten compares a base file with the slice that it replaces: row by row, or
// those alone whose keys a change file names.
func (h *history) rewritten(ctx context.Context, c commit, p *part) iter.Seq2[*Change, error] {
	return func(yield func(*Change, error) bool) {
		o := h.halves()
		var err error
		if o.Keys, err = h.keys(ctx, p); err != nil {
			yield(nil, err)
			return
		}
		before := newStream(Compacted(ctx, c.before, p.before, h.read, o, &Tally{}))
		defer before.stop()
		after := newStream(Compacted(ctx, h.view, p.written(), h.read, o, &Tally{}))
		defer after.stop()
		if err := compare(c.at, before, after, yield); err != nil {
			yield(nil, err)
		}
	}
}

// compare yields the changes from one stream of rows to another, of which those
// with the commit time at are new.
func compare(at hudi.Time, before, after *stream, yield func(*Change, error) bool) error {
	if err := errors.Join(before.pop(), after.pop()); err != nil {
		return err
	}
	var out Change
	for before.head != nil || after.head != nil {
		b, a := before.head, after.head
		if order := compareHeads(b, a); order < 0 {
			a = nil
		} else if order > 0 {
			b = nil
		}
		if out = difference(at, b, a); out.Op != 0 && !yield(&out, nil) {
			return nil
		}
		if b != nil {
			if err := before.pop(); err != nil {
				return err
			}
		}
		if a != nil {
			if err := after.pop(); err != nil {
				return err
			}
		}
	}
	return nil
}

func compareHeads(b, a *hudi.Record) int {
	switch {
	case a == nil:
		return -1
	case b == nil:
		return 1
	}
	return hudi.CompareUTF16(b.Key.Record, a.Key.Record)
}

func difference(at hudi.Time, b, a *hudi.Record) Change {
	switch {
	case a == nil:
		return Change{Op: hudi.OpDelete, Key: b.Key, Before: b}
	case a.CommitTime != at:
		return Change{} // the same row
	case b == nil:
		return Change{Op: hudi.OpInsert, Key: a.Key, After: a}
	}
	return Change{Op: hudi.OpUpdate, Key: a.Key, Before: b, After: a}
}

// keys are those that the change files of a part name; nil when there are none, or
// too many to hold.
func (h *history) keys(ctx context.Context, p *part) (*basefile.KeySet, error) {
	bytes := int64(0)
	for _, size := range p.stat.CDC {
		bytes += size
	}
	if bytes == 0 || !h.few(bytes) {
		return nil, nil //nolint:nilnil // no set stands for all keys
	}
	none, err := hudi.MakeSchema(h.read.Name, h.read.Namespace)
	if err != nil {
		return nil, err
	}
	var keys []string
	named := true
	err = h.blocks(ctx, p, func(b *logfile.Block) (bool, error) {
		mode, err := b.ChangeMode()
		if named = mode != hudi.CDCDataBeforeAfter; err != nil || !named {
			return false, err
		}
		for c, err := range b.Changes(none) {
			if err != nil {
				return false, err
			}
			keys = append(keys, strings.Clone(c.Key))
		}
		return true, nil
	})
	if err != nil || !named {
		return nil, err
	}
	return basefile.NewKeySet(keys), nil
}

// blocks hands the blocks of a part's change files on.
func (h *history) blocks(ctx context.Context, p *part, each func(*logfile.Block) (bool, error)) error {
	for _, name := range slices.Sorted(maps.Keys(p.stat.CDC)) {
		r, err := h.view.Open(ctx, p.Partition, hudi.File{Name: path.Base(name), Size: p.stat.CDC[name]})
		if err != nil {
			return fmt.Errorf("open change file: %w", err)
		}
		more, err := scanChanges(logfile.NewScanner(r, r.Size()), each)
		if err = errors.Join(err, r.Close()); err != nil {
			return fmt.Errorf("read change file %q: %w", name, err)
		}
		if !more {
			return nil
		}
	}
	return nil
}

func scanChanges(s *logfile.Scanner, each func(*logfile.Block) (bool, error)) (bool, error) {
	for {
		b, err := s.Next()
		if errors.Is(err, io.EOF) {
			return true, nil
		}
		if err == nil && b.Type != logfile.CDCData {
			err = fmt.Errorf("%w: a block of %s at offset %d", ErrCorrupt, b.Type, b.Offset)
		}
		if err != nil {
			return false, err
		}
		if more, err := each(b); err != nil || !more {
			return more, err
		}
	}
}

// stored are the changes as change files with both images have them.
func (h *history) stored(ctx context.Context, c commit, p *part) iter.Seq2[*Change, error] {
	return func(yield func(*Change, error) bool) {
		var out Change
		var before, after hudi.Record
		err := h.blocks(ctx, p, func(b *logfile.Block) (bool, error) {
			for stored, err := range b.Changes(h.read) {
				if err != nil {
					return false, err
				}
				out = Change{Op: stored.Op}
				if stored.Before != nil {
					before = h.image(stored.Before, "")
					out.Key, out.Before = before.Key, &before
				}
				if stored.After != nil {
					after = h.image(stored.After, c.at)
					out.Key, out.After = after.Key, &after
				}
				if out.Before == nil && out.After == nil {
					return false, fmt.Errorf("%w: a change without an image", ErrCorrupt)
				}
				if err := ctx.Err(); err != nil {
					return false, err
				}
				if !yield(&out, nil) {
					return false, nil
				}
			}
			return true, nil
		})
		if err != nil {
			yield(nil, err)
		}
	}
}

// image is the record of a row of a change file.
func (h *history) image(r hudi.Row, at hudi.Time) hudi.Record {
	return hudi.Record{Key: hudi.Key{Record: r[h.key].Text()}, CommitTime: at, Row: r}
}
