package pipeline

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/couch2hudi/couch2hudi/changes"
)

// serve does what the tables' services have to do between two commits.
func (g *Group) serve(ctx context.Context) error {
	for _, p := range g.tables {
		if err := p.serve(ctx); err != nil {
			return err
		}
	}
	return nil
}

// wait is the next batch; meanwhile the services are served.
func (g *Group) wait(ctx context.Context) (gathered, error) {
	for {
		b, ok, err := g.feed.next(ctx, g.tick)
		if ok || err != nil {
			return b, err
		}
		if err := g.serve(ctx); err != nil {
			return gathered{}, err
		}
	}
}

// startServices begins to serve; stop ends what runs in the background.
func (g *Group) startServices() (stop func()) {
	every := time.Duration(0)
	for _, p := range g.tables {
		if s := p.o.Services; s != nil && (every == 0 || s.Every() < every) {
			every = s.Every()
		}
	}
	if every == 0 {
		return func() {}
	}
	t := time.NewTicker(every)
	g.tick = t.C
	return func() {
		t.Stop()
		for _, p := range g.tables {
			if p.o.Services != nil {
				p.o.Services.Stop()
			}
		}
	}
}

// acknowledge tells the source what is in completed commits of all tables: up to
// where the one stands that is behind.
func (g *Group) acknowledge(ctx context.Context) error {
	a, ok := g.o.Feed.Source.(changes.Acknowledged)
	if !ok || g.o.Feed.Replay {
		return nil
	}
	last := g.tables[0].stood
	for _, p := range g.tables {
		if p.stood.Name != g.line.Name {
			return nil // it has no commit on this line yet
		}
		if p.stood.Step < last.Step {
			last = p.stood
		}
	}
	if last.At == g.told || last.At == "" {
		return nil
	}
	g.told = last.At
	if err := a.Committed(ctx, last.At); err != nil {
		return fmt.Errorf("tell %s %q what is committed: %w", g.tables[0].identity.Kind, g.tables[0].identity.Name, err)
	}
	return nil
}

// sharedSource hides from a table what the source is told by its group alone.
type sharedSource struct{ changes.Source }

// sharedPurger asks once for the purges that every table of a group asks for.
type sharedPurger struct {
	changes.Purger
	mu    sync.Mutex
	found map[string]purged
}

type purged struct {
	ids []string
	seq string
}

// Purged implements changes.Purger.
func (s *sharedPurger) Purged(ctx context.Context, after string) ([]string, string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p, ok := s.found[after]; ok {
		return p.ids, p.seq, nil
	}
	ids, seq, err := s.Purger.Purged(ctx, after)
	if err != nil {
		return nil, "", err
	}
	if s.found == nil {
		s.found = map[string]purged{}
	}
	s.found[after] = purged{ids, seq}
	return ids, seq, nil
}

// forget lets the source be asked again.
func (s *sharedPurger) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.found)
}
