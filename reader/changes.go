package reader

import (
	"context"
	"fmt"
	"iter"
	"maps"
	"path"
	"slices"

	"github.com/couch2hudi/couch2hudi/commitmeta"
	"github.com/couch2hudi/couch2hudi/hudi"
	"github.com/couch2hudi/couch2hudi/hudi/timeline"
	"github.com/couch2hudi/couch2hudi/table"
)

// Changes yields what the commits after begin, up to and with end, did to rows, in
// the order of commits, and within one deletes first. An empty end is the last
// commit. Compactions and clusterings change nothing. Change files are read where
// there are some; elsewhere what was before is merged anew from the slice that the
// commit found, of which cleans must have left the files: else it is a RangeError,
// before anything is yielded. The columns are those of Target; of the other options
// Memory, TempDir and Partitions matter. A change is valid until the next step.
func Changes(ctx context.Context, v *table.View, begin, end hudi.Time, o Options) iter.Seq2[*Change, error] {
	return func(yield func(*Change, error) bool) {
		v, err := v.Reaching(ctx, begin)
		if err != nil {
			yield(nil, err)
			return
		}
		if last := v.Latest(); end == "" || end.After(last) {
			end = last
		}
		if !begin.Before(end) {
			return
		}
		h, err := newHistory(ctx, v.Until(end), begin, end, o)
		if err == nil {
			err = h.check(ctx)
		}
		if err == nil {
			err = h.each(ctx, func(c commit) (bool, error) { return h.commit(ctx, c, yield) })
		}
		if err != nil {
			yield(nil, err)
		}
	}
}

// history reads the changes of a range of commits.
type history struct {
	span
	// read is what is read, the first width cells of which go on; key is the place
	// in it of the record key's column, -1 for a table with a key of several.
	read  *hudi.Schema
	width int
	key   int
	// files are the names that are there, by partition.
	files map[string]map[string]bool
}

// commit is one of the range.
type commit struct {
	at hudi.Time
	// when is where it stands among the others.
	when hudi.Time
	body commitmeta.Body
	// before is the table as the commit found it.
	before *table.View
}

// part is what a commit did to one file group.
type part struct {
	hudi.Location
	// stat is of the file that was written, nil for a group that was replaced.
	stat *commitmeta.WriteStat
	// before is the group's slice as the commit found it, if there was one.
	before hudi.Slice
	// deletes says that there may be deletes among the changes.
	deletes bool
}

func newHistory(ctx context.Context, v *table.View, begin, end hudi.Time, o Options) (*history, error) {
	o.HardDeletes, o.Keys, o.Where, o.push = false, nil, nil, nil
	h := &history{span: span{view: v, begin: begin, end: end, o: o}, key: -1, files: map[string]map[string]bool{}}
	whole, err := v.Schema(ctx)
	if err != nil {
		return nil, err
	}
	target, err := project(whole, o.Columns)
	if err != nil {
		return nil, err
	}
	h.width = target.Len()
	if h.read, err = widen(target, whole, v.Table().KeyColumn()); err != nil {
		return nil, err
	}
	if i, ok := h.read.Lookup(v.Table().KeyColumn()); ok && len(v.Table().Properties().List(hudi.PropKeyFields)) == 1 {
		h.key = i
	}
	return h, nil
}

// each visits the commits of the range that change rows, until visit says no.
func (h *history) each(ctx context.Context, visit func(commit) (bool, error)) error {
	const start = hudi.Time("00000000000000000")
	before := h.begin
	if before == "" {
		before = start
	}
	writes := h.view.Writes()
	slices.SortStableFunc(writes, func(a, b timeline.Instant) int { return h.view.When(a).Compare(h.view.When(b)) })
	for _, i := range writes {
		if !h.holds(i) {
			continue
		}
		body, err := h.view.Body(ctx, i)
		if err != nil {
			return fmt.Errorf("read commit %s: %w", i.Time, err)
		}
		if changesRows(&body) {
			if more, err := visit(commit{at: i.Time, when: h.view.When(i), body: body, before: h.view.Until(before)}); err != nil || !more {
				return err
			}
		}
		before = h.view.When(i)
	}
	return nil
}

// changesRows is false of commits that write rows elsewhere, as they are.
func changesRows(b *commitmeta.Body) bool {
	switch b.Operation {
	case "COMPACT", "CLUSTER", "LOG_COMPACT", "INDEX", "ALTER_SCHEMA":
		return false
	}
	return !b.Compacted
}

// parts are what a commit did, by partition and group.
func (h *history) parts(ctx context.Context, c commit) ([]part, error) {
	var list []part
	partitions := slices.Concat(slices.Collect(maps.Keys(c.body.Stats)), slices.Collect(maps.Keys(c.body.Replaced)))
	slices.Sort(partitions)
	for _, partition := range slices.Compact(partitions) {
		if h.o.Partitions != nil && !slices.Contains(h.o.Partitions, partition) {
			continue
		}
		found, err := c.before.Slices(ctx, partition)
		if err != nil {
			return nil, err
		}
		before := make(map[hudi.FileID]hudi.Slice, len(found))
		for _, s := range found {
			before[s.File] = s
		}
		for _, id := range c.body.Replaced[partition] {
			list = append(list, part{Location: hudi.Location{Partition: partition, File: id}, before: before[id], deletes: true})
		}
		stats := c.body.Stats[partition]
		for k := range stats {
			s := &stats[k]
			list = append(list, part{Location: hudi.Location{Partition: partition, File: s.File}, stat: s, before: before[s.File], deletes: s.Deletes > 0})
		}
	}
	return list, nil
}

// check is a RangeError when files are gone that reading the range needs. Its
// Oldest is the last commit of which some are.
func (h *history) check(ctx context.Context) error {
	var gone *RangeError
	err := h.each(ctx, func(c commit) (bool, error) {
		list, err := h.parts(ctx, c)
		if err != nil {
			return false, err
		}
		for i := range list {
			file, err := h.missing(ctx, c, &list[i])
			if err != nil {
				return false, err
			}
			if file == "" {
				continue
			}
			if gone == nil {
				gone = &RangeError{Begin: h.begin, Commit: c.at, File: file}
			}
			gone.Oldest = c.when
		}
		return true, nil
	})
	if err == nil && gone != nil {
		return gone
	}
	return err
}

// missing is a file that a part needs and that is gone, "" for none.
func (h *history) missing(ctx context.Context, c commit, p *part) (string, error) {
	there, err := h.names(ctx, p.Partition)
	if err != nil || p.stat == nil {
		return "", err
	}
	names := []string{path.Base(p.stat.Path)}
	for name := range p.stat.CDC {
		names = append(names, path.Base(name))
	}
	prev := p.stat.PrevCommit
	switch known := p.before.File != ""; {
	case prev == "" || prev == c.at || h.whole(p):
	case !h.view.Committed(prev):
		// A compaction that was planned then and has not run: what was before has
		// its files still.
	case !known || p.before.Instant.Before(prev):
		return fmt.Sprintf("%s_…_%s.parquet", p.File, prev), nil
	case p.stat.Log != nil && p.before.Instant == prev:
		if names = append(names, p.stat.Log.LogFiles...); p.stat.Log.BaseFile != "" {
			names = append(names, p.stat.Log.BaseFile)
		}
	}
	for _, name := range names {
		if !there[name] {
			return name, nil
		}
	}
	return "", nil
}

// whole says whether change files hold all that there is to say of a part.
func (h *history) whole(p *part) bool {
	return len(p.stat.CDC) > 0 && h.key >= 0 && h.view.Table().CDC() == hudi.CDCDataBeforeAfter
}

func (h *history) names(ctx context.Context, partition string) (map[string]bool, error) {
	if h.files[partition] != nil {
		return h.files[partition], nil
	}
	groups, err := h.view.Groups(ctx, partition)
	if err != nil {
		return nil, err
	}
	names := map[string]bool{}
	for i := range groups {
		for _, s := range groups[i].Slices {
			for _, f := range s.Files {
				names[f.Name] = true
			}
		}
	}
	h.files[partition] = names
	return names, nil
}

// commit yields the changes of one commit. Who keeps rows by their key alone must
// see the delete of a row that moved before its insert elsewhere: so the parts with
// deletes are read twice.
func (h *history) commit(ctx context.Context, c commit, yield func(*Change, error) bool) (bool, error) {
	list, err := h.parts(ctx, c)
	if err != nil {
		return false, err
	}
	for _, deletes := range []bool{true, false} {
		for i := range list {
			p := &list[i]
			if deletes && !p.deletes || !deletes && p.stat == nil {
				continue
			}
			for change, err := range h.part(ctx, c, p) {
				if err != nil {
					return false, fmt.Errorf("changes of commit %s in file group %q: %w", c.at, p.File, err)
				}
				if p.deletes && (change.Op == hudi.OpDelete) != deletes {
					continue
				}
				if !yield(h.finish(c, p, change), nil) {
					return false, nil
				}
			}
		}
	}
	return true, nil
}

// finish cuts a change to what was asked for.
func (h *history) finish(c commit, p *part, change *Change) *Change {
	change.Instant, change.Key.Partition = c.at, p.Partition
	for _, r := range []*hudi.Record{change.Before, change.After} {
		if r != nil {
			r.Key.Partition, r.Row = p.Partition, r.Row[:h.width:h.width]
		}
	}
	return change
}
