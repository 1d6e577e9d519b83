package compaction_test

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/couch2hudi/couch2hudi/compaction"
	"github.com/couch2hudi/couch2hudi/hudi"
	"github.com/couch2hudi/couch2hudi/reader"
	"github.com/couch2hudi/couch2hudi/table"
)

// moment is what one write of a table did, by the model.
type moment struct {
	at hudi.Time
	// wrote are the rows by key, deleted the keys; rows is the table afterwards.
	wrote   map[string]string
	deleted []string
	rows    map[string]string
}

// borders is a world that remembers each commit.
type borders struct {
	*world
	moments []moment
	// seen is the table afterwards, as another process sees it.
	seen *table.View
}

// live makes commits and plans and runs of compactions, in any order.
func (b *borders) live(steps int) {
	b.t.Helper()
	var planned []hudi.Time
	for range steps {
		switch pick := b.rand.IntN(10); {
		case pick == 0 && len(b.moments) > 1 && len(planned) == 0 && b.loggy():
			at, err := b.table.Schedule(b.t.Context(), b.planAll())
			b.must(err)
			planned = append(planned, at)
		case pick <= 2 && len(planned) > 0:
			_, err := compaction.Run(b.t.Context(), b.table, planned[0], compaction.RunOptions{})
			b.must(err)
			b.moments = append(b.moments, moment{at: planned[0]})
			planned = planned[1:]
		default:
			rs := b.batch(1 + b.rand.IntN(12))
			b.must(b.write(b.t.Context(), b.table, rs))
			b.note(rs)
			m := moment{at: b.view().Last(), wrote: map[string]string{}, rows: maps.Clone(b.rows)}
			for i := range rs {
				if r := &rs[i].Record; r.Delete {
					m.deleted = append(m.deleted, r.Key.Record)
				} else {
					m.wrote[r.Key.Record] = value(b.schema, r)
				}
			}
			b.moments = append(b.moments, m)
		}
	}
	slices.SortFunc(b.moments, func(a, c moment) int { return a.at.Compare(c.at) })
	b.seen = b.fresh()
	for i := range b.moments {
		if m := &b.moments[i]; m.wrote == nil {
			m.rows = b.moments[i-1].rows // it changed none
		}
	}
}

// loggy says whether there is something to compact.
func (b *borders) loggy() bool {
	b.t.Helper()
	partitions, err := b.view().Partitions(b.t.Context())
	b.must(err)
	for _, p := range partitions {
		list, err := b.view().Slices(b.t.Context(), p)
		b.must(err)
		if slices.ContainsFunc(list, func(s hudi.Slice) bool { return len(s.Logs) > 0 }) {
			return true
		}
	}
	return false
}

// between is what the commits after begin, up to and with end, leave of what they
// wrote.
func (b *borders) between(begin, end hudi.Time) map[string]string {
	rows := map[string]string{}
	for _, m := range b.moments {
		if !m.at.After(begin) || m.at.After(end) {
			continue
		}
		for _, k := range m.deleted {
			delete(rows, k)
		}
		for k, v := range m.wrote {
			rows[k] = v + " " + string(m.at)
		}
	}
	return rows
}

// changes are those of a range, with the commit that each is of.
func (b *borders) changes(begin, end hudi.Time) map[string]string {
	b.t.Helper()
	rows := map[string]string{}
	for r, err := range reader.Incremental(b.t.Context(), b.seen, begin, end, reader.Options{}) {
		b.must(err)
		key := strings.Clone(r.Key.Record)
		if _, twice := rows[key]; twice {
			b.t.Fatalf("%q twice in one range", key)
		}
		rows[key] = value(b.schema, r) + " " + string(r.CommitTime)
	}
	return rows
}

func (b *borders) same(what string, got, want map[string]string) {
	b.t.Helper()
	if !maps.Equal(got, want) {
		b.t.Fatalf("%s:\n got %v\nwant %v", what, got, want)
	}
}

// just is the instant a millisecond before or after another.
func (b *borders) just(at hudi.Time, by time.Duration) hudi.Time {
	b.t.Helper()
	clock, err := at.Clock()
	b.must(err)
	return hudi.FormatTime(clock.Add(by))
}

// TestBorders walks tables commit by commit, with updates, hard deletes, rewritten
// base files, and compactions that complete after later commits: each commit's
// rows come with the range that ends with it, and with no other; put on top of each
// other, less what the commits deleted, they are the snapshot at each instant; and
// so it is with any two borders.
func TestBorders(t *testing.T) {
	compacted := 0
	for seed := range uint64(8) {
		b := &borders{world: newWorld(t, seed)}
		if seed%2 == 1 {
			b.rewrite = 0 // the default
		}
		b.live(24)
		replay, begin := map[string]string{}, hudi.Time("00000000000000000")
		union := 0
		for _, m := range b.moments {
			if m.wrote == nil {
				compacted++
			}
			got := b.changes(begin, m.at)
			b.same("the range of one commit", got, b.between(begin, m.at))
			b.same("inclusive, from the commit itself", b.changes(b.just(m.at, -time.Millisecond), m.at), got)
			b.same("up to just before", b.changes(begin, b.just(m.at, -time.Millisecond)), map[string]string{})
			b.same("from just before to just after", b.changes(b.just(m.at, -time.Millisecond), b.just(m.at, time.Millisecond)), got)
			union += len(got)
			for _, k := range m.deleted {
				delete(replay, k)
			}
			for k, v := range got {
				replay[k] = strings.TrimSuffix(v, " "+string(m.at))
			}
			b.same("replayed to the snapshot of the model", replay, m.rows)
			seen := map[string]string{}
			for r, err := range reader.Snapshot(t.Context(), b.seen.AsOf(m.at), reader.Options{}) {
				b.must(err)
				seen[strings.Clone(r.Key.Record)] = value(b.schema, r)
			}
			b.same("replayed to the snapshot as of", replay, seen)
			begin = m.at
		}
		wrote := 0
		for _, m := range b.moments {
			wrote += len(m.wrote)
		}
		if union != wrote || wrote < 60 {
			t.Fatalf("seed %d: %d rows in all ranges, %d were written", seed, union, wrote)
		}
		for range 30 {
			i, j := b.rand.IntN(len(b.moments)), b.rand.IntN(len(b.moments))
			from, to := b.moments[min(i, j)].at, b.moments[max(i, j)].at
			b.same("any two borders", b.changes(from, to), b.between(from, to))
			share, err := reader.Share(t.Context(), b.seen, from, to, reader.Options{})
			if b.must(err); share < 0 || share > 1 || (from == to) != (share == 0) && len(b.between(from, to)) > 0 {
				t.Fatalf("share %v from %s to %s", share, from, to)
			}
		}
		b.same("no begin and no end", b.changes("", ""), b.between("", b.moments[len(b.moments)-1].at))
	}
	if compacted < 5 {
		t.Fatalf("%d compactions", compacted)
	}
}
