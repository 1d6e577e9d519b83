package main

import (
	"cmp"
	"context"
	"fmt"

	"github.com/couch2hudi/couch2hudi/changes"
	"github.com/couch2hudi/couch2hudi/config"
	"github.com/couch2hudi/couch2hudi/normalize"
)

// masked is a source whose documents are masked before they leave the process in
// another way than by a table.
type masked struct {
	changes.Purger
	n *normalize.Normalizer
}

// Next implements changes.Source.
func (m masked) Next(ctx context.Context, after changes.Position, limit changes.Limit) (changes.Batch, error) {
	b, err := m.Purger.Next(ctx, after, limit)
	b.Changes = m.n.Mask(b.Changes)
	return b, err
}

// Read implements changes.Purger.
func (m masked) Read(ctx context.Context, ids []string) ([]changes.Change, error) {
	cs, err := m.Purger.Read(ctx, ids)
	return m.n.Mask(cs), err
}

// withMasks is a source with the masks of the config's columns. Those of single tables
// are refused: what leaves here is for all of them.
func withMasks(source changes.Source, cfg config.Config, command string) (changes.Source, error) {
	all := masksOf(&cfg)
	if len(cfg.Tables) > 0 {
		tables, err := cfg.Several()
		if err != nil {
			return nil, err
		}
		for i := range tables {
			for path := range masksOf(&tables[i]) {
				if !all[path] {
					return nil, &usageError{err: fmt.Errorf("table %q masks %s, which would leave here as it is: declare the mask under columns, for all tables", tables[i].Table.Name, path), command: command}
				}
			}
		}
	}
	purger, ok := source.(changes.Purger)
	if !ok || len(all) == 0 {
		return source, nil
	}
	n, err := newNormalizer(cfg, "masked")
	if err != nil {
		return nil, err
	}
	return masked{purger, n}, nil
}

// masksOf are the paths that a config masks.
func masksOf(cfg *config.Config) map[string]bool {
	paths := map[string]bool{}
	for _, d := range cfg.Columns.Declare {
		if d.Mask != "" && d.Mask != normalize.MaskNone {
			paths[cmp.Or(d.Path, d.Name)] = true
		}
	}
	return paths
}
