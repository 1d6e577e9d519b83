package table

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/couch2hudi/couch2hudi/hudi"
)

// sliceRules is what decides which files of a partition belong together and
// are seen.
type sliceRules struct {
	// at is the instant to look from, "" for now.
	at hudi.Time
	// committed says whether what an instant wrote is seen.
	committed func(hudi.Time) bool
	// compacting is the pending compaction of a group, "" for none.
	compacting func(hudi.Location) hudi.Time
	// replaced says whether a group was replaced.
	replaced func(hudi.Location) bool
}

// slices6 are the latest slices of a partition by the rules of table version
// 6, sorted by file id: the instant in a log file's name is that of its base
// file, or that of the compaction that was pending when it was written.
func slices6(partition string, files []hudi.File, r sliceRules) []hudi.Slice {
	groups := map[hudi.FileID]map[hudi.Time]*hudi.Slice{}
	slice := func(id hudi.FileID, t hudi.Time) *hudi.Slice {
		if groups[id] == nil {
			groups[id] = map[hudi.Time]*hudi.Slice{}
		}
		s := groups[id][t]
		if s == nil {
			s = &hudi.Slice{Location: hudi.Location{Partition: partition, File: id}, Instant: t}
			groups[id][t] = s
		}
		return s
	}
	names := map[string]hudi.LogFileName{}
	for _, f := range files {
		if isLogName(f.Name) {
			if n, err := hudi.ParseLogFileName(f.Name); err == nil && !n.CDC {
				s := slice(n.File, n.Instant)
				s.Logs = append(s.Logs, f)
				names[f.Name] = n
			}
		} else if n, err := hudi.ParseBaseFileName(f.Name); err == nil && r.committed(n.Instant) {
			// Two base files of one slice are the attempts of a task, of which
			// Hudi removes the failed ones before it commits.
			slice(n.File, n.Instant).Base = f
		}
	}
	list := make([]hudi.Slice, 0, len(groups))
	for id, group := range groups {
		location := hudi.Location{Partition: partition, File: id}
		if r.replaced(location) {
			continue
		}
		if s, ok := latest6(group, r, r.compacting(location)); ok {
			slices.SortFunc(s.Logs, func(a, b hudi.File) int { return names[a.Name].Compare(names[b.Name]) })
			list = append(list, s)
		}
	}
	slices.SortFunc(list, func(a, b hudi.Slice) int { return cmp.Compare(a.File, b.File) })
	return list
}

// latest6 is the latest slice of a group, merged with the one below when a
// pending compaction stands between them.
func latest6(group map[hudi.Time]*hudi.Slice, r sliceRules, compacting hudi.Time) (hudi.Slice, bool) {
	if compacting != "" && r.at != "" && compacting.After(r.at) {
		compacting = ""
	}
	var top *hudi.Slice // the latest slice below a pending compaction, or of all
	for _, t := range slices.SortedFunc(maps.Keys(group), hudi.Time.Compare) {
		if (r.at == "" || !t.After(r.at)) && t != compacting && r.committed(t) {
			top = group[t]
		}
	}
	onTop := group[compacting] // the logs written since it was planned
	switch {
	case compacting == "" || (top != nil && top.Instant.After(compacting)):
		if top == nil {
			return hudi.Slice{}, false
		}
		return *top, true
	case top == nil && onTop == nil:
		return hudi.Slice{}, false
	case top == nil:
		s := *onTop
		s.Compacting = compacting
		return s, true
	}
	s := *top
	s.Compacting = compacting
	if onTop != nil {
		s.Logs = slices.Concat(s.Logs, onTop.Logs)
	}
	return s, true
}

// isLogName tells the two kinds of data files apart: the names of log files
// begin with a dot, and those of base files cannot.
func isLogName(name string) bool { return strings.HasPrefix(name, ".") }
