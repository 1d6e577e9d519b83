package pipeline

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/couch2hudi/couch2hudi/changes"
	"github.com/couch2hudi/couch2hudi/commitmeta"
	"github.com/couch2hudi/couch2hudi/hudi"
	"github.com/couch2hudi/couch2hudi/index"
	"github.com/couch2hudi/couch2hudi/normalize"
	"github.com/couch2hudi/couch2hudi/reader"
	"github.com/couch2hudi/couch2hudi/table"
)

// Difference is how a document and its row in the table differ.
type Difference string

// The differences, each of a document that did not change while it was looked at.
const (
	// Missing: the table has no row, or no tombstone where it keeps them.
	Missing Difference = "missing"
	// Extra: the table has a live row, and the source no such document, or one that
	// the filter leaves out.
	Extra Difference = "extra"
	// Stale: the row is of an older state.
	Stale Difference = "stale"
	// Wrong: the row is of this state and says other things, or of a state that the
	// source does not have.
	Wrong Difference = "wrong"
	// Resurrected: the document is deleted and the row live.
	Resurrected Difference = "resurrected"
	// WrongPartition: the row is in another partition than the document says, or
	// there are several.
	WrongPartition Difference = "wrong_partition"
)

// Differences are all of them, in the order of reports.
func Differences() []Difference {
	return []Difference{Missing, Extra, Stale, Wrong, Resurrected, WrongPartition}
}

// ErrNoRepair says that what differs cannot be read again from such a source.
var ErrNoRepair = errors.New("this source cannot be repaired from")

// VerifyOptions say what is compared. Source, View and Normalizer are needed.
type VerifyOptions struct {
	Source changes.Source
	// View is the table at one moment.
	View *table.View
	// Normalizer is the one that rows are made with.
	Normalizer *normalize.Normalizer
	// Name is the source's in the checkpoint; default: its identity's.
	Name string
	// Database is the one that Source is of, where the table takes several: rows of others
	// are not looked at. The changes say so, too (Of).
	Database string
	// Scope and Stay are as in Options.
	Scope index.Scope
	Stay  bool
	// Memory bounds what is sorted in memory, in bytes; the rest goes to a file in
	// TempDir.
	Memory  int64
	TempDir string
	// TempFile opens temporary files in place of TempDir; for tests.
	TempFile func() (reader.TempFile, error)
	// AsShown takes the feed's word for everything, though the source could be asked
	// for single documents: for a source that shows others there than in its feed, as one
	// with a selector does.
	AsShown bool
	// Pause is how long what seems to differ is left alone before it is looked at again;
	// 3 s by default.
	Pause time.Duration
	// Sleep waits; for tests.
	Sleep func(context.Context, time.Duration) error
	// Samples is how many documents of each difference are named.
	Samples int
	// Found is told of each difference, in the order of ids. May be nil.
	Found func(ctx context.Context, d Difference, id string) error
}

// Verified is the outcome.
type Verified struct {
	// Instant is the table's newest write that was looked at.
	Instant hudi.Time `json:"instant"`
	// Documents are those of the source, deleted ones among them, Rows the table's.
	Documents int64 `json:"documents"`
	Rows      int64 `json:"rows"`
	Equal     int64 `json:"equal"`
	// Moving changed after the table's position, or while it was looked at: what is due is
	// not there yet.
	Moving int64 `json:"moving"`
	// Settled are those of Equal that the feed showed otherwise, in an older state, and
	// the source itself did not: the feed was one of a copy that is behind.
	Settled int64 `json:"settled"`
	// Rejected are documents that become no row (quarantine).
	Rejected int64 `json:"rejected"`
	// Different are the documents of each difference.
	Different map[Difference]int64 `json:"different"`
	Samples   []Sample             `json:"samples"`
}

// Count is the number of all differences.
func (v *Verified) Count() (n int64) {
	for _, d := range v.Different {
		n += d
	}
	return n
}

// Sample is one difference.
type Sample struct {
	Difference Difference `json:"difference"`
	ID         string     `json:"id"`
	Source     *Side      `json:"source,omitempty"`
	Table      *Side      `json:"table,omitempty"`
}

// Side is what one of the two has of a document. Order is without the era.
type Side struct {
	Rev       string `json:"rev,omitempty"`
	Order     int64  `json:"order"`
	Deleted   bool   `json:"deleted"`
	Partition string `json:"partition,omitempty"`
}

// verifier compares. All that it reads goes through one sort by id.
type verifier struct {
	o      VerifyOptions
	sorter *reader.Sorter
	schema *hudi.Schema
	// places of columns
	rev, deleted int
	// skip are columns that are compared in another way, or not.
	skip map[int]bool
	out  Verified
	hash []byte
	// now is the document that the merge is at.
	now document
	// due is the position up to which the table must have everything.
	due changes.Position
	// purgeSeq is the table's; purged are those that purges named since, or nil when
	// the source does not say.
	purgeSeq string
	purged   map[string]bool
	// doubts are documents that seem to differ, to be looked at again; nil when what
	// seems so counts. doubtful is how many there are.
	doubts   *reader.Sorter
	doubtful int64
}

// document is what was found of one id.
type document struct {
	id     string
	begun  bool
	source entry
	// rows are the table's, in any partition.
	rows             []entry
	inSource, moving bool
	// doubted: it was looked at before; changed: it was another one then.
	doubted, changed bool
}

// entry is one state of a document, as it is sorted.
type entry struct {
	flags     int32
	order     int64
	rev       string
	partition string
	hash      string
}

// Flags of entries.
const (
	fromSource int32 = 1 << iota
	fromTable
	isMoving
	isDead
	// isAway: there need be no row, and no live one may be.
	isAway
	// isHard: the source deleted it, and the table keeps no tombstones.
	isHard
	isRejected
	anyPartition
	// isDoubt: the entry is of a document that is looked at again.
	isDoubt
)

// Verify compares a source with a table, document by document, in bounded memory:
// both are read once, sorted by id on disk, and compared in that order. Documents
// that changed after the position of the table's last commit are moving, and no
// difference. A source that can be asked for single documents is asked, some time
// later, for those that seem to differ: its feed may show an older state than it has.
func Verify(ctx context.Context, o VerifyOptions) (Verified, error) {
	v := &verifier{o: o, out: Verified{Instant: o.View.Last(), Different: map[Difference]int64{}, Samples: []Sample{}}}
	if err := v.columns(ctx); err != nil {
		return v.out, err
	}
	if v.o.Pause <= 0 {
		v.o.Pause = lookPause
	}
	if v.o.Sleep == nil {
		v.o.Sleep = sleep
	}
	v.sorter = reader.NewSorter(reader.Options{Memory: o.Memory, TempDir: o.TempDir, TempFile: o.TempFile})
	err := v.run(ctx)
	err = errors.Join(err, v.sorter.Close())
	if v.doubts != nil {
		err = errors.Join(err, v.doubts.Close())
	}
	return v.out, err
}

func (v *verifier) run(ctx context.Context) (err error) {
	if v.due, err = v.position(ctx); err != nil {
		return err
	}
	if err := v.readTable(ctx); err != nil {
		return fmt.Errorf("read table: %w", err)
	}
	if err := v.readSource(ctx); err != nil {
		return fmt.Errorf("read source: %w", err)
	}
	// Last, so that all is in it that changed while the two were read.
	if err := v.readMoving(ctx); err != nil {
		return fmt.Errorf("read what changed: %w", err)
	}
	if purger, asks := v.o.Source.(changes.Purger); asks && !v.o.AsShown {
		return v.twice(ctx, purger)
	}
	return v.merged(ctx, v.judge)
}

func (v *verifier) columns(ctx context.Context) error {
	s, err := v.o.View.Schema(ctx)
	if errors.Is(err, table.ErrNoSchema) {
		var made normalize.Result
		made, err = v.o.Normalizer.Normalize(changes.Batch{}, nil)
		s = made.Schema
	}
	if err != nil {
		return fmt.Errorf("read schema: %w", err)
	}
	v.schema, v.skip, v.rev, v.deleted = s, map[int]bool{}, -1, -1
	for i, c := range s.Columns() {
		switch c.Name {
		case hudi.ColumnRev:
			v.rev = i
		case hudi.ColumnDeleted:
			v.deleted = i
		}
		switch c.Name {
		case hudi.ColumnRev, hudi.ColumnDeleted, hudi.ColumnRevOrder, normalize.ColumnSeq, v.o.View.Table().PartitionField():
			v.skip[i] = true
		}
	}
	return nil
}

// position is the one up to which the table must have everything.
func (v *verifier) position(ctx context.Context) (changes.Position, error) {
	id, err := v.o.Source.Identify(ctx)
	if err != nil {
		return "", fmt.Errorf("identify source: %w", err)
	}
	text, at, found, err := v.o.View.Extra(ctx, commitmeta.ExtraCheckpoint)
	if err != nil {
		return "", fmt.Errorf("find the last checkpoint: %w", err)
	}
	var c commitmeta.Checkpoint
	if found {
		if c, err = commitmeta.DecodeCheckpoint(text); err != nil {
			return "", fmt.Errorf("checkpoint of commit %s: %w", at.Time, err)
		}
	}
	s, known := c.Sources[or(v.o.Name, id.Name)]
	for _, other := range c.Sources {
		// What came over files or a topic is of this database all the same.
		if !known && len(c.Sources) == 1 && other.Kind != id.Kind && other.Incarnation == id.Incarnation {
			s, known = other, true
		}
	}
	switch {
	case !known:
		return v.o.Source.Now(ctx)
	case (s.Kind == id.Kind || s.Kind != commitmeta.KindKafka && id.Kind != commitmeta.KindKafka) && // a topic's is its own
		s.Incarnation != "" && id.Incarnation != "" && s.Incarnation != id.Incarnation:
		return "", fmt.Errorf("%w: %s %q was created at %s, the checkpoint of commit %s is of the one created at %s",
			changes.ErrRecreated, id.Kind, id.Name, id.Incarnation, at.Time, s.Incarnation)
	}
	v.purgeSeq = s.PurgeSeq
	switch {
	case s.Kind == id.Kind:
		return changes.Position(s.Position()), nil
	case id.Kind == commitmeta.KindCouchDB && s.Seq != "":
		return changes.Position(s.Seq), nil
	}
	return v.o.Source.Now(ctx)
}

func (v *verifier) readTable(ctx context.Context) error {
	o := reader.Options{IncludeDeletes: true, Memory: v.o.Memory, TempDir: v.o.TempDir, TempFile: v.o.TempFile}
	if v.o.Database != "" {
		o.Where = ofPrefix(v.o.Database)
	}
	for r, err := range reader.Snapshot(ctx, v.o.View, o) {
		if err != nil {
			return err
		}
		v.out.Rows++
		if err := v.add(v.id(r), v.entry(r, fromTable)); err != nil {
			return err
		}
	}
	return nil
}

// each reads a source from a position to its end.
func (v *verifier) each(ctx context.Context, at changes.Position, yield func(changes.Batch) error) error {
	const rows, shares = 5000, 16
	limit := changes.Limit{Rows: rows, Bytes: max(1<<20, v.o.Memory/shares)}
	for {
		b, err := v.o.Source.Next(ctx, at, limit)
		if err != nil {
			return err
		}
		if err := yield(b); err != nil {
			return err
		}
		if at = b.Last; b.CaughtUp {
			if g, knows := v.o.Source.(changes.Gapped); knows { // what is missing there would be extra in the table
				return g.Gap()
			}
			return nil
		}
	}
}

func (v *verifier) readSource(ctx context.Context) error {
	return v.each(ctx, "", func(b changes.Batch) error {
		shaped, err := v.o.Normalizer.Normalize(b, v.schema)
		if err != nil {
			return fmt.Errorf("normalize: %w", err)
		}
		for i := range shaped.Records {
			if err := v.add(v.id(&shaped.Records[i]), v.entry(&shaped.Records[i], fromSource)); err != nil {
				return err
			}
		}
		for i := range shaped.Rejects {
			if err := v.add(shaped.Rejects[i].Change.ID, entry{flags: fromSource | isRejected}); err != nil {
				return err
			}
		}
		return nil
	})
}

func (v *verifier) readMoving(ctx context.Context) error {
	err := v.each(ctx, v.due, func(b changes.Batch) error {
		for i := range b.Changes {
			if err := v.add(b.Changes[i].ID, entry{flags: isMoving}); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	purger, lists := v.o.Source.(changes.Purger)
	if !lists {
		return nil
	}
	ids, _, err := purger.Purged(ctx, v.purgeSeq)
	if err != nil {
		return fmt.Errorf("read purges: %w", err)
	}
	v.purged = make(map[string]bool, len(ids))
	for _, id := range ids {
		v.purged[id] = true
	}
	return nil
}

// id is the document's that a record is of.
func (v *verifier) id(r *hudi.Record) string {
	if v.o.Database == "" {
		return r.Key.Record
	}
	_, id, _ := normalize.SplitKey(r.Key.Record)
	return id
}

// entry is what is compared of a row.
func (v *verifier) entry(r *hudi.Record, side int32) entry {
	e := entry{flags: side, order: r.Order - hudi.Order(hudi.Era(r.Order), 0), partition: r.Key.Partition}
	if r.AnyPartition {
		e.flags |= anyPartition
	}
	if r.OnlyHeld || r.Delete {
		e.flags |= isAway | isDead
		if !r.OnlyHeld {
			e.flags |= isHard
		}
		return e
	}
	if v.deleted >= 0 && v.deleted < len(r.Row) && r.Row[v.deleted].Boolean() {
		e.flags |= isDead
	}
	if v.rev >= 0 && v.rev < len(r.Row) {
		e.rev = r.Row[v.rev].Text()
	}
	e.hash = v.sum(r.Row)
	return e
}

// sum is a hash of the cells that are not null.
func (v *verifier) sum(row hudi.Row) string {
	b := v.hash[:0]
	for i, c := range row {
		if c.IsNull() || v.skip[i] {
			continue
		}
		b = binary.AppendUvarint(b, uint64(i))
		b = append(b, byte(c.Kind()))
		b = binary.AppendUvarint(b, uint64(c.Long()))
		b = binary.AppendUvarint(b, uint64(len(c.Text())))
		b = append(b, c.Text()...)
	}
	v.hash = b
	sum := sha256.Sum256(b)
	return string(sum[:])
}

func (v *verifier) add(id string, e entry) error { return v.keep(v.sorter, id, e) }

func (v *verifier) keep(in *reader.Sorter, id string, e entry) error {
	r := hudi.Record{Key: hudi.Key{Record: id}, Order: e.order,
		Row: hudi.Row{hudi.Int(e.flags), hudi.String(e.rev), hudi.String(e.partition), hudi.String(e.hash)}}
	if err := in.Add(0, &r); err != nil {
		return fmt.Errorf("sort: %w", err)
	}
	return nil
}
