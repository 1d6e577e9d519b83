package pipeline

import (
	"context"
	"errors"
	"fmt"

	"github.com/couch2hudi/couch2hudi/changes"
	"github.com/couch2hudi/couch2hudi/normalize"
	"github.com/couch2hudi/couch2hudi/table"
)

// rowsPerDocument bounds a sample of a feed that is mostly deletions.
const rowsPerDocument = 20

// sample looks at the first documents for the columns of a table that has none
// yet. Nothing but what was seen of each field is kept, so the feed is read again
// from where it began: how large batches are makes no difference to the columns.
func (p *Ingest) sample(ctx context.Context) error {
	v, err := p.o.Table.View(ctx)
	if err != nil {
		return fmt.Errorf("view table: %w", err)
	}
	if _, err := v.Schema(ctx); !errors.Is(err, table.ErrNoSchema) {
		return nil // what else may be wrong shows with the first batch
	}
	s, err := p.o.Normalizer.Survey()
	if err != nil {
		return fmt.Errorf("sample columns: %w", err)
	}
	limit := changes.Limit{Rows: p.budget.rows(p.o.MaxRows), Bytes: p.budget.bytes(p.o.MaxBytes), Wait: p.o.Interval}
	if err := SampleColumns(ctx, p.o.Source, s, p.position, limit, p.o.Sample); err != nil {
		return fmt.Errorf("read %s %q for its columns: %w", p.identity.Kind, p.identity.Name, err)
	}
	if s.Documents() == 0 {
		return nil
	}
	if p.sampled, err = s.Schema(); err != nil {
		return fmt.Errorf("sample columns: %w", err)
	}
	return nil
}

// SampleColumns reads from a position on, a batch at a time, until a survey has
// seen so many documents or there are no more.
func SampleColumns(ctx context.Context, source changes.Source, s *normalize.Survey, from changes.Position, limit changes.Limit, documents int) error {
	most := limit.Rows
	for rows := 0; s.Documents() < documents && rows < rowsPerDocument*documents; {
		limit.Rows = min(most, rowsPerDocument*documents-rows, documents)
		b, err := source.Next(ctx, from, limit)
		if err != nil {
			return err
		}
		s.Add(b)
		rows += len(b.Changes)
		if from = b.Last; b.CaughtUp {
			return nil
		}
	}
	return nil
}
