package table

import (
	"context"
	"slices"
	"strings"

	"github.com/couch2hudi/couch2hudi/hudi"
	"github.com/couch2hudi/couch2hudi/storage"
)

// Aside is a file that a transaction put aside.
type Aside struct {
	// Name is as PutAside got it.
	Name    string
	Instant hudi.Time
	// Bytes is its size.
	Bytes int64
}

// Aside lists the files below a folder that completed transactions put aside, by
// their instants and names. folder ends with a slash.
func (v *View) Aside(ctx context.Context, folder string) ([]Aside, error) {
	var all []Aside
	for o, err := range v.table.bucket.List(ctx, asideFolder+folder) {
		if err != nil {
			return nil, err
		}
		_, last := split(o.Name)
		stem, _, named := strings.Cut(last, ".")
		at, err := hudi.ParseTime(stem)
		if named && err == nil && v.Committed(at) {
			all = append(all, Aside{Name: strings.TrimPrefix(o.Name, asideFolder), Instant: at, Bytes: o.Size})
		}
	}
	slices.SortFunc(all, func(a, b Aside) int {
		if a.Instant != b.Instant {
			return strings.Compare(string(a.Instant), string(b.Instant))
		}
		return strings.Compare(a.Name, b.Name)
	})
	return all, nil
}

// OpenAside opens a file that Aside named. ctx governs the reading, too.
func (t *Table) OpenAside(ctx context.Context, name string) (*storage.Reader, error) {
	return t.bucket.Open(ctx, asideFolder+name)
}
