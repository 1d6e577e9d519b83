package pipeline

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"

	"github.com/couch2hudi/couch2hudi/changes"
	"github.com/couch2hudi/couch2hudi/commitmeta"
	"github.com/couch2hudi/couch2hudi/hudi"
	"github.com/couch2hudi/couch2hudi/table"
)

// ErrPinned means that the configuration asks for something else than what the table
// was created with.
var ErrPinned = errors.New("the table pins another setting")

// Layout is what a table pins at creation beside its ordering rule.
type Layout struct {
	// Index is "bloom" or "bucket", Buckets the number of the latter's file
	// groups in each partition.
	Index   string `json:"index"`
	Buckets int    `json:"buckets,omitempty"`
	// Scope is "partition" when a record key is unique only within its
	// partition; empty when it is in the whole table.
	Scope string `json:"scope,omitempty"`
	// Key is the column of the record key.
	Key string `json:"key"`
	// PartitionField is the document's field, PartitionFormat and Timezone how
	// its values become folders; empty for a table without partitions.
	PartitionField  string `json:"partition_field,omitempty"`
	PartitionFormat string `json:"partition_format,omitempty"`
	Timezone        string `json:"timezone,omitempty"`
	// PartitionName is the column and the folder's name.
	PartitionName string `json:"partition_name,omitempty"`
}

func (l Layout) encode() string {
	b, err := json.Marshal(l)
	if err != nil { // strings always marshal
		panic(err)
	}
	return string(b)
}

// restore finds where the last commit left off.
func (p *Ingest) restore(ctx context.Context, v *table.View) error {
	if err := p.checkPinned(ctx, v); err != nil {
		return err
	}
	text, at, found, err := v.Extra(ctx, commitmeta.ExtraCheckpoint)
	if err != nil {
		return fmt.Errorf("find the last checkpoint: %w", err)
	}
	p.checkpoint = commitmeta.Checkpoint{Version: 1, Sources: map[string]commitmeta.Source{}}
	p.position = p.o.Since
	if !found {
		return p.replayed(ctx, v)
	}
	c, err := commitmeta.DecodeCheckpoint(text)
	if err != nil {
		return fmt.Errorf("checkpoint of commit %s: %w", at.Time, err)
	}
	p.checkpoint = c
	s, known := c.Sources[p.name]
	if !known {
		return p.replayed(ctx, v)
	}
	if s.Kind != p.identity.Kind || (s.Incarnation != "" && p.identity.Incarnation != "" && s.Incarnation != p.identity.Incarnation) {
		return p.recreated(s, at.Time)
	}
	p.identity.PurgeSeq = s.PurgeSeq
	p.position = changes.Position(s.Seq)
	return p.replayed(ctx, v)
}

// checkPinned compares what the table was created with to what is asked for.
func (p *Ingest) checkPinned(ctx context.Context, v *table.View) error {
	for key, want := range map[string]string{commitmeta.ExtraOrdering: p.o.Ordering, commitmeta.ExtraLayout: p.o.Layout.encode()} {
		have, at, found, err := v.Extra(ctx, key)
		if err != nil {
			return fmt.Errorf("find %s: %w", key, err)
		}
		if found && have != want {
			return fmt.Errorf("%w: %s is %s in commit %s, the configuration says %s; "+
				"use the table's settings, or another table", ErrPinned, key, have, at.Time, want)
		}
	}
	return nil
}

// next is the checkpoint with this source's position moved; other sources'
// entries are copied forward.
func (p *Ingest) next(position changes.Position) commitmeta.Checkpoint {
	c := commitmeta.Checkpoint{Version: 1, Sources: maps.Clone(p.checkpoint.Sources)}
	c.Sources[p.name] = commitmeta.Source{Kind: p.identity.Kind, Name: p.identity.Name,
		Incarnation: p.identity.Incarnation, Epoch: p.epoch(), PurgeSeq: p.identity.PurgeSeq,
		Sweep: p.checkpoint.Sources[p.name].Sweep, Seq: string(position)}
	return c
}

func (p *Ingest) epoch() int64 { return p.checkpoint.Sources[p.name].Epoch }

func (p *Ingest) committed() changes.Position {
	return changes.Position(p.checkpoint.Sources[p.name].Seq)
}

func quarantineName(instant hudi.Time) string {
	return "quarantine/" + string(instant) + ".ndjson"
}
