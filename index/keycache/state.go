package keycache

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/cockroachdb/pebble/v2"

	"github.com/couch2hudi/couch2hudi/commitmeta"
	"github.com/couch2hudi/couch2hudi/hudi"
	"github.com/couch2hudi/couch2hudi/hudi/timeline"
	"github.com/couch2hudi/couch2hudi/table"
)

// formatVersion is that of all that stands in the store.
const formatVersion = 1

// header says whose keys a store holds. It is written when they are complete.
type header struct {
	Format                          int
	Identity, Name, Key, Order, Pin string
}

// state is what a store stands for.
type state struct {
	head   header
	groups *groups
	filter *filter
	// done are the completed instants that it reflects, of those on the active
	// timeline; pending those that were not completed then.
	done, pending map[mark]bool
	// sweep is how far the walk for what is worth nothing has come.
	sweep sweep
	// sinceFlush counts commits.
	sinceFlush int
}

// mark names an instant: completed writes and restores are marked.
type mark struct {
	time   hudi.Time
	action commitmeta.Action
}

func markOf(i timeline.Instant) mark {
	m := mark{i.Time, i.Action}
	switch i.Action { // a pending one is named as it will be when it is done
	case commitmeta.ActionCompaction:
		m.action = commitmeta.ActionCommit
	case commitmeta.ActionLogCompaction:
		m.action = commitmeta.ActionDeltaCommit
	default:
	}
	return m
}

func (m mark) key(kind byte) []byte {
	return append([]byte{kind}, string(m.time)+" "+string(m.action)...)
}

// marked says whether an instant changes what the table holds.
func marked(i timeline.Instant) bool { return i.Writes() || i.Action == commitmeta.ActionRestore }

// marksOf are a view's.
func marksOf(v *table.View) (done, pending map[mark]bool) {
	done, pending = map[mark]bool{}, map[mark]bool{}
	for _, i := range v.Instants() {
		if !marked(i) {
			continue
		}
		if i.Done() {
			done[markOf(i)] = true
		} else {
			pending[markOf(i)] = true
		}
	}
	return done, pending
}

// want is the header of a store for this table; what the table says of itself is
// added when it is first seen.
func (c *Cache) want(t *table.Table) header {
	return header{Format: formatVersion, Identity: c.o.Identity, Pin: c.o.Layout, Name: t.Name(), Key: t.KeyColumn(), Order: t.OrderColumn()}
}

// load reads what a store stands for; nil and the reason when that is nothing.
func (c *Cache) load(s *store) (*state, string, error) {
	value, err := s.get([]byte{kindHeader})
	if err != nil || value == nil {
		return nil, noCache, err
	}
	var h header
	if err := json.Unmarshal(value, &h); err != nil {
		return nil, "", damaged(err)
	}
	st := &state{groups: newGroups(), done: map[mark]bool{}, pending: map[mark]bool{}, head: h}
	if err := st.groups.load(s); err != nil {
		return nil, "", err
	}
	for kind, set := range map[byte]map[mark]bool{kindInstant: st.done, kindPending: st.pending} {
		err := s.each(kind, []byte{kind}, func(key, _ []byte) (bool, error) {
			at, action, _ := strings.Cut(string(key[1:]), " ")
			set[mark{hudi.Time(at), commitmeta.Action(action)}] = true
			return true, nil
		})
		if err != nil {
			return nil, "", err
		}
	}
	if st.filter, err = s.loadFilter(c.o.Memory / filterShare); err == nil && st.filter == nil {
		st.filter, err = s.walkFilter(c.o.Memory / filterShare)
	}
	return st, "", err
}

// filterShare is the filter's part of the memory.
const filterShare = 4

// walkFilter makes the filter from the store's keys.
func (s *store) walkFilter(budget int64) (*filter, error) {
	f := newFilter(budget)
	err := s.each(kindKey, []byte{kindKey}, func(key, _ []byte) (bool, error) {
		prefix, _, ok := groupOf(key)
		if !ok {
			return false, errEntry
		}
		f.add(prefix)
		return true, nil
	})
	return f, damaged(err)
}

// difference is what a view has and a state has not.
type difference struct {
	// fresh are completed since, in order of time; archived are marks that left
	// the timeline.
	fresh    []timeline.Instant
	archived []mark
	pending  map[mark]bool
}

func (d *difference) none() bool { return len(d.fresh) == 0 && len(d.archived) == 0 }

// errFollow marks what a cache cannot be caught up over.
var errFollow = errors.New("cannot be caught up")

// compare says what is new, or why the state cannot be brought to the view. own
// is an instant that this process has just completed, if it asks for its sake. It is
// asked twice a commit: as long as nothing left the timeline, it costs one look at
// each instant.
func (st *state) compare(v *table.View, own hudi.Time) (d difference, reason string) {
	look := st.look(v)
	d.pending = look.pending
	if look.known < len(st.done) || len(st.pending) > 0 {
		if d.archived, reason = st.gone(v, look.pending); reason != "" {
			return d, reason
		}
	}
	for n, i := range look.unknown {
		if i.Action == commitmeta.ActionRestore {
			return d, fmt.Sprintf("the table was restored at %s", i.Time)
		}
		if n == 0 && look.oldest && (len(d.archived) > 0 || len(st.done) == 0 && (look.done > 1 || i.Time != own)) {
			// The oldest that is left is not known here: those between may have
			// been archived.
			return d, "commits were archived meanwhile"
		}
	}
	d.fresh = look.unknown
	return d, ""
}

// looked is what one look at a view's instants says.
type looked struct {
	// unknown are those that were completed and that the state does not have, in
	// order of time; oldest says that none that it has stands before them but what
	// archiving leaves behind.
	unknown []timeline.Instant
	oldest  bool
	// done are completed, known those of them that the state has.
	done, known int
	pending     map[mark]bool
}

func (st *state) look(v *table.View) looked {
	l := looked{oldest: true, pending: map[mark]bool{}}
	var saved map[hudi.Time]bool
	for _, i := range v.Instants() {
		if !marked(i) {
			continue
		}
		m := markOf(i)
		if !i.Done() {
			l.pending[m] = true
			continue
		}
		l.done++
		if !st.done[m] {
			l.unknown = append(l.unknown, i)
			continue
		}
		l.known++
		if l.oldest && len(l.unknown) == 0 {
			if saved == nil {
				saved = savepoints(v)
			}
			l.oldest = saved[i.Time]
		}
	}
	return l
}

// gone are the marks of the state that the view has no more, unless they cannot
// have been archived.
func (st *state) gone(v *table.View, pending map[mark]bool) (archived []mark, reason string) {
	done, _ := marksOf(v)
	for m := range st.done {
		switch {
		case done[m]:
			continue
		case m.action != commitmeta.ActionRestore && !v.Committed(m.time):
			return nil, fmt.Sprintf("commit %s is no more", m.time)
		}
		archived = append(archived, m)
	}
	for m := range st.pending {
		if !done[m] && !pending[m] && v.Committed(m.time) {
			return nil, fmt.Sprintf("instant %s was completed and archived meanwhile", m.time)
		}
	}
	return archived, ""
}

func savepoints(v *table.View) map[hudi.Time]bool {
	saved := map[hudi.Time]bool{}
	for _, i := range v.Instants() {
		if i.Action == commitmeta.ActionSavepoint {
			saved[i.Time] = true
		}
	}
	return saved
}

// accept writes into a batch that the state reflects a view, and returns what
// makes it so in memory when the batch is committed.
func (st *state) accept(b *pebble.Batch, d difference) (func(), error) {
	var errs []error
	for _, m := range d.archived {
		errs = append(errs, b.Delete(m.key(kindInstant), nil))
	}
	for _, i := range d.fresh {
		errs = append(errs, b.Set(markOf(i).key(kindInstant), nil, nil))
	}
	for m := range st.pending {
		if !d.pending[m] {
			errs = append(errs, b.Delete(m.key(kindPending), nil))
		}
	}
	for m := range d.pending {
		if !st.pending[m] {
			errs = append(errs, b.Set(m.key(kindPending), nil, nil))
		}
	}
	return func() {
		for _, m := range d.archived {
			delete(st.done, m)
		}
		for _, i := range d.fresh {
			st.done[markOf(i)] = true
		}
		st.pending = d.pending
	}, damaged(errors.Join(errs...))
}
