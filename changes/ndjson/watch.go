package ndjson

import (
	"io/fs"
	"sync"
	"time"
)

// sighting is how a file looked, and since when it has.
type sighting struct {
	size     int64
	modified time.Time
	since    time.Time
}

// watch tells files that are still being copied from those that stay as they are.
type watch struct {
	clock func() time.Time

	mu   sync.Mutex
	seen map[string]sighting
}

// still is how long a file has looked as it does now.
func (w *watch) still(name string, info fs.FileInfo) time.Duration {
	now := w.clock()
	w.mu.Lock()
	defer w.mu.Unlock()
	s, ok := w.seen[name]
	if !ok || s.size != info.Size() || !s.modified.Equal(info.ModTime()) {
		s = sighting{size: info.Size(), modified: info.ModTime(), since: now}
		w.seen[name] = s
	}
	return now.Sub(s.since)
}

// forget drops what is known of a file.
func (w *watch) forget(name string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.seen, name)
}
