package timeline

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"strconv"
	"strings"

	"github.com/couch2hudi/couch2hudi/commitmeta"
	"github.com/couch2hudi/couch2hudi/hudi"
	"github.com/couch2hudi/couch2hudi/hudi/basefile"
)

// What lies in the history's folder beside its data: which manifest counts, and
// the manifests.
const (
	HistoryVersionName = "_version_"
	manifestPrefix     = "manifest_"
	historySuffix      = ".parquet"
)

// ManifestName is the name of the n-th manifest of the history.
func ManifestName(n int) string { return manifestPrefix + strconv.Itoa(n) }

// ParseManifestName is the number in a manifest's name.
func ParseManifestName(name string) (n int, ok bool) {
	text, ok := strings.CutPrefix(name, manifestPrefix)
	if n, err := strconv.Atoi(text); ok && err == nil && n >= 0 && ManifestName(n) == name {
		return n, true
	}
	return 0, false
}

// HistoryFile is one file of the history.
type HistoryFile struct {
	Name string
	// Bytes is its size.
	Bytes int64
	// First and Last bound the times of its instants, both included. How many
	// times what it holds was merged with others is Layer.
	First, Last hudi.Time
	Layer       int
}

// parseHistoryFileName reads "<first>_<last>_<layer>.parquet".
func parseHistoryFileName(name string) (HistoryFile, bool) {
	stem, ok := strings.CutSuffix(name, historySuffix)
	parts := strings.Split(stem, "_")
	if !ok || len(parts) != 3 {
		return HistoryFile{}, false
	}
	first, err := hudi.ParseTime(parts[0])
	last, err2 := hudi.ParseTime(parts[1])
	layer, err3 := strconv.Atoi(parts[2])
	if errors.Join(err, err2, err3) != nil || layer < 0 {
		return HistoryFile{}, false
	}
	return HistoryFile{Name: name, First: first, Last: last, Layer: layer}, true
}

// ParseManifest reads a manifest: the files that the history consists of.
func ParseManifest(data []byte) ([]HistoryFile, error) {
	var m struct {
		Files []struct {
			Name  string `json:"fileName"`
			Bytes int64  `json:"fileLen"`
		} `json:"files"`
	}
	if err := json.Unmarshal(data, &m); err != nil {
		return nil, fmt.Errorf("%w: manifest of the history: %w", commitmeta.ErrDecode, err)
	}
	files := make([]HistoryFile, len(m.Files))
	for i, f := range m.Files {
		h, ok := parseHistoryFileName(f.Name)
		if !ok {
			return nil, fmt.Errorf("%w: manifest of the history: %q is no file of it", commitmeta.ErrDecode, f.Name)
		}
		h.Bytes = f.Bytes
		files[i] = h
	}
	return files, nil
}

// ReadHistory yields what one file of the history of a table of a version holds:
// completed instants alone, in ascending order of time. With bodies, Entry says
// what their files said; without, only the times are read. What is held is a
// page of the file. After an error nothing follows.
func ReadHistory(v hudi.Version, r io.ReaderAt, size int64, bodies bool) iter.Seq2[*Archived, error] {
	columns := []string{"instantTime", "completionTime", "action"}
	if bodies {
		columns = append(columns, "metadata")
	}
	return func(yield func(*Archived, error) bool) {
		a := Archived{version: v}
		for row, err := range basefile.Cells(r, size, columns...) {
			if errors.Is(err, basefile.ErrFormat) {
				err = fmt.Errorf("%w: %w", commitmeta.ErrDecode, err)
			}
			if err == nil {
				err = a.cells(row)
			}
			if err != nil {
				yield(nil, fmt.Errorf("history: %w", err))
				return
			}
			if !yield(&a, nil) {
				return
			}
		}
	}
}

// cells takes over one row of the history.
func (a *Archived) cells(row [][]byte) error {
	t, err := hudi.ParseTime(string(row[0]))
	if err != nil {
		return fmt.Errorf("%w: %w", commitmeta.ErrDecode, err)
	}
	i := Instant{Time: t, State: Completed, Action: commitmeta.Action(row[2])}
	if len(row[1]) > 0 {
		if i.Completion, err = hudi.ParseTime(string(row[1])); err != nil {
			return fmt.Errorf("%w: %w", commitmeta.ErrDecode, err)
		}
	}
	if a.Instant = i; i.Action == "" {
		return fmt.Errorf("%w: %s has no action", commitmeta.ErrDecode, t)
	}
	if a.datum = nil; len(row) > 3 {
		a.datum = row[3]
	}
	return nil
}
