package storagetest

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/couch2hudi/couch2hudi/storage"
)

// wantOneWinner races for names, one after another, and checks that each was
// won once and holds the winner's content.
func wantOneWinner(t *testing.T, b *storage.Bucket, rounds int, try func(name string, content []byte) error) {
	t.Helper()
	for round := range rounds {
		name := fmt.Sprintf("race/%d", round)
		contents := make([]string, racers)
		var mu sync.Mutex
		var winners []int
		race(racers, func(i int) {
			contents[i] = string(bytes.Repeat([]byte{byte('a' + i)}, 1000+i))
			switch err := try(name, []byte(contents[i])); {
			case err == nil:
				mu.Lock()
				winners = append(winners, i)
				mu.Unlock()
			case !errors.Is(err, storage.ErrExist):
				t.Error(err)
			}
		})
		if len(winners) != 1 {
			t.Fatalf("%s: %d of %d racers won", name, len(winners), racers)
		}
		wantContent(t, b, name, contents[winners[0]])
	}
}

func testRaceAbsent(t *testing.T, d storage.Driver, rounds int) {
	b := storage.New(d, nil)
	wantOneWinner(t, b, rounds, func(name string, content []byte) error {
		_, err := b.PutIfAbsent(t.Context(), name, content)
		return err
	})
}

func testRaceUploads(t *testing.T, d storage.Driver, rounds int) {
	b := storage.New(d, nil)
	wantOneWinner(t, b, rounds, func(name string, content []byte) error {
		up, err := b.Create(t.Context(), name, storage.Cond{Absent: true})
		if err != nil {
			return err
		}
		if _, err := up.Write(content); err != nil {
			return errors.Join(err, up.Abort())
		}
		_, err = up.Commit()
		return err
	})
}

// count adds one to the number in an object, as one whose put is conditional.
func count(t *testing.T, b *storage.Bucket, name string) {
	const patience = 100
	for tries := 1; ; tries++ {
		data, o, err := b.ReadVersion(t.Context(), name, limit)
		if errors.Is(err, storage.ErrChanged) && tries < patience {
			continue // others were quicker than it can be read, again and again
		}
		if err != nil {
			t.Error(err)
			return
		}
		n, err := strconv.Atoi(string(data))
		if err != nil {
			t.Error(err)
			return
		}
		_, err = b.PutIfMatch(t.Context(), name, []byte(strconv.Itoa(n+1)), o.ETag)
		if err == nil {
			return
		}
		if !errors.Is(err, storage.ErrChanged) {
			t.Error(err)
			return
		}
	}
}

func testRaceMatch(t *testing.T, d storage.Driver) {
	b := storage.New(d, nil)
	must[storage.Object](t)(b.Put(t.Context(), "f/counter", []byte("0")))
	const each = 5
	race(racers/2, func(int) {
		for range each {
			count(t, b, "f/counter")
		}
	})
	wantContent(t, b, "f/counter", strconv.Itoa(each*racers/2))
}

// testRaceMixed overwrites without a condition while others match: a version
// that was put must not vanish under a match of an older one. Every matcher
// replaces "x" by "y", so two matches in a row of the same "x" are a fault.
func testRaceMixed(t *testing.T, d storage.Driver) {
	b, ctx := storage.New(d, nil), t.Context()
	must[storage.Object](t)(b.Put(ctx, "f/o", []byte("x0")))
	var matched sync.Map
	race(8, func(i int) {
		for round := range 20 {
			if i%4 == 0 {
				if _, err := b.Put(ctx, "f/o", fmt.Appendf(nil, "x%d-%d", i, round)); err != nil {
					t.Error(err)
				}
				continue
			}
			o, err := b.Stat(ctx, "f/o")
			if err != nil {
				t.Error(err)
				return
			}
			_, err = b.PutIfMatch(ctx, "f/o", fmt.Appendf(nil, "y%d-%d", i, round), o.ETag)
			if err == nil {
				if _, twice := matched.LoadOrStore(o.ETag, true); twice {
					t.Errorf("the version %q was replaced twice", o.ETag)
				}
			} else if !errors.Is(err, storage.ErrChanged) {
				t.Error(err)
			}
		}
	})
}

// testNoMixing overwrites while others read in two halves: what they read is
// one version, or they are told.
func testNoMixing(t *testing.T, d storage.Driver) {
	b, ctx := storage.New(d, nil), t.Context()
	const size = 64 << 10
	version := func(i int) []byte { return bytes.Repeat([]byte{byte('a' + i%26)}, size) }
	must[storage.Object](t)(b.Put(ctx, "o", version(0)))
	reader := must[*storage.Reader](t)(b.Open(ctx, "o"))
	defer closeAll(t, reader)
	must[int](t)(reader.ReadAt(make([]byte, size/2), 0))
	must[storage.Object](t)(b.Put(ctx, "o", version(1)))
	// A Reader may have what it read before; the driver itself has not.
	second := make([]byte, size/2)
	if _, err := reader.ReadAt(second, size/2); !errors.Is(err, storage.ErrChanged) && (err != nil || !bytes.Equal(second, version(0)[:size/2])) {
		t.Errorf("the second half, after an overwrite: %v", err)
	}
	_, err := d.ReadAt(ctx, reader.Object(), second, size/2)
	wantErr(t, "the driver's second half, after an overwrite", err, storage.ErrChanged)
	var whole, told atomic.Int64
	var done atomic.Bool
	race(4, func(i int) {
		if i == 0 {
			defer done.Store(true)
			for n := 1; n <= 40; n++ {
				if _, err := b.Put(ctx, "o", version(n)); err != nil {
					t.Error(err)
				}
			}
			return
		}
		for ended := false; !ended; {
			ended = done.Load() // once more after the last put
			r, err := b.Open(ctx, "o")
			if err != nil {
				t.Error(err)
				return
			}
			p := make([]byte, size)
			for half := 0; half < size && err == nil; half += size / 2 {
				_, err = r.ReadAt(p[half:half+size/2], int64(half))
			}
			switch {
			case errors.Is(err, storage.ErrChanged):
				told.Add(1)
			case err != nil:
				t.Error(err)
			case !bytes.Equal(p, bytes.Repeat(p[:1], size)):
				t.Error("two versions in one read")
			default:
				whole.Add(1)
			}
		}
	})
	if whole.Load() == 0 {
		t.Errorf("no read succeeded; %d were told of a change", told.Load())
	}
}
