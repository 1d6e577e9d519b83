package pipeline

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/couch2hudi/couch2hudi/commitmeta"
	"github.com/couch2hudi/couch2hudi/table"
)

// FilterNote is what a commit says of the filter that its documents came through. It
// is there as long as there is a filter, or rows that came through another one.
type FilterNote struct {
	// Filter is the expression, empty for none.
	Filter string `json:"filter"`
	// Mixed says that rows of the table came through another filter, or none: what the
	// present one would leave out stays until its document changes, and what only it lets
	// in is missing until then.
	Mixed bool `json:"mixed,omitempty"`
	// Before is the filter before the present one; it says something with Mixed.
	Before string `json:"before,omitempty"`
}

// ReadFilter is what our newest commit says of a filter.
func ReadFilter(ctx context.Context, v *table.View) (FilterNote, error) {
	text, at, err := ownNote(ctx, v, commitmeta.ExtraFilter)
	if err != nil {
		return FilterNote{}, fmt.Errorf("find the last filter: %w", err)
	}
	var n FilterNote
	if text == "" {
		return n, nil
	}
	if err := json.Unmarshal([]byte(text), &n); err != nil {
		return n, fmt.Errorf("filter of commit %s: %w", at, err)
	}
	return n, nil
}

// Next is the note under a filter: mixed when a table that has commits had another.
func (n FilterNote) Next(filter string, begun bool) FilterNote {
	if begun && n.Filter != filter {
		return FilterNote{Filter: filter, Mixed: true, Before: n.Filter}
	}
	n.Filter = filter
	return n
}

// refilter compares the run's filter with the table's.
func (p *Ingest) refilter(ctx context.Context, v *table.View) error {
	had, err := ReadFilter(ctx, v)
	if err != nil {
		return err
	}
	p.filter = had.Next(p.o.Normalizer.Filter(), v.Last() != "")
	if p.filter.Mixed && p.o.Events.Refiltered != nil {
		p.o.Events.Refiltered(p.filter)
	}
	return nil
}

// noteFilter puts the note into a commit's extra metadata: where there is nothing to
// say, and never was, not at all. At the end of a replay from the beginning all rows
// came through the one filter.
func (p *Ingest) noteFilter(extra map[string]string, g gathered) error {
	n := p.filter
	if n == (FilterNote{}) {
		return nil
	}
	if p.o.Replay && !p.o.Rest && g.batch.CaughtUp && p.o.Since == "" {
		n = FilterNote{Filter: n.Filter}
	}
	text, err := json.Marshal(n)
	if err != nil {
		return fmt.Errorf("render the filter: %w", err)
	}
	extra[commitmeta.ExtraFilter] = string(text)
	return nil
}
