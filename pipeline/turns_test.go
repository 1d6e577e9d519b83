package pipeline_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/couch2hudi/couch2hudi/pipeline"
)

// TestTurns: everybody who wants a turn gets one, no more than the workers at a
// time, nobody two at a time, and who wants one while it has one gets another.
func TestTurns(t *testing.T) {
	const names, workers = 40, 3
	var mu sync.Mutex
	taken, now, most, at := map[string]int{}, 0, 0, map[string]bool{}
	var turns *pipeline.Turns
	turns = pipeline.NewTurns(pipeline.TurnsOptions{Workers: workers, Once: true, Take: func(_ context.Context, name string) error {
		mu.Lock()
		if at[name] {
			t.Errorf("%s has two turns", name)
		}
		at[name] = true
		now++
		most = max(most, now)
		taken[name]++
		again := taken[name] < 3
		mu.Unlock()
		if again {
			turns.Want(name, name)
		}
		mu.Lock()
		now--
		at[name] = false
		mu.Unlock()
		return nil
	}})
	for i := range names {
		turns.Want(fmt.Sprint("db-", i))
	}
	if err := turns.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if most > workers {
		t.Errorf("%d at a time", most)
	}
	for i := range names {
		if n := taken[fmt.Sprint("db-", i)]; n != 3 {
			t.Errorf("db-%d had %d turns", i, n)
		}
	}
}

func TestTurnsEnd(t *testing.T) {
	broken := errors.New("broken")
	turns := pipeline.NewTurns(pipeline.TurnsOptions{Take: func(ctx context.Context, name string) error {
		if name == "b" {
			return broken
		}
		<-ctx.Done() // another's error ends it
		return nil
	}})
	turns.Want("a", "b")
	if err := turns.Run(t.Context()); !errors.Is(err, broken) {
		t.Errorf("got %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	turns = pipeline.NewTurns(pipeline.TurnsOptions{Take: func(ctx context.Context, _ string) error {
		cancel()
		<-ctx.Done()
		return ctx.Err()
	}})
	turns.Want("a")
	if err := turns.Run(ctx); err != nil {
		t.Errorf("being stopped: %v", err)
	}
}
