package table

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/couch2hudi/couch2hudi/commitmeta"
	"github.com/couch2hudi/couch2hudi/hudi"
	"github.com/couch2hudi/couch2hudi/hudi/timeline"
	"github.com/couch2hudi/couch2hudi/storage"
)

// archiveFile is one file of the archive.
type archiveFile struct {
	number int
	name   string // of the object
	size   int64
	// first and last bound its times, where the name says so.
	first, last hudi.Time
}

// archiveRanges remembers which times the files of the archive hold, so that
// few of them are read again. A file that Hudi has appended to is another one.
type archiveRanges struct {
	mu     sync.Mutex
	byFile map[archiveFile]timeRange
	// extras are values of extraMetadata that no active commit has, by key.
	extras map[string]archivedExtra
}

type timeRange struct{ first, last hudi.Time }

// archivedExtra is what the archive says of a key, as long as the active
// timeline begins at the same instant.
type archivedExtra struct {
	begins hudi.Time
	value  string
	at     timeline.Instant
}

// archiveFolder is where archived instants are, with a "/" at its end.
func (t *Table) archiveFolder() string {
	return hoodieFolder + or(t.properties.Get(hudi.PropArchive), "archived") + "/"
}

// archiveFiles are the files of the archive, the latest first.
func (t *Table) archiveFiles(ctx context.Context) ([]archiveFile, error) {
	if t.version.Completes() {
		return t.historyFiles(ctx)
	}
	var list []archiveFile
	folder := t.archiveFolder()
	for o, err := range t.bucket.ListFolders(ctx, folder) {
		if err != nil {
			return nil, err
		}
		if n, ok := timeline.ParseArchiveFileName(strings.TrimPrefix(o.Name, folder)); ok {
			list = append(list, archiveFile{number: n, name: o.Name, size: o.Size})
		}
	}
	slices.SortFunc(list, func(a, b archiveFile) int {
		return cmp.Or(cmp.Compare(b.number, a.number), strings.Compare(b.name, a.name))
	})
	return list, nil
}

// readArchive yields what a file of the archive holds; with bodies, its entries
// can say what the instants' files said.
func (t *Table) readArchive(r *storage.Reader, bodies bool) iter.Seq2[*timeline.Archived, error] {
	if t.version.Completes() {
		return timeline.ReadHistory(t.version, r, r.Size(), bodies)
	}
	return timeline.ReadArchive(r, r.Size())
}

// scanArchive hands the states in one file of the archive to visit, until that
// says no. Only with bodies may it ask for what they say.
func (t *Table) scanArchive(ctx context.Context, f archiveFile, bodies bool, visit func(*timeline.Archived) (bool, error)) (err error) {
	r, err := t.bucket.Open(ctx, f.name)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	var times timeRange
	for a, err := range t.readArchive(r, bodies) {
		if err != nil {
			return hinted(ErrCorrupt, "restore the file from a copy of the table", "%s: %v", f.name, err)
		}
		at := t.when(a.Instant)
		if times.first == "" || at.Before(times.first) {
			times.first = at
		}
		if at.After(times.last) {
			times.last = at
		}
		if more, err := visit(a); err != nil || !more {
			return err
		}
	}
	t.archive.mu.Lock()
	defer t.archive.mu.Unlock()
	t.archive.byFile[f] = times
	return nil
}

// checkArchive is an ErrArchived when a stretch of a file of the archive is no
// block: what it held, or was to hold, is not known. An append that died leaves
// one too, and then it is still on the timeline; but who could tell.
func (t *Table) checkArchive(ctx context.Context, f archiveFile) (err error) {
	if t.version.Completes() {
		return nil // files are whole or not named by the manifest
	}
	r, err := t.bucket.Open(ctx, f.name)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	_, whole, err := timeline.LogInstants(r, r.Size())
	if err != nil {
		return hinted(ErrCorrupt, "restore the file from a copy of the table", "%s: %v", f.name, err)
	}
	if !whole {
		return hinted(ErrArchived, "restore the file from a copy of the table", "a part of %s is damaged", f.name)
	}
	return nil
}

// archiveBelow says that a file is known to hold nothing after an instant.
func (t *Table) archiveBelow(f archiveFile, after hudi.Time) bool {
	t.archive.mu.Lock()
	defer t.archive.mu.Unlock()
	times, known := t.archive.byFile[f]
	return known && times.last != "" && !times.last.After(after)
}

// archivedIn is an archived instant with the file that it is in.
type archivedIn struct {
	timeline.Instant
	file archiveFile
}

// archivedAfter are the completed instants in the archive that stand later than
// after, ascending.
func (t *Table) archivedAfter(ctx context.Context, after hudi.Time) ([]archivedIn, error) {
	list, err := t.archiveFiles(ctx)
	if err != nil {
		return nil, err
	}
	// Files follow each other in time. What a savepoint had held back is in a
	// later one than its time, so that one file below does not end it.
	const enough = 2
	below := 0
	type key struct {
		time   hudi.Time
		action commitmeta.Action
	}
	found := map[key]archivedIn{}
	for _, f := range list {
		if below == enough && !t.version.Completes() {
			break
		}
		if t.archiveBelow(f, after) {
			below++
			continue
		}
		if err := t.checkArchive(ctx, f); err != nil {
			return nil, err
		}
		held := len(found)
		err := t.scanArchive(ctx, f, false, func(a *timeline.Archived) (bool, error) {
			if a.Done() && t.when(a.Instant).After(after) {
				found[key{a.Time, a.Action}] = archivedIn{a.Instant, f}
			}
			return true, nil
		})
		if err != nil {
			return nil, err
		}
		if below++; len(found) > held {
			below = 0
		}
	}
	return slices.SortedFunc(maps.Values(found), func(a, b archivedIn) int {
		return cmp.Or(a.Time.Compare(b.Time), cmp.Compare(a.Action, b.Action))
	}), nil
}

// Reaching is the view with the completed instants of the archive that stand later
// than after (When) on its timeline, too: its Instants, Writes, Last and Body have them.
// What it shows of files is the same. It is v itself when the active timeline
// goes back that far.
func (v *View) Reaching(ctx context.Context, after hudi.Time) (*View, error) {
	if v.firstDone != "" && !after.Before(v.firstDone) && !v.table.version.Completes() {
		return v, nil
	}
	old, err := v.table.archivedAfter(ctx, after)
	if err != nil {
		return nil, fmt.Errorf("read the archived timeline: %w", err)
	}
	if len(old) == 0 {
		return v, nil
	}
	n := v.copy()
	n.archived = map[timeline.Instant]archiveFile{}
	all := slices.Clone(v.instants)
	for _, a := range old {
		if !v.reaches(a.Instant) {
			continue
		}
		n.archived[plain(a.Instant)] = a.file
		all = append(all, a.Instant)
	}
	// An archiver that died has left instants in both.
	n.instants = timeline.Merge(all)
	for _, i := range v.instants {
		if _, ok := v.archived[plain(i)]; !ok {
			delete(n.archived, plain(i))
		}
	}
	return n, nil
}

// EachArchived hands the completed writes that are in the archive, and that the view
// reaches, to visit: file by file, the latest file first, so in no order that counts.
// Nothing of them is kept. It says how many files there are.
func (v *View) EachArchived(ctx context.Context, visit func(timeline.Instant, *commitmeta.Body) error) (int, error) {
	t := v.table
	list, err := t.archiveFiles(ctx)
	if err != nil || visit == nil {
		return len(list), err
	}
	for _, f := range list {
		if err := t.checkArchive(ctx, f); err != nil {
			return len(list), err
		}
		err := t.scanArchive(ctx, f, true, func(a *timeline.Archived) (bool, error) {
			if !a.Done() || !a.Writes() || !v.reaches(a.Instant) {
				return true, nil
			}
			e, err := a.Entry()
			if err != nil {
				return false, hinted(ErrCorrupt, "restore the file from a copy of the table", "%s: %v", f.name, err)
			}
			if e.Body == nil {
				return true, nil
			}
			return true, visit(a.Instant, e.Body)
		})
		if err != nil {
			return len(list), fmt.Errorf("read the archived timeline: %w", err)
		}
	}
	return len(list), nil
}

// plain is an instant without what differs between listings.
func plain(i timeline.Instant) timeline.Instant {
	return timeline.Instant{Time: i.Time, Action: i.Action, State: i.State}
}

// Archived says whether an instant of the view is in the archive alone.
func (v *View) Archived(i timeline.Instant) bool {
	_, ok := v.archived[plain(i)]
	return ok
}

// archivedBody is what an archived write says. It decodes some of those behind
// it too, since whoever reads one reads the next.
func (t *Table) archivedBody(ctx context.Context, i timeline.Instant, f archiveFile) (commitmeta.Body, error) {
	cached := func(i timeline.Instant) string { return f.name + " " + i.String() }
	if b, ok := t.bodies.get(cached(i)); ok {
		return b, nil
	}
	const ahead = bodyCacheBytes / 8
	var body commitmeta.Body
	found, read := false, int64(0)
	err := t.scanArchive(ctx, f, true, func(a *timeline.Archived) (bool, error) {
		if !a.Done() || !a.Writes() || (!found && !a.Same(i)) {
			return true, nil
		}
		e, err := a.Entry()
		if err != nil {
			return false, hinted(ErrCorrupt, "restore the file from a copy of the table", "%s: %v", f.name, err)
		}
		if e.Body == nil {
			e.Body = &commitmeta.Body{}
		}
		if !found {
			body, found = *e.Body, true
		}
		t.bodies.put(cached(a.Instant), *e.Body, a.Bytes())
		read += a.Bytes()
		return read < ahead, nil
	})
	if err == nil && !found {
		err = hinted(ErrCorrupt, "read the table again: another archiver may have been at work", "%s has no %s", f.name, i)
	}
	return body, err
}

// archivedExtra is the newest value of a key of extraMetadata in the archive that
// the view sees; "" when there is none.
func (v *View) archivedExtra(ctx context.Context, key string) (string, timeline.Instant, error) {
	t := v.table
	if len(v.Uncut().instants) == 0 {
		return "", timeline.Instant{}, nil // nothing was ever there to archive
	}
	t.archive.mu.Lock()
	e, known := t.archive.extras[key]
	t.archive.mu.Unlock()
	var err error
	if !known || e.begins != v.firstDone {
		if e, err = t.searchArchive(ctx, key, v.Uncut()); err != nil {
			return "", timeline.Instant{}, err
		}
		e.begins = v.firstDone
		t.archive.mu.Lock()
		t.archive.extras[key] = e
		t.archive.mu.Unlock()
	}
	if e.value != "" && !v.reaches(e.at) {
		e, err = t.searchArchive(ctx, key, v)
	}
	return e.value, e.at, err
}

// reaches says whether an archived instant lies within the view's bounds.
func (v *View) reaches(i timeline.Instant) bool {
	return (v.at == "" || !i.Time.After(v.at)) && (v.until == "" || !v.When(i).After(v.until))
}

// searchArchive is the newest value of a key in the archive, of the commits that a
// view reaches.
func (t *Table) searchArchive(ctx context.Context, key string, v *View) (e archivedExtra, err error) {
	list, err := t.archiveFiles(ctx)
	if err != nil {
		return e, err
	}
	for _, f := range list {
		err := t.scanArchive(ctx, f, true, func(a *timeline.Archived) (bool, error) {
			if !a.Done() || !a.Writes() || !a.Mentions(key) || !a.Time.After(e.at.Time) || !v.reaches(a.Instant) {
				return true, nil
			}
			entry, err := a.Entry()
			if err != nil {
				return false, hinted(ErrCorrupt, "restore the file from a copy of the table", "%s: %v", f.name, err)
			}
			if entry.Body != nil && entry.Body.Extra[key] != "" {
				e.value, e.at = entry.Body.Extra[key], a.Instant
			}
			return true, nil
		})
		if err != nil {
			return e, fmt.Errorf("read the archived timeline: %w", err)
		}
		if e.value != "" {
			return e, nil
		}
	}
	for _, f := range list {
		if err := t.checkArchive(ctx, f); err != nil {
			return e, fmt.Errorf("look for %q: %w", key, err)
		}
	}
	return e, nil
}
