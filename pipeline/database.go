package pipeline

import (
	"context"
	"strings"

	"github.com/couch2hudi/couch2hudi/changes"
	"github.com/couch2hudi/couch2hudi/commitmeta"
	"github.com/couch2hudi/couch2hudi/hudi"
	"github.com/couch2hudi/couch2hudi/normalize"
	"github.com/couch2hudi/couch2hudi/reader"
)

// Of is a source whose changes say that they are of a database: for a table that takes
// several. The database's name must be the source's in the checkpoint.
func Of(source changes.Source, database string) changes.Source {
	o := &ofDatabase{source, database}
	if p, ok := source.(changes.Purger); ok {
		return &ofPurger{o, p}
	}
	return o
}

type ofDatabase struct {
	changes.Source
	database string
}

// Next implements changes.Source.
func (o *ofDatabase) Next(ctx context.Context, after changes.Position, limit changes.Limit) (changes.Batch, error) {
	b, err := o.Source.Next(ctx, after, limit)
	o.name(b.Changes)
	return b, err
}

func (o *ofDatabase) name(cs []changes.Change) {
	for i := range cs {
		cs[i].Database = o.database
	}
}

// ofPurger is one of a source that can be asked for documents.
type ofPurger struct {
	*ofDatabase
	purger changes.Purger
}

// Purged implements changes.Purger.
func (o *ofPurger) Purged(ctx context.Context, after string) ([]string, string, error) {
	return o.purger.Purged(ctx, after)
}

// Read implements changes.Purger.
func (o *ofPurger) Read(ctx context.Context, ids []string) ([]changes.Change, error) {
	cs, err := o.purger.Read(ctx, ids)
	o.name(cs)
	return cs, err
}

// ofMany says whether the table takes several databases.
func (l Layout) ofMany() bool { return l.Key == hudi.ColumnKey }

// epochs is the epoch of each key of a table of several databases, nil for other
// tables.
func (p *Ingest) epochs() func(key string) int64 {
	if !p.o.Layout.ofMany() {
		return nil
	}
	return func(key string) int64 {
		database, _, _ := normalize.SplitKey(key)
		return p.checkpoint.Sources[database].Epoch
	}
}

// change is the change that a record key stands for, without a state.
func (p *Ingest) change(key string) (changes.Change, bool) {
	if !p.o.Layout.ofMany() {
		return changes.Change{ID: key}, true
	}
	database, id, ok := normalize.SplitKey(key)
	return changes.Change{ID: id, Database: database}, ok && database == p.name
}

// ofPrefix are the rows of a database in a table of several: those whose keys lie between
// its prefix and the next text that no such key begins with, so that files and parts of
// files without such keys are not read.
func ofPrefix(database string) *reader.Where {
	quoted := func(text string) string { return "'" + strings.ReplaceAll(text, "'", "''") + "'" }
	first := normalize.KeyPrefix(database)
	next := first[:len(first)-1] + string(rune(first[len(first)-1]+1))
	w, err := reader.ParseWhere(hudi.MetaRecordKey + " >= " + quoted(first) + " and " + hudi.MetaRecordKey + " < " + quoted(next))
	if err != nil { // any text may stand in quotes
		panic(err)
	}
	return w
}

// noteSource says in a commit of a table of several databases of which one its
// last_seq is.
func (p *Ingest) noteSource(extra map[string]string) {
	switch {
	case !p.o.Layout.ofMany():
	case !p.o.Repairs:
		extra[commitmeta.ExtraSource] = p.name
	case p.last != "":
		extra[commitmeta.ExtraSource] = p.last
	}
}
