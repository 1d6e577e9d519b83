package table

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/couch2hudi/couch2hudi/hudi"
	"github.com/couch2hudi/couch2hudi/hudi/timeline"
	"github.com/couch2hudi/couch2hudi/storage"
)

// when is where an instant stands in ranges of changes: by its time, and from
// table version 8 on by when it completed.
func (t *Table) when(i timeline.Instant) hudi.Time {
	switch {
	case !t.version.Completes() || !i.Done():
		return i.Time
	case i.Completion != "":
		return i.Completion
	case i.Modified.IsZero():
		return i.Time
	}
	// An upgrade left the name as it was. Hudi takes the time of the file, too.
	return hudi.FormatTime(t.local(i.Modified))
}

// When is where an instant stands in ranges of changes, as Until and incremental
// reads count: by its time, and from table version 8 on by when it completed.
func (v *View) When(i timeline.Instant) hudi.Time { return v.table.when(i) }

// Latest is the greatest When of the completed writes, "" when there is none.
func (v *View) Latest() hudi.Time {
	var latest hudi.Time
	for _, i := range v.instants {
		if w := v.When(i); i.Done() && i.Writes() && w.After(latest) {
			latest = w
		}
	}
	return latest
}

// Until is the view of what stands before a point of ranges of changes, and at
// it. Before table version 8 that is AsOf.
func (v *View) Until(when hudi.Time) *View {
	if !v.table.version.Completes() {
		return v.AsOf(when)
	}
	if v.until != "" && v.until.Before(when) {
		when = v.until
	}
	n := v.copy()
	n.until = when
	if n.slices = map[string][]hudi.Slice{}; n.uncut == nil {
		n.uncut = v
	}
	n.instants = slices.DeleteFunc(slices.Clone(v.instants), func(i timeline.Instant) bool { return v.When(i).After(when) })
	return n
}

// Place is where a data file stands among the base files of its group: it belongs
// to the latest that is not later. That is the instant in its name, but for log
// files from table version 8 on, which stand where their commit completed.
func (v *View) Place(name string) (hudi.Time, error) {
	if b, err := hudi.ParseBaseFileName(name); err == nil {
		return b.Instant, nil
	}
	l, err := hudi.ParseLogFileName(name)
	if err != nil || !v.table.version.Completes() {
		return l.Instant, err
	}
	if c, known := v.Uncut().completed(l.Instant); known {
		return c, nil
	}
	return l.Instant, nil
}

// after says whether a write completed after the view's bound.
func (v *View) after(at hudi.Time) bool {
	if v.until == "" {
		return false
	}
	c, known := v.Uncut().completed(at)
	return known && c.After(v.until)
}

// completed is when a write on the view's timeline completed.
func (v *View) completed(at hudi.Time) (hudi.Time, bool) {
	n, _ := slices.BinarySearchFunc(v.instants, at, func(i timeline.Instant, t hudi.Time) int {
		return cmp.Or(i.Time.Compare(t), cmp.Compare(i.Time, t))
	})
	for ; n < len(v.instants) && v.instants[n].Time == at; n++ {
		if i := v.instants[n]; i.Done() && i.Writes() {
			return v.When(i), true
		}
	}
	return "", false
}

// slices8 are the latest slices of a partition by the rules of table version 8
// and later, sorted by file id: a log file's instant is that of the commit that
// wrote it, which belongs to the latest base file that was begun before it
// completed. when is when a committed instant completed, "" if nobody knows.
func slices8(partition string, files []hudi.File, r sliceRules, when func(hudi.Time) hudi.Time) []hudi.Slice {
	groups := map[hudi.FileID]*hudi.Slice{}
	names := map[string]hudi.LogFileName{}
	slice := func(id hudi.FileID) *hudi.Slice {
		if groups[id] == nil {
			groups[id] = &hudi.Slice{Location: hudi.Location{Partition: partition, File: id}}
		}
		return groups[id]
	}
	for _, f := range files {
		if isLogName(f.Name) {
			if n, err := hudi.ParseLogFileName(f.Name); err == nil && !n.CDC && r.committed(n.Instant) {
				s := slice(n.File)
				s.Logs = append(s.Logs, f)
				names[f.Name] = n
			}
		} else if n, err := hudi.ParseBaseFileName(f.Name); err == nil && r.committed(n.Instant) {
			if s := slice(n.File); !n.Instant.Before(s.Instant) {
				s.Instant, s.Base = n.Instant, f
			}
		}
	}
	list := make([]hudi.Slice, 0, len(groups))
	for _, s := range groups {
		if r.replaced(s.Location) {
			continue
		}
		s.Logs = slices.DeleteFunc(s.Logs, func(f hudi.File) bool {
			c := when(names[f.Name].Instant)
			return c != "" && c.Before(s.Instant)
		})
		slices.SortFunc(s.Logs, func(a, b hudi.File) int { return names[a.Name].Compare(names[b.Name]) })
		if s.Base.Name == "" {
			s.Instant = names[s.Logs[0].Name].Instant
		}
		if c := r.compacting(s.Location); c.After(s.Instant) && (r.at == "" || !c.After(r.at)) {
			s.Compacting = c
		}
		list = append(list, *s)
	}
	slices.SortFunc(list, func(a, b hudi.Slice) int { return cmp.Compare(a.File, b.File) })
	return list
}

// completions says when the instants completed that log files are named after:
// those on the timeline, and those that the history has.
func (v *View) completions(ctx context.Context, files []hudi.File) (func(hudi.Time) hudi.Time, error) {
	known := map[hudi.Time]hudi.Time{}
	var old []hudi.Time
	for _, f := range files {
		n, err := hudi.ParseLogFileName(f.Name)
		if err != nil || n.CDC {
			continue
		}
		if _, seen := known[n.Instant]; seen || !v.Committed(n.Instant) {
			continue
		}
		c, active := v.Uncut().completed(n.Instant)
		if known[n.Instant] = c; !active {
			old = append(old, n.Instant)
		}
	}
	if err := v.table.fromHistory(ctx, old, known); err != nil {
		return nil, err
	}
	return func(t hudi.Time) hudi.Time { return known[t] }, nil
}

// fromHistory looks up when writes of long ago completed.
func (t *Table) fromHistory(ctx context.Context, wanted []hudi.Time, into map[hudi.Time]hudi.Time) error {
	if len(wanted) == 0 {
		return nil
	}
	list, err := t.archiveFiles(ctx)
	if err != nil {
		return err
	}
	slices.SortFunc(wanted, hudi.Time.Compare)
	for _, f := range list {
		n, _ := slices.BinarySearchFunc(wanted, f.first, hudi.Time.Compare)
		if n == len(wanted) || wanted[n].After(f.last) {
			continue
		}
		err := t.scanArchive(ctx, f, false, func(a *timeline.Archived) (bool, error) {
			if _, found := slices.BinarySearchFunc(wanted, a.Time, hudi.Time.Compare); found && a.Writes() {
				into[a.Time] = t.when(a.Instant)
			}
			return true, nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// historyFiles are the files of the archive from table version 8 on, the latest
// first.
func (t *Table) historyFiles(ctx context.Context) ([]archiveFile, error) {
	folder, err := timeline.Folder(t.version)
	if err != nil {
		return nil, err
	}
	folder += or(t.properties.Get(hudi.PropHistory), "history") + "/"
	data, name, err := t.manifest(ctx, folder)
	if err != nil || name == "" {
		return nil, err
	}
	files, err := timeline.ParseManifest(data)
	if err != nil {
		return nil, hinted(ErrCorrupt, "restore the file from a copy of the table", "%s: %v", name, err)
	}
	list := make([]archiveFile, len(files))
	for i, f := range files {
		list[i] = archiveFile{number: f.Layer, name: folder + f.Name, size: f.Bytes, first: f.First, last: f.Last}
	}
	slices.SortFunc(list, func(a, b archiveFile) int { return cmp.Or(b.last.Compare(a.last), strings.Compare(b.name, a.name)) })
	return list, nil
}

// manifest is the manifest of the history that counts, with its name; "" when
// there is none, since nothing was ever archived.
func (t *Table) manifest(ctx context.Context, folder string) (data []byte, name string, err error) {
	text, err := t.bucket.ReadAll(ctx, folder+timeline.HistoryVersionName, versionLimit)
	if err != nil && !errors.Is(err, storage.ErrNotExist) {
		return nil, "", err
	}
	if n, err := strconv.Atoi(strings.TrimSpace(string(text))); err == nil {
		name = folder + timeline.ManifestName(n)
		if data, err = t.bucket.ReadAll(ctx, name, instantLimit); err == nil || !errors.Is(err, storage.ErrNotExist) {
			return data, name, err
		}
	}
	// Whoever archives takes the file away for a moment: the greatest counts.
	numbers := map[int]bool{}
	for o, err := range t.bucket.ListFolders(ctx, folder) {
		if err != nil {
			return nil, "", err
		}
		if n, ok := timeline.ParseManifestName(strings.TrimPrefix(o.Name, folder)); ok {
			numbers[n] = true
		}
	}
	if len(numbers) == 0 {
		return nil, "", nil
	}
	name = folder + timeline.ManifestName(slices.Max(slices.Collect(maps.Keys(numbers))))
	data, err = t.bucket.ReadAll(ctx, name, instantLimit)
	return data, name, err
}

// versionLimit bounds the file that says which manifest counts.
const versionLimit = 1 << 10

// instantFile is the object name of an instant's file, in a table of any version.
func (t *Table) instantFile(i timeline.Instant) (string, error) {
	folder, err := timeline.Folder(t.version)
	if err != nil {
		return "", err
	}
	name, err := timeline.FileName(t.version, i)
	return folder + name, err
}
