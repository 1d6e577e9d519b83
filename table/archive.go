package table

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/couch2hudi/couch2hudi/hudi"
	"github.com/couch2hudi/couch2hudi/hudi/timeline"
	"github.com/couch2hudi/couch2hudi/storage"
)

// Archived says what an archival did.
type Archived struct {
	// Instants left the active timeline, the last of which is Last.
	Instants int
	Last     hudi.Time
	// File is the archive's new file, "" when all was in the archive already.
	File string
}

// Archive moves completed instants from the active timeline to the archive. The
// archive is written first, whole; then the instants' pending files are deleted,
// then their completed ones, the oldest first: whatever dies, no instant is ever
// nowhere, none falls back to pending, and the timeline has no hole. The next
// Archive of the same instants finishes what one left. It needs the Lease.
func (t *Table) Archive(ctx context.Context, instants []timeline.Instant) (Archived, error) {
	if err := t.mayWrite("archive"); err != nil {
		return Archived{}, err
	}
	states, err := t.statesFor(ctx, instants)
	if err != nil || len(states) == 0 {
		return Archived{}, err
	}
	done := Archived{}
	var number int
	done.File, number, err = t.writeArchive(ctx, states)
	if errors.Is(err, storage.ErrExist) { // another engine has archived: look at what there is
		done.File, number, err = t.writeArchive(ctx, states)
	}
	if err != nil {
		return Archived{}, fmt.Errorf("write the archive: %w", err)
	}
	// To a view, instants that leave the timeline change nothing of the files.
	t.mu.Lock()
	for _, s := range states {
		t.own.add(s.Time)
	}
	t.mu.Unlock()
	if err := t.dropUndone(ctx, instants); err != nil {
		return done, fmt.Errorf("archive: %w", err)
	}
	if err := t.bucket.Confirm(ctx); err != nil {
		return done, fmt.Errorf("archive: %w", err)
	}
	for _, completed := range []bool{false, true} {
		for _, s := range states {
			if s.Done() != completed {
				continue
			}
			if err := t.removeInstant(ctx, s, s.State); err != nil {
				return done, fmt.Errorf("archive: %w", err)
			}
			if completed {
				done.Instants, done.Last = done.Instants+1, s.Time
			}
		}
	}
	t.mu.Lock()
	t.archives = number
	t.mu.Unlock()
	return done, nil
}

// statesFor are all files of instants on the timeline, as instants in those
// states: in the order of instants, and of an instant requested, inflight,
// completed.
func (t *Table) statesFor(ctx context.Context, instants []timeline.Instant) ([]timeline.Instant, error) {
	folder, err := timeline.Folder(hudi.Version6)
	if err != nil {
		return nil, err
	}
	wanted := map[hudi.Time]bool{}
	for _, i := range instants {
		if !i.Done() {
			return nil, hinted(ErrBody, "archive what is completed", "%s", i)
		}
		wanted[i.Time] = true
	}
	files := map[hudi.Time][]timeline.Instant{}
	for o, err := range t.bucket.ListFolders(ctx, folder) {
		if err != nil {
			return nil, err
		}
		if i, ok := timeline.ParseFileName(hudi.Version6, strings.TrimPrefix(o.Name, folder)); ok && wanted[i.Time] {
			i.Modified = o.Modified
			files[i.Time] = append(files[i.Time], i)
		}
	}
	var states []timeline.Instant
	for _, i := range instants {
		var own []timeline.Instant
		for _, s := range files[i.Time] {
			// A savepoint has the time of its commit, and stays.
			if len(timeline.Merge([]timeline.Instant{s, i})) == 1 {
				own = append(own, s)
			}
		}
		slices.SortFunc(own, func(a, b timeline.Instant) int { return int(a.State) - int(b.State) })
		if n := len(own); n > 0 && own[n-1].Done() {
			states = append(states, own...) // else it is gone already
		}
	}
	return states, nil
}

// writeArchive writes what is not in the archive already, as one new file, and
// gives its name and number.
func (t *Table) writeArchive(ctx context.Context, states []timeline.Instant) (string, int, error) {
	number, there, err := t.archivedLast(ctx)
	if err != nil {
		return "", 0, err
	}
	var missing []timeline.Instant
	for i := 0; i < len(states); {
		end := i // at the completed state, the last of an instant
		for !states[end].Done() {
			end++
		}
		if !there[plain(states[end])] {
			missing = append(missing, states[i:end+1]...)
		}
		i = end + 1
	}
	if len(missing) == 0 {
		return "", 0, nil
	}
	name := t.archiveFolder() + timeline.ArchiveFileName(number)
	up, err := t.bucket.Create(ctx, name, storage.Cond{Absent: true})
	if err != nil {
		return "", 0, err
	}
	if err := t.fillArchive(ctx, up, missing); err != nil {
		return "", 0, errors.Join(err, up.Abort())
	}
	if _, err = up.Commit(); err != nil {
		return "", 0, err
	}
	return name, number, nil
}

// archivedLast is the number for the next file of the archive, and what the last one
// holds: an archival that died has written it, and has not deleted all. Of an instant
// whose completed state is there all is. The number is known, and there is nothing of
// that kind, after an archival of this process that came to its end.
func (t *Table) archivedLast(ctx context.Context) (number int, there map[timeline.Instant]bool, err error) {
	t.mu.Lock()
	number = t.archives
	t.archives = 0
	t.mu.Unlock()
	if number > 0 {
		return number + 1, nil, nil
	}
	files, err := t.archiveFiles(ctx)
	if err != nil || len(files) == 0 {
		return 1, nil, err
	}
	there = map[timeline.Instant]bool{}
	return files[0].number + 1, there, t.scanArchive(ctx, files[0], true, func(a *timeline.Archived) (bool, error) {
		if a.Done() {
			there[plain(a.Instant)] = true
		}
		return true, nil
	})
}

func (t *Table) fillArchive(ctx context.Context, up storage.Upload, states []timeline.Instant) error {
	w, err := t.archiveWriter(up)
	if err != nil {
		return err
	}
	for _, s := range states {
		data, _, err := t.content(ctx, s)
		if err != nil {
			return err
		}
		if err := w.Append(s, data); err != nil {
			return err
		}
	}
	return w.Close()
}

// archiveWriter writes a file of the archive. Archivals are those of the lease's holder,
// one after the other.
func (t *Table) archiveWriter(up storage.Upload) (*timeline.ArchiveWriter, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.archiver != nil {
		return t.archiver.Next(up), nil
	}
	w, err := timeline.NewArchiveWriter(up)
	if err != nil {
		return nil, err
	}
	t.archiver = w.Next(io.Discard)
	return w, nil
}
