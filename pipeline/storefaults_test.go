//go:build stores

package pipeline_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/couch2hudi/couch2hudi/internal/s3fake"
	"github.com/couch2hudi/couch2hudi/storage"
	"github.com/couch2hudi/couch2hudi/storage/cloud"
)

// s3Lake is a lake in a bucket of S3, where every request can go wrong. Its base files
// go up in parts.
type s3Lake struct {
	*lake
	store *s3fake.Server
	// options are those of the next processes.
	options cloud.Options
}

func newS3Lake(t *testing.T, seed uint64) *s3Lake {
	t.Helper()
	s, err := s3fake.Start(s3fake.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	const part = 4 << 10
	l := &s3Lake{store: s, options: cloud.Options{PartBytes: part, Patience: time.Hour, Sleep: hurry}}
	l.lake = newLake(t, seed, func(clock func() time.Time) (storage.Driver, error) {
		o := l.options
		o.Lease.Clock = clock
		return cloud.Open(context.Background(), cloud.SchemeS3, s3fake.Bucket, "lake/docs", s.Query(), &o)
	})
	return l
}

// under is a start with those faults; they are over afterwards.
func (l *s3Lake) under(f *s3fake.Faults) error {
	l.t.Helper()
	l.store.Wrap(f.Wrap)
	defer l.store.Wrap(nil)
	return l.start()
}

// swept says that one more start, which takes all uploads in parts for old, leaves none,
// and no markers and heartbeats.
func (l *s3Lake) swept(what string) {
	l.t.Helper()
	before := l.options
	l.options.Stale = time.Nanosecond
	l.settled(what)
	l.options = before
	keys, err := l.store.Unfinished()
	if err != nil || len(keys) > 0 {
		l.t.Errorf("%s: uploads in parts were left: %q, %v", what, keys, err)
	}
}

// The first try of each request goes wrong, of one kind after the other, in each way.
// With patience that is not seen.
func TestStoreFirstTries(t *testing.T) {
	for n, way := range s3fake.Ways() {
		t.Run(string(way), func(t *testing.T) {
			l := newS3Lake(t, uint64(n))
			every := 1
			if way.Waits() {
				l.options.Timeout, every = 100*time.Millisecond, max(1, *stride/2)
			}
			hit := 0
			for _, kind := range s3fake.Kinds() {
				if !way.Fits(kind) {
					continue
				}
				l.round(20)
				f := s3fake.FirstTries(kind, way, every)
				if err := l.under(f); err != nil {
					t.Fatalf("%s: %v", kind, err)
				}
				l.whole(string(kind))
				hit += f.Hit()
			}
			l.swept("in the end")
			t.Logf("%d requests went wrong", hit)
		})
	}
}

// Requests go wrong at random, so many that a process with little patience gives up
// now and then: started again and again each round is through in the end.
func TestStoreStorm(t *testing.T) {
	ways := slices.DeleteFunc(s3fake.Ways(), s3fake.Way.Waits)
	for seed := range uint64(*storms) {
		l := newS3Lake(t, seed)
		l.options.Patience = 200 * time.Millisecond
		r := rand.New(rand.NewPCG(seed, 17))
		hits := 0
		for round := range 6 {
			l.round(20)
			for try := 1; ; try++ {
				f := s3fake.Storm(rand.New(rand.NewPCG(seed, r.Uint64())), 0.2/float64(try), ways...)
				err := l.under(f)
				hits += f.Hit()
				if err == nil {
					break
				}
				if try == 100 {
					t.Fatalf("seed %d, round %d: %v", seed, round, err)
				}
			}
			l.whole(fmt.Sprintf("seed %d, round %d", seed, round))
		}
		l.swept(fmt.Sprint("seed ", seed))
		t.Logf("seed %d: %d faults, %d starts for 6 rounds", seed, hits, l.starts)
	}
}

// From one request on the store is down, for longer than a process has patience: the
// process ends and says so. Started again it goes on.
func TestStoreDown(t *testing.T) {
	ways := []s3fake.Way{s3fake.Before, s3fake.CutBefore, s3fake.CutAfter, s3fake.SlowDown}
	var l *s3Lake
	for n, at := 1, 0; ; n, at = n+*stride, at+1 {
		const rounds = 10 // of one table: a larger one asks for more in each
		if at%rounds == 0 {
			if l != nil {
				l.swept("in the end")
			}
			l = newS3Lake(t, 3)
			l.round(20)
			l.must(nil, l.start())
			l.whole("at first")
		}
		l.round(20)
		patience := l.options.Patience
		l.options.Patience = time.Millisecond
		way := ways[n%len(ways)]
		what := fmt.Sprintf("down from request %d on, %s", n, way)
		f := s3fake.Down(n, 0, way)
		err := l.under(f)
		l.options.Patience = patience
		if f.Hit() == 0 {
			l.must(nil, err)
			break
		}
		if err == nil {
			l.whole(what) // there was nothing to do any more but to let go of the lease
			continue
		}
		for _, says := range []string{"s3://" + s3fake.Bucket, "lake/docs", "tried"} {
			if !strings.Contains(err.Error(), says) {
				t.Errorf("%s: the error does not say %q: %v", what, says, err)
			}
		}
		var next interface{ Hint() string }
		if !errors.As(err, &next) || !strings.Contains(next.Hint(), "store can be reached") {
			t.Errorf("%s: the error does not say what to do: %v", what, err)
		}
		if err := l.start(); err != nil {
			t.Fatalf("%s: started again: %v", what, err)
		}
		l.whole(what)
	}
	l.swept("in the end")
}

// One request goes wrong, and nobody tries it again.
func TestStoreOneTry(t *testing.T) {
	for i, kind := range s3fake.Kinds() {
		for j, way := range s3fake.Ways() {
			if way.Waits() || !way.Fits(kind) {
				continue
			}
			l := newS3Lake(t, 5)
			l.options.Patience = time.Nanosecond
			step := *stride * 2
			if *stride == 1 {
				step = 1
			}
			for n := 1 + (i*5+j*3)%step; ; n += step {
				what := fmt.Sprintf("%s %d, %s", kind, n, way)
				l.round(15)
				f := s3fake.One(kind, n, way)
				err := l.under(f)
				if err != nil && f.Hit() == 0 {
					t.Fatalf("%s: %v", what, err)
				}
				if err != nil {
					if err := l.start(); err != nil {
						t.Fatalf("%s: started again: %v", what, err)
					}
				}
				l.whole(what)
				if f.Hit() == 0 {
					break
				}
			}
			l.swept(string(kind))
		}
	}
}
