//go:build oracle

package e2e

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/couch2hudi/couch2hudi/storage"
	"github.com/couch2hudi/couch2hudi/storage/storagetest"
)

// TestHDFS is about tables in HDFS. One cluster serves all its parts.
func TestHDFS(t *testing.T) {
	d := startHDFS(t)
	t.Run("conformance", func(t *testing.T) { hdfsConformance(t, d) })
	t.Run("kills", func(t *testing.T) { hdfsKills(t, d) })
	t.Run("crashes", func(t *testing.T) { hdfsCrashes(t, d) })
	t.Run("table", func(t *testing.T) { hdfsTable(t, d) })
	t.Run("outages", func(t *testing.T) { hdfsOutages(t, d) })
}

// hdfsConformance: a real HDFS does what the fake of the unit tests does.
func hdfsConformance(t *testing.T, d *dfs) {
	var folders atomic.Int64
	storagetest.RunWith(t, func(t *testing.T) storage.Driver {
		return d.open(t, fmt.Sprintf("/suite/%d", folders.Add(1)))
	}, storagetest.Options{Refuses: func(name string) bool { return strings.Contains(name, ":") }, Rounds: 3})
}

// hdfsOutages: what is put while nodes restart, or the file system is in safe mode,
// is there once, and whole.
func hdfsOutages(t *testing.T, d *dfs) {
	b := storage.New(d.open(t, "/outages"), nil)
	defer func() { _ = b.Close() }()
	put := make(chan int) // how many there are
	quit := make(chan struct{})
	go func() {
		defer close(put)
		for n := 0; ; n++ {
			if _, err := b.PutIfAbsent(t.Context(), fmt.Sprintf("o/%04d", n), []byte(strings.Repeat("x", n))); err != nil {
				t.Errorf("object %d: %v", n, err)
				return
			}
			select {
			case put <- n + 1:
			case <-quit:
				return
			}
		}
	}()
	more := func() {
		for range 3 {
			if _, ok := <-put; !ok {
				t.Fatal("the writer gave up")
			}
		}
	}
	for _, outage := range [][]string{{"safe", "unsafe"}, {"stop", "start"}, {"restart"}} {
		more()
		for _, what := range outage {
			d.order(t, what)
		}
	}
	more()
	close(quit)
	for range put { // until it has ended
	}
	seen := 0
	for o, err := range b.List(t.Context(), "") {
		if err != nil {
			t.Fatal(err)
		}
		if o.Name != fmt.Sprintf("o/%04d", seen) || o.Size != int64(seen) {
			t.Errorf("object %d is %+v", seen, o)
		}
		seen++
	}
	if seen < 12 {
		t.Errorf("%d objects", seen)
	}
}
