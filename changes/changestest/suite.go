// Package changestest says, in tests, what a changes.Source promises. Every
// source runs the whole suite.
package changestest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/couch2hudi/couch2hudi/changes"
)

// World is one thing to follow (a database, a topic, a folder), empty at first.
type World interface {
	// Open returns a new source on the world. The suite closes it.
	Open(t *testing.T) changes.Source
	// Put writes the next state of a document, a JSON object.
	Put(t *testing.T, id string, body string)
	// Delete deletes a document that exists.
	Delete(t *testing.T, id string)
}

// hang is how long a call may take before the test is given up. No test waits
// for it when all is well.
const hang = 30 * time.Second

// Run runs the suite; begin makes a new world for each test.
func Run(t *testing.T, begin func(t *testing.T) World) {
	for _, c := range []struct {
		name string
		test func(*testing.T, World)
	}{
		{"an empty source is caught up", empty},
		{"it says what it is", identity},
		{"every change is delivered", everything},
		{"each position resumes after its rows", resume},
		{"a batch keeps to its rows", rowLimit},
		{"a batch keeps to its bytes", byteLimit},
		{"a row that comes later is delivered", later},
		{"an empty batch skips nothing", emptyBatch},
		{"an older position gives the rows again", again},
		{"now is the end", now},
		{"a cancelled call returns", cancelled},
		{"a closed source is closed", closed},
		{"documents stay as they were read", stable},
	} {
		t.Run(c.name, func(t *testing.T) { c.test(t, begin(t)) })
	}
}

// open opens a source and checks at the end that it leaves nothing running.
func open(t *testing.T, w World) changes.Source {
	t.Helper()
	before := runtime.NumGoroutine()
	src := w.Open(t)
	t.Cleanup(func() {
		if err := src.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
		const looks = 300
		for range looks {
			if runtime.NumGoroutine() <= before+serverSlack {
				return
			}
			time.Sleep(10 * time.Millisecond)
		}
		t.Errorf("%d goroutines before the source was opened, %d after it was closed", before, runtime.NumGoroutine())
	})
	return src
}

// serverSlack are goroutines that a server in the same process may keep for a
// connection that was just closed.
const serverSlack = 2

func next(t *testing.T, src changes.Source, after changes.Position, limit changes.Limit) changes.Batch {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), hang)
	defer cancel()
	b, err := src.Next(ctx, after, limit)
	if err != nil {
		t.Fatalf("next after %q: %v", after, err)
	}
	check(t, b)
	return b
}

// check holds for every batch.
func check(t *testing.T, b changes.Batch) {
	t.Helper()
	for _, c := range b.Changes {
		switch {
		case c.Defect != "":
			t.Errorf("%q has a defect: %s", c.ID, c.Defect)
		case c.ID == "" || c.Rev.Generation < 1:
			t.Errorf("a change without id or revision: %+v", c)
		case !c.Deleted && len(c.Body) == 0:
			t.Errorf("%q is live and has no body", c.ID)
		case len(c.Leaves) > 0 && c.Leaves[0] != c.Rev:
			t.Errorf("%q: the first leaf is %v, the revision %v", c.ID, c.Leaves[0], c.Rev)
		}
	}
	if len(b.Changes) > 0 && (b.Last == "" || b.Bytes <= 0) {
		t.Errorf("%d changes, but Last is %q and Bytes %d", len(b.Changes), b.Last, b.Bytes)
	}
}

// drain reads to the end and returns the batches.
func drain(t *testing.T, src changes.Source, after changes.Position, limit changes.Limit) []changes.Batch {
	t.Helper()
	var out []changes.Batch
	const most = 10_000
	for range most {
		b := next(t, src, after, limit)
		out = append(out, b)
		after = b.Last
		if b.CaughtUp {
			return out
		}
	}
	t.Fatal("the source never catches up")
	return nil
}

// names are the changes of batches as "id rev", sorted.
func names(batches ...changes.Batch) []string {
	var out []string
	for _, b := range batches {
		for _, c := range b.Changes {
			out = append(out, fmt.Sprintf("%s %s deleted=%v", c.ID, c.Rev, c.Deleted))
		}
	}
	slices.Sort(out)
	return out
}

func fill(t *testing.T, w World, n int) {
	t.Helper()
	for i := range n {
		w.Put(t, fmt.Sprintf("doc%03d", i), fmt.Sprintf(`{"n":%d}`, i))
	}
}

func empty(t *testing.T, w World) {
	src := open(t, w)
	for _, idle := range []time.Duration{0, 20 * time.Millisecond, 20 * time.Millisecond, 0} {
		b := next(t, src, "", changes.Limit{Idle: idle})
		// A server that did not answer in so short a time was not reached.
		for began := time.Now(); idle > 0 && !b.CaughtUp && len(b.Changes) == 0 && time.Since(began) < hang; {
			b = next(t, src, "", changes.Limit{Idle: idle})
		}
		if len(b.Changes) != 0 || !b.CaughtUp {
			t.Errorf("idle %v: got %v, caught up %v", idle, names(b), b.CaughtUp)
		}
	}
}

func identity(t *testing.T, w World) {
	src := open(t, w)
	var seen []changes.Identity
	for range 2 {
		id, err := src.Identify(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		seen = append(seen, id)
		w.Put(t, "a", `{}`)
	}
	if seen[0].Kind == "" || seen[0].Name == "" || seen[0] != seen[1] {
		t.Errorf("got %+v, then %+v", seen[0], seen[1])
	}
}

// everything: the last change of each document is its last state.
func everything(t *testing.T, w World) {
	const n = 50
	fill(t, w, n)
	w.Put(t, "doc001", `{"n":"second"}`)
	w.Delete(t, "doc002")
	w.Put(t, "id/with \"all\" ünd\n", `{"n":"x"}`)
	last := map[string]changes.Change{}
	for _, b := range drain(t, open(t, w), "", changes.Limit{Rows: 7}) {
		for _, c := range b.Changes {
			last[c.ID] = c
		}
	}
	if len(last) != n+1 {
		t.Errorf("%d documents, want %d", len(last), n+1)
	}
	if c := last["doc001"]; !bytes.Contains(c.Body, []byte(`"second"`)) || c.Rev.Generation < 2 {
		t.Errorf("doc001 is %s at %v", c.Body, c.Rev)
	}
	if !last["doc002"].Deleted {
		t.Error("doc002 is not deleted")
	}
	if _, ok := last["id/with \"all\" ünd\n"]; !ok {
		t.Error("the id with special characters is missing")
	}
}

// resume: what comes after a position is exactly what did not come before it.
func resume(t *testing.T, w World) {
	fill(t, w, 23)
	w.Delete(t, "doc005")
	src := open(t, w)
	batches := drain(t, src, "", changes.Limit{Rows: 4})
	all := names(batches...)
	for i, b := range batches {
		rest := drain(t, src, b.Last, changes.Limit{})
		if got := names(append(slices.Clone(batches[:i+1]), rest...)...); !slices.Equal(got, all) {
			t.Errorf("after batch %d: with what came before, got\n%q\nwant\n%q", i, got, all)
		}
	}
}

func rowLimit(t *testing.T, w World) {
	fill(t, w, 20)
	src := open(t, w)
	for _, rows := range []int{1, 3, 20, 100} {
		batches := drain(t, src, "", changes.Limit{Rows: rows})
		for _, b := range batches {
			if len(b.Changes) > rows {
				t.Errorf("a batch of %d changes, at most %d were asked for", len(b.Changes), rows)
			}
		}
		if got := len(names(batches...)); got != 20 {
			t.Errorf("rows %d: %d changes, want 20", rows, got)
		}
	}
}

// byteLimit: a batch has one row more than fits, at most.
func byteLimit(t *testing.T, w World) {
	fill(t, w, 20)
	src := open(t, w)
	largest := int64(0)
	for _, b := range drain(t, src, "", changes.Limit{Rows: 1}) {
		largest = max(largest, b.Bytes)
	}
	for _, size := range []int64{1, 3 * largest} {
		batches := drain(t, src, "", changes.Limit{Bytes: size})
		for _, b := range batches {
			if b.Bytes > size+largest {
				t.Errorf("a batch of %d bytes, the limit was %d and the largest row %d", b.Bytes, size, largest)
			}
		}
		if got := len(names(batches...)); got != 20 {
			t.Errorf("bytes %d: %d changes, want 20", size, got)
		}
	}
}

// later: a call that waits gets what is written meanwhile, and does not keep
// it for the whole of Idle.
func later(t *testing.T, w World) {
	src := open(t, w)
	after := next(t, src, "", changes.Limit{Idle: 20 * time.Millisecond}).Last
	for i := range 3 {
		id := fmt.Sprintf("late%d", i)
		time.AfterFunc(20*time.Millisecond, func() { w.Put(t, id, `{}`) })
		b := next(t, src, after, changes.Limit{Idle: time.Hour, Wait: 10 * time.Millisecond})
		if len(b.Changes) != 1 || b.Changes[0].ID != id {
			t.Fatalf("got %v, want %s", names(b), id)
		}
		after = b.Last
	}
}

func emptyBatch(t *testing.T, w World) {
	fill(t, w, 3)
	src := open(t, w)
	batches := drain(t, src, "", changes.Limit{})
	after := batches[len(batches)-1].Last
	b := next(t, src, after, changes.Limit{Idle: 20 * time.Millisecond})
	w.Put(t, "more", `{}`)
	for _, p := range []changes.Position{after, b.Last} {
		if got := drain(t, src, p, changes.Limit{}); len(names(got...)) != 1 {
			t.Errorf("got %v, want one change", names(got...))
		}
	}
}

func again(t *testing.T, w World) {
	fill(t, w, 4)
	src := open(t, w)
	first := next(t, src, "", changes.Limit{Rows: 2})
	after := drain(t, src, first.Last, changes.Limit{})
	end := after[len(after)-1].Last
	w.Put(t, "live", `{}`)
	live := next(t, src, end, changes.Limit{Idle: time.Hour, Rows: 1})
	if len(live.Changes) != 1 {
		t.Fatalf("got %v", names(live))
	}
	if got := drain(t, src, first.Last, changes.Limit{}); len(names(got...)) != 3 {
		t.Errorf("from the older position: got %v, want 3 changes", names(got...))
	}
}

func now(t *testing.T, w World) {
	fill(t, w, 5)
	src := open(t, w)
	end, err := src.Now(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	w.Put(t, "new", `{}`)
	if got := drain(t, src, end, changes.Limit{}); len(names(got...)) != 1 || got[0].Changes[0].ID != "new" {
		t.Errorf("got %v, want the new document alone", names(got...))
	}
}

func cancelled(t *testing.T, w World) {
	src := open(t, w)
	for _, wait := range []time.Duration{0, time.Millisecond, 50 * time.Millisecond} {
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(wait, cancel)
		b, err := src.Next(ctx, "", changes.Limit{Idle: time.Hour})
		if !errors.Is(err, context.Canceled) {
			t.Errorf("cancelled after %v: got %v, %v", wait, names(b), err)
		}
	}
	w.Put(t, "a", `{}`)
	if b := next(t, src, "", changes.Limit{}); len(b.Changes) != 1 {
		t.Errorf("after the cancelled calls: got %v", names(b))
	}
}

func closed(t *testing.T, w World) {
	src := open(t, w)
	next(t, src, "", changes.Limit{Idle: 20 * time.Millisecond})
	time.AfterFunc(20*time.Millisecond, func() {
		if err := src.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	for range 2 {
		if _, err := src.Next(t.Context(), "", changes.Limit{Idle: time.Hour}); err == nil {
			t.Error("next of a closed source: no error")
		}
	}
	if err := src.Close(); err != nil {
		t.Errorf("close twice: %v", err)
	}
}

// stable: reading on does not touch what was handed out.
func stable(t *testing.T, w World) {
	fill(t, w, 60)
	type held struct {
		c    changes.Change
		copy []byte
		id   string
	}
	var all []held
	src := open(t, w)
	after := changes.Position("")
	for {
		b := next(t, src, after, changes.Limit{Rows: 7})
		for _, c := range b.Changes {
			all = append(all, held{c: c, copy: bytes.Clone(c.Body), id: string([]byte(c.ID))})
		}
		after = b.Last
		if b.CaughtUp {
			break
		}
	}
	for _, h := range all {
		if !bytes.Equal(h.c.Body, h.copy) || h.c.ID != h.id {
			t.Errorf("%q changed after it was read: %s, was %s", h.id, h.c.Body, h.copy)
		}
	}
}
