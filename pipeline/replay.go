package pipeline

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/couch2hudi/couch2hudi/changes"
	"github.com/couch2hudi/couch2hudi/commitmeta"
	"github.com/couch2hudi/couch2hudi/table"
)

// backfill is where a backfill stands: an entry of its own in the commits, since
// seqs cannot be compared with the follower's.
type backfill struct {
	// Since is where the backfill began, Seq where it goes on.
	Since string `json:"since"`
	Seq   string `json:"seq"`
	// Incarnation is the database's that Seq is of.
	Incarnation string `json:"incarnation,omitempty"`
	// Filter is the one that it reads through.
	Filter string `json:"filter,omitempty"`
	// Done says that it has read to the end.
	Done bool `json:"done,omitempty"`
}

// replayed turns to the backfill, if one is asked for: it begins at Since, or
// goes on with the one that was stopped, unless the filter is another one now.
func (p *Ingest) replayed(ctx context.Context, v *table.View) error {
	if !p.o.Replay {
		return nil
	}
	p.position = p.o.Since
	text, at, found, err := v.Extra(ctx, commitmeta.ExtraReplay)
	if err != nil {
		return fmt.Errorf("find the last replay: %w", err)
	}
	if !found {
		return nil
	}
	var r backfill
	if err := json.Unmarshal([]byte(text), &r); err != nil {
		return fmt.Errorf("replay of commit %s: %w", at.Time, err)
	}
	if !r.Done && r.Since == string(p.o.Since) && r.Incarnation == p.identity.Incarnation && r.Filter == p.o.Normalizer.Filter() {
		p.position = changes.Position(r.Seq)
	}
	return nil
}

// replayBody makes a commit one of a backfill: it says where that stands, and
// copies the follower's last_seq and checkpoint unchanged, if there are any.
func (p *Ingest) replayBody(b *commitmeta.Body, g gathered) error {
	at, err := json.Marshal(backfill{Since: string(p.o.Since), Seq: string(g.batch.Last),
		Incarnation: p.identity.Incarnation, Filter: p.o.Normalizer.Filter(), Done: g.batch.CaughtUp})
	if err != nil {
		return fmt.Errorf("render replay: %w", err)
	}
	b.Extra[commitmeta.ExtraReplay] = string(at)
	delete(b.Extra, commitmeta.ExtraLastSeq)
	delete(b.Extra, commitmeta.ExtraCheckpoint)
	delete(b.Extra, commitmeta.ExtraLine)
	if s, ok := p.checkpoint.Sources[p.name]; ok || len(p.checkpoint.Sources) > 0 {
		b.Extra[commitmeta.ExtraLastSeq] = s.Seq
		b.Extra[commitmeta.ExtraCheckpoint] = p.checkpoint.Encode()
	}
	return nil
}
