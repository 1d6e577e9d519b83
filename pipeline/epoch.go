package pipeline

import (
	"context"
	"fmt"
	"strings"

	"github.com/couch2hudi/couch2hudi/changes"
	"github.com/couch2hudi/couch2hudi/commitmeta"
	"github.com/couch2hudi/couch2hudi/hudi"
	"github.com/couch2hudi/couch2hudi/reader"
)

// recreated decides what to do about a database that is not the one of the
// checkpoint: refuse, or begin a new epoch, in which every row of the new
// database beats every row of the old one.
func (p *Ingest) recreated(s commitmeta.Source, at hudi.Time) error {
	if !p.o.AcceptRecreated {
		return fmt.Errorf("%w: %s %q was created at %s, the checkpoint of commit %s is of the one created at %s; "+
			"follow it into another table, restore the database, or start with --accept-recreated, "+
			"which marks what the new one does not have as deleted", changes.ErrRecreated,
			p.identity.Kind, p.identity.Name, p.identity.Incarnation, at, s.Incarnation)
	}
	s.Epoch++
	s.Seq, s.At, s.Incarnation, s.PurgeSeq = "", "", p.identity.Incarnation, p.identity.PurgeSeq
	s.Sweep = true
	p.checkpoint.Sources[p.name] = s
	p.position, p.seq = "", ""
	return nil
}

// sweep marks rows of earlier epochs as deleted: what the new database had was
// written in this epoch by the time that the feed was read to its end. It is
// resumable, since a row that was marked is one of this epoch. Bounded by the
// batch's limits, it takes itself off the checkpoint when nothing is left.
func (p *Ingest) sweep(ctx context.Context) error {
	gone, err := p.earlier(ctx)
	if err != nil {
		return fmt.Errorf("look for rows of earlier epochs: %w", err)
	}
	if len(gone) > 0 {
		return p.applyStates(ctx, gone)
	}
	s := p.checkpoint.Sources[p.name]
	s.Sweep = false
	p.checkpoint.Sources[p.name] = s
	p.moved = true
	return nil
}

// earlier finds live rows of the source that are of earlier epochs, at most one batch of
// them.
func (p *Ingest) earlier(ctx context.Context) ([]changes.Change, error) {
	v, err := p.o.Table.View(ctx)
	if err != nil {
		return nil, err
	}
	o := reader.Options{Columns: []string{hudi.ColumnRevOrder}}
	if p.o.Layout.ofMany() {
		o.Where = ofPrefix(p.name)
	}
	var gone []changes.Change
	for r, err := range reader.Snapshot(ctx, v, o) {
		if err != nil {
			return nil, err
		}
		if hudi.Era(r.Order) >= p.epoch() {
			continue
		}
		c, ours := p.change(strings.Clone(r.Key.Record))
		if !ours {
			continue
		}
		c.Deleted, c.Absent = true, true
		gone = append(gone, c)
		if len(gone) >= p.o.MaxRows {
			break
		}
	}
	return gone, nil
}
