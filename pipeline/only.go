package pipeline

import (
	"context"
	"fmt"
	"slices"

	"github.com/couch2hudi/couch2hudi/changes"
)

// only is a source as one of several tables sees it.
type only struct {
	changes.Source
	routes *routes
	table  int
}

// Only is the Feed's source of a group as one of its tables sees it: to look at what
// the table's columns will be, or to compare the two. Of the tables their Name and Values count.
func Only(o GroupOptions, name string) (changes.Source, error) {
	r, err := o.routes()
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(o.Tables, func(t Routed) bool { return t.Name == name })
	if i < 0 {
		return nil, fmt.Errorf("%w: there is no table %q", ErrRoutes, name)
	}
	s := &only{Source: o.Feed.Source, routes: r, table: i}
	r.first = false
	if p, ok := o.Feed.Source.(changes.Purger); ok {
		return &onlyPurger{s, p}, nil
	}
	return s, nil
}

// onlyPurger is only of a source that can be asked for documents.
type onlyPurger struct {
	*only
	purger changes.Purger
}

// Purged implements changes.Purger.
func (s *onlyPurger) Purged(ctx context.Context, after string) ([]string, string, error) {
	return s.purger.Purged(ctx, after)
}

// Read implements changes.Purger.
func (s *onlyPurger) Read(ctx context.Context, ids []string) ([]changes.Change, error) {
	cs, err := s.purger.Read(ctx, ids)
	if err != nil {
		return nil, err
	}
	return s.routes.only(s.table, cs)
}

// Gap implements changes.Gapped.
func (s *only) Gap() error {
	if g, knows := s.Source.(changes.Gapped); knows {
		return g.Gap()
	}
	return nil
}

// Next implements changes.Source.
func (s *only) Next(ctx context.Context, after changes.Position, limit changes.Limit) (changes.Batch, error) {
	b, err := s.Source.Next(ctx, after, limit)
	if err != nil {
		return b, err
	}
	p, err := s.routes.split(b)
	if err != nil {
		return changes.Batch{}, err
	}
	return p.tables[s.table], nil
}
