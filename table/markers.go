package table

import (
	"context"
	"strings"

	"github.com/couch2hudi/couch2hudi/hudi"
)

const (
	markerInfix = ".marker."
	// Markers that Spark's timeline server wrote: many in one file, a line
	// each, in files MARKERS0, MARKERS1, …
	markersFile = "MARKERS"
	markersType = "MARKERS.type"
)

// marked are the files that the markers of an instant name: one marker a file
// as we write them, or many in one as Spark's timeline server does.
func (t *Table) marked(ctx context.Context, at hudi.Time) ([]found, error) {
	folder := tempFolder + string(at) + "/"
	var files []found
	var together []string
	for o, err := range t.bucket.List(ctx, folder) {
		if err != nil {
			return nil, err
		}
		name := strings.TrimPrefix(o.Name, folder)
		if f, ok := parseMarker(name); ok {
			files = append(files, f)
		} else if strings.HasPrefix(name, markersFile) && name != markersType {
			together = append(together, o.Name)
		}
	}
	for _, name := range together {
		data, err := t.bucket.ReadAll(ctx, name, instantLimit)
		if err != nil {
			return nil, err
		}
		for line := range strings.Lines(string(data)) {
			if f, ok := parseMarker(strings.TrimRight(line, "\r\n")); ok {
				files = append(files, f)
			}
		}
	}
	return files, nil
}

// parseMarker reads "<partition>/<file>.marker.<TYPE>".
func parseMarker(name string) (found, bool) {
	i := strings.LastIndex(name, markerInfix)
	if i < 0 {
		return found{}, false
	}
	f := found{}
	f.partition, f.name = split(name[:i])
	return f, f.name != ""
}
