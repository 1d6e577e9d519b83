package pipeline

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/couch2hudi/couch2hudi/changes"
	"github.com/couch2hudi/couch2hudi/hudi"
	"github.com/couch2hudi/couch2hudi/index"
)

// merged gives each document, in the order of ids, to a judge.
func (v *verifier) merged(ctx context.Context, judge func(context.Context, *document) error) error {
	end := func() error {
		if !v.now.begun {
			return nil
		}
		return judge(ctx, &v.now)
	}
	err := v.sorter.All(func(_ int, r *hudi.Record) error {
		if !v.now.begun || r.Key.Record != v.now.id {
			if err := end(); err != nil {
				return err
			}
			v.now = document{id: strings.Clone(r.Key.Record), begun: true, rows: v.now.rows[:0]}
		}
		v.now.take(entry{flags: r.Row[0].Int(), order: r.Order, rev: strings.Clone(r.Row[1].Text()),
			partition: strings.Clone(r.Row[2].Text()), hash: strings.Clone(r.Row[3].Text())})
		return nil
	})
	if err == nil {
		err = end()
	}
	v.now = document{}
	return err
}

// take adds an entry to a document. Of several in the source the newest counts, of
// equal ones the later.
func (d *document) take(e entry) {
	if e.is(isDoubt) {
		d.doubted = true
		e.flags &^= isDoubt
	}
	switch {
	case e.flags&isMoving != 0:
		d.moving = true
	case e.flags&fromTable != 0:
		d.rows = append(d.rows, e)
	case !d.inSource || e.flags&isRejected != 0 || e.order >= d.source.order && !d.source.is(isRejected):
		d.source, d.inSource = e, true
	}
}

func (e *entry) is(flag int32) bool { return e.flags&flag != 0 }

// judge counts a document as it stands.
func (v *verifier) judge(ctx context.Context, d *document) error {
	if d.inSource {
		v.out.Documents++
	}
	row := v.pick(d)
	diff := v.compare(d, row)
	switch {
	case d.inSource && d.source.is(isRejected):
		v.out.Rejected++
		return nil
	case diff == "":
		if d.inSource {
			v.out.Equal++
		}
		return nil
	case v.coming(d, row):
		v.out.Moving++
		return nil
	}
	v.out.Different[diff]++
	if v.out.Different[diff] <= int64(v.o.Samples) {
		sample := Sample{Difference: diff, ID: d.id, Table: row.side()}
		if d.inSource {
			sample.Source = d.source.side()
		}
		v.out.Samples = append(v.out.Samples, sample)
	}
	if v.o.Found == nil {
		return nil
	}
	return v.o.Found(ctx, diff, d.id)
}

// coming says that run has yet to bring what differs: it was shown after the table's
// position, and is newer than the row. A feed that goes back shows old states there, too, which
// say nothing of a row that is not older; only a purge lets such a row fall behind.
func (v *verifier) coming(d *document, row *entry) bool {
	return d.changed || d.moving && (row == nil || !d.inSource || row.order < d.source.order || v.purged == nil || v.purged[d.id])
}

func (e *entry) side() *Side {
	if e == nil {
		return nil
	}
	s := &Side{Rev: e.rev, Order: e.order, Deleted: e.is(isDead)}
	if !e.is(anyPartition) {
		s.Partition = e.partition
	}
	return s
}

// pick is the row that stands for the document: where keys are unique in a
// partition alone, the one in the document's; else a live one, and the newest.
func (v *verifier) pick(d *document) *entry {
	var best *entry
	for i := range d.rows {
		e := &d.rows[i]
		if v.o.Scope == index.Partition && d.inSource && !d.source.is(anyPartition) && e.partition != d.source.partition {
			continue
		}
		if best == nil || best.is(isDead) && !e.is(isDead) || best.is(isDead) == e.is(isDead) && e.order > best.order {
			best = e
		}
	}
	return best
}

// compare says how a document and its row differ, "" for not at all.
func (v *verifier) compare(d *document, row *entry) Difference {
	live := row != nil && !row.is(isDead)
	switch s := &d.source; {
	case !d.inSource || s.is(isAway):
		switch {
		case !live:
			return ""
		case d.inSource && s.is(isHard):
			return Resurrected
		}
		return Extra
	case row == nil:
		return Missing
	case live && s.is(isDead):
		return Resurrected
	case row.order < s.order:
		return Stale
	case row.order > s.order || row.rev != s.rev || row.is(isDead) != s.is(isDead) || row.hash != s.hash:
		return Wrong
	case v.o.Scope == index.Partition:
		return ""
	case len(d.rows) > 1, !s.is(anyPartition) && !v.o.Stay && row.partition != s.partition:
		return WrongPartition
	}
	return ""
}

// Repair reads documents again and commits their present states, whatever the table
// holds of them: in a new era where it claims a newer one. The source must be a
// changes.Purger, and Options.Repairs set.
func (p *Ingest) Repair(ctx context.Context, ids []string) error {
	purger, ok := p.o.Source.(changes.Purger)
	if !ok {
		return fmt.Errorf("%w: a %s source does not give single documents", ErrNoRepair, p.identity.Kind)
	}
	rewrite := p.o.Rewrite
	p.o.Rewrite = true
	defer func() { p.o.Rewrite = rewrite }()
	for part := range slices.Chunk(ids, changes.ReadAtOnce) {
		states, err := purger.Read(ctx, part)
		if err != nil {
			return fmt.Errorf("read documents of %q again: %w", p.identity.Name, err)
		}
		for i := range states {
			states[i].Purged = true
		}
		if err := p.applyStates(ctx, states); err != nil {
			return fmt.Errorf("repair documents of %q: %w", p.identity.Name, err)
		}
	}
	return nil
}
