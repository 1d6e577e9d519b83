package pipeline

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/couch2hudi/couch2hudi/changes"
	"github.com/couch2hudi/couch2hudi/commitmeta"
	"github.com/couch2hudi/couch2hudi/hudi"
	"github.com/couch2hudi/couch2hudi/normalize"
	"github.com/couch2hudi/couch2hudi/table"
)

// restore finds where the last commit left off.
func (p *Ingest) restore(ctx context.Context, v *table.View) error {
	at, err := p.remember(ctx, v)
	if err != nil {
		return err
	}
	p.position = p.o.Since
	if at == "" {
		return p.replayed(ctx, v)
	}
	if p.o.Repairs {
		if p.last, _, _, err = v.Extra(ctx, commitmeta.ExtraSource); err == nil {
			p.seq, _, _, err = v.Extra(ctx, commitmeta.ExtraLastSeq)
		}
		return err
	}
	s, known := p.checkpoint.Sources[p.name]
	if !known {
		return p.replayed(ctx, v)
	}
	if s.Kind != p.identity.Kind || other(s.Incarnation, p.identity.Incarnation) {
		return p.recreated(s, at)
	}
	p.identity.PurgeSeq = s.PurgeSeq
	p.position, p.seq = changes.Position(s.Position()), s.Seq
	return p.replayed(ctx, v)
}

// other says whether two incarnations are known to differ.
func other(a, b string) bool { return a != "" && b != "" && a != b }

// remember reads what the table pins and the last checkpoint, and says of which commit
// that is: "" without one.
func (p *Ingest) remember(ctx context.Context, v *table.View) (hudi.Time, error) {
	if err := p.checkPinned(ctx, v); err != nil {
		return "", err
	}
	if err := p.refilter(ctx, v); err != nil {
		return "", err
	}
	p.checkpoint = commitmeta.Checkpoint{Version: 1, Sources: map[string]commitmeta.Source{}}
	text, at, found, err := v.Extra(ctx, commitmeta.ExtraCheckpoint)
	if err != nil {
		return "", fmt.Errorf("find the last checkpoint: %w", err)
	}
	if !found {
		return "", nil
	}
	c, err := commitmeta.DecodeCheckpoint(text)
	if err != nil {
		return "", fmt.Errorf("checkpoint of commit %s: %w", at.Time, err)
	}
	if p.checkpoint = c; c.Sources == nil {
		p.checkpoint.Sources = map[string]commitmeta.Source{}
	}
	return at.Time, nil
}

// checkPinned compares what the table was created with to what is asked for.
func (p *Ingest) checkPinned(ctx context.Context, v *table.View) error {
	have, err := ReadPins(ctx, v)
	if err != nil {
		return err
	}
	if err := errors.Join(have.Check(p.o.pins()), have.CheckFiles(ctx, v, p.o.pins())); err != nil {
		return err
	}
	if err := p.checkColumns(ctx, v); err != nil {
		return err
	}
	if len(have.stale) == 0 || p.dry {
		return nil
	}
	// A rebucketing died after its commit, which is what counts.
	if err := p.o.Table.UpdateProperties(ctx, have.stale); err != nil {
		return fmt.Errorf("bring hoodie.properties up to %s: %w", have.Where, err)
	}
	return nil
}

// checkColumns compares the table's columns to those that are declared, so that
// a run fails before it reads anything.
func (p *Ingest) checkColumns(ctx context.Context, v *table.View) error {
	schema, err := v.Schema(ctx)
	if errors.Is(err, table.ErrNoSchema) {
		return nil
	}
	if err == nil {
		err = p.o.Normalizer.Check(schema)
	}
	if err != nil {
		return fmt.Errorf("compare the table's columns: %w", err)
	}
	if p.masked, err = CheckMasks(ctx, v, p.o.Normalizer); err != nil {
		return fmt.Errorf("compare the table's masks: %w", err)
	}
	return nil
}

// CheckMasks holds the masks that our newest commit notes against those that are
// declared now: an error of normalize.ErrDeclared where one was lost. It says
// whether there is such a note.
func CheckMasks(ctx context.Context, v *table.View, n *normalize.Normalizer) (noted bool, err error) {
	text, at, err := ownNote(ctx, v, commitmeta.ExtraMasks)
	if err != nil || text == "" {
		return false, err
	}
	masks := map[string]string{}
	if err := json.Unmarshal([]byte(text), &masks); err != nil {
		return true, fmt.Errorf("%s of commit %s: %w", commitmeta.ExtraMasks, at, err)
	}
	if err := n.CheckMasks(masks); err != nil {
		return true, fmt.Errorf("commit %s: %w", at, err)
	}
	return true, nil
}

// ownNote is what our newest commit says under a key that every later one repeats,
// and its instant. The archive is only read when no commit of ours stands before it:
// most tables have no such note anywhere, and archives grow.
func ownNote(ctx context.Context, v *table.View, key string) (string, hudi.Time, error) {
	for _, i := range slices.Backward(v.Writes()) {
		b, err := v.Body(ctx, i)
		if err != nil {
			return "", "", err
		}
		if b.Extra[commitmeta.ExtraLayout] != "" {
			return b.Extra[key], i.Time, nil
		}
	}
	text, at, _, err := v.Extra(ctx, key)
	return text, at.Time, err
}

// noteMasks puts the masks that no column tells of into a commit, so that a later
// run misses the ones that its configuration lost. A table that had one goes on to
// say that it has none.
func (p *Ingest) noteMasks(extra map[string]string) {
	masks := p.o.Normalizer.Masks()
	if len(masks) == 0 && !p.masked {
		return
	}
	text, err := json.Marshal(masks)
	if err != nil { // strings always marshal
		panic(err)
	}
	extra[commitmeta.ExtraMasks] = string(text)
}

// next is the checkpoint with the positions of the batch's sources moved; the entries of
// others are copied forward.
func (p *Ingest) next(g gathered) (commitmeta.Checkpoint, error) {
	if p.o.Repairs {
		return p.checkpoint, nil
	}
	c := commitmeta.Checkpoint{Version: 1, Sources: maps.Clone(p.checkpoint.Sources)}
	for _, f := range g.parts {
		if err := f.enter(&c); err != nil {
			return c, err
		}
	}
	if len(g.parts) > 0 {
		return c, nil
	}
	f := p.follower
	f.position, f.seq = g.batch.Last, or(g.batch.Seq, p.seq)
	return c, f.enter(&c)
}

// stands says whether the last commit has the batch's positions already.
func (p *Ingest) stands(g gathered) bool {
	for name, f := range g.parts {
		if s := p.checkpoint.Sources[name]; changes.Position(s.Position()) != f.position {
			return false
		}
	}
	return len(g.parts) > 0 || g.batch.Last == p.committed()
}

func (p *Ingest) epoch() int64 { return p.checkpoint.Sources[p.name].Epoch }

func (p *Ingest) committed() changes.Position {
	s := p.checkpoint.Sources[p.name]
	return changes.Position(s.Position())
}

func quarantineName(instant hudi.Time) string {
	return quarantineFolder + string(instant) + quarantineSuffix
}
