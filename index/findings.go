package index

import (
	"slices"

	"github.com/couch2hudi/couch2hudi/hudi"
)

// Newest is the answer to what was found of one key in several places, in
// whatever order: the newest version, and the Others and Hidden. Each place is named once. An index that finds keys
// in another way than Bloom gives Bloom's answers through it.
func Newest(found []hudi.Stored) hudi.Stored {
	var had hudi.Stored
	for _, f := range found {
		if newer(&had, &f) {
			had, f = f, had
		}
		had.Others = append(had.Others, f.Others...)
		had.Hidden = append(had.Hidden, f.Hidden...)
		switch {
		case f.Found:
			had.Others = append(had.Others, f.Location)
		case f.File != "":
			had.Hidden = append(had.Hidden, hudi.Hidden{Location: f.Location, Order: f.Order})
		}
	}
	slices.SortFunc(had.Others, compare)
	had.Others = slices.DeleteFunc(slices.Compact(had.Others), func(at hudi.Location) bool { return at == had.Location })
	slices.SortFunc(had.Hidden, func(a, b hudi.Hidden) int { return compare(a.Location, b.Location) })
	had.Hidden = slices.DeleteFunc(had.Hidden, func(h hudi.Hidden) bool { return h.Location == had.Location })
	return had
}
