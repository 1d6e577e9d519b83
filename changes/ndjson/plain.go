package ndjson

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/couch2hudi/couch2hudi/changes"
)

// plainFiles is a folder of files that other tools write, read in the order of
// their names.
type plainFiles struct {
	o     Options
	watch *watch

	// mu guards what a commit asks for while a Next runs.
	mu sync.Mutex
	// known are the files that were there before, so that one that comes too late
	// for its place is noticed. nil before the first look.
	known map[string]bool
	// read are those that this process has read to their end.
	read []string
}

// isPlain says whether a name is that of a file to read.
func isPlain(name string) bool {
	if strings.HasPrefix(name, ".") || name == headName || strings.HasSuffix(name, manifestSuffix) {
		return false
	}
	name = strings.TrimSuffix(strings.TrimSuffix(name, zstdSuffix), gzipSuffix)
	return slices.Contains([]string{".ndjson", ".jsonl", ".json"}, filepath.Ext(name))
}

// list are the names of the files, in order.
func (f *plainFiles) list() (names []string, err error) {
	entries, err := os.ReadDir(f.o.Folder)
	if err != nil {
		return nil, fmt.Errorf("list %s: %w", f.o.Folder, err)
	}
	for _, e := range entries {
		if isPlain(e.Name()) && e.Type().IsRegular() {
			names = append(names, e.Name())
		}
	}
	return names, nil // ReadDir sorts
}

// open implements shelf.
func (f *plainFiles) open(ctx context.Context, p place) (*reader, wait, error) {
	name, err := f.pick(p)
	if err != nil {
		return nil, wait{}, err
	}
	if name == "" {
		return nil, wait{reason: "no file has come that is not read"}, nil
	}
	in, err := os.Open(filepath.Join(f.o.Folder, name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, wait{reason: name + ", which was not read to its end, is missing", gap: true}, nil
	}
	if err != nil {
		return nil, wait{}, fmt.Errorf("open file: %w", err)
	}
	info, err := in.Stat()
	if err != nil {
		return nil, wait{}, errors.Join(fmt.Errorf("look at %s: %w", in.Name(), err), in.Close())
	}
	// Looked at for the first time, it is its own word that it has been quiet.
	quiet := max(f.watch.still(name, info), f.o.Clock().Sub(info.ModTime()))
	if quiet < f.o.Quiet {
		return nil, wait{reason: name + " may still be written", gap: true}, in.Close()
	}
	r := &reader{name: name, rows: -1, at: place{File: name, Size: info.Size()}}
	if name == p.File && info.Size() != p.Size {
		return nil, wait{}, errors.Join(f.broken(name, fmt.Sprintf("it has %d bytes, and had %d when it was read to row %d", info.Size(), p.Size, p.Row)), in.Close())
	}
	if r.lines, err = openLines(in, f.o.MaxRowBytes); err != nil {
		return nil, wait{}, errors.Join(f.broken(name, err.Error()), in.Close())
	}
	if name == p.File {
		err = skip(ctx, r, p.Row)
	}
	if err != nil {
		r.lines.done()
		return nil, wait{}, err
	}
	return r, wait{}, nil
}

func (f *plainFiles) broken(name, why string) error {
	return fmt.Errorf("%w: %s: %s", changes.ErrChain, filepath.Join(f.o.Folder, name), why)
}

// pick is the file that a place is in, or the first one after it.
func (f *plainFiles) pick(p place) (string, error) {
	names, err := f.list()
	if err != nil {
		return "", err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.known != nil {
		for _, n := range names {
			if n <= p.File && !f.known[n] {
				return "", f.broken(n, fmt.Sprintf("it came after %s was read, and its name sorts before: give it a later name", p.File))
			}
		}
	}
	f.known = map[string]bool{}
	for _, n := range names {
		f.known[n] = true
	}
	if p.File != "" && !p.Done {
		f.known[p.File] = true
		return p.File, nil
	}
	if p.Done && !slices.Contains(f.read, p.File) {
		f.read = append(f.read, p.File)
	}
	for _, n := range names {
		if n > p.File {
			return n, nil
		}
	}
	return "", nil
}

// end implements shelf.
func (f *plainFiles) end(context.Context) (place, error) {
	names, err := f.list()
	if err != nil || len(names) == 0 {
		return place{}, err
	}
	last := names[len(names)-1]
	info, err := os.Stat(filepath.Join(f.o.Folder, last))
	if err != nil {
		return place{}, fmt.Errorf("look at the last file: %w", err)
	}
	return place{File: last, Size: info.Size(), Done: true}, nil
}

// incarnation implements shelf: nobody says it.
func (f *plainFiles) incarnation() string { return "" }

// consumed implements shelf: files that this process has read, and the one that
// the last process ended with. What else is there may not have been read.
func (f *plainFiles) consumed(p place) (names []string, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if p.Done && !slices.Contains(f.read, p.File) {
		f.read = append(f.read, p.File)
	}
	for _, n := range f.read {
		if n < p.File || n == p.File && p.Done {
			names = append(names, n)
		}
	}
	return names, nil
}

// trimRow takes what curl's output of _changes or _all_docs has around a row; skip
// says that a line holds none.
func trimRow(line []byte) (row []byte, skip bool) {
	row = bytes.TrimSuffix(bytes.TrimSpace(line), []byte(","))
	switch {
	case len(row) == 0, row[0] == ']', bytes.HasPrefix(row, []byte(`"last_seq"`)):
		return nil, true
	case row[len(row)-1] == '[' && (bytes.HasPrefix(row, []byte(`{"results"`)) || bytes.HasPrefix(row, []byte(`{"total_rows"`))):
		return nil, true
	case bytes.HasPrefix(row, []byte(`{"last_seq"`)):
		return nil, true
	}
	return row, false
}
