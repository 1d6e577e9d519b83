// Package normalize is the one place that turns changes into records: it picks
// the newest state of each document in a batch, lays its fields out into the
// table's columns, adds columns for fields never seen, and puts aside what is
// broken. It is pure: no input, no output, no clock.
package normalize

import (
	"errors"
	"fmt"

	"github.com/couch2hudi/couch2hudi/changes"
	"github.com/couch2hudi/couch2hudi/filter"
	"github.com/couch2hudi/couch2hudi/hudi"
)

// The rules by which a table decides which of two states of a document is
// newer. A table keeps its rule for life.
const (
	// LeafSum is the sum of the generations of all leaf revisions: every
	// change of a document's revision tree makes it larger, even one that
	// makes a lower generation win.
	LeafSum = "leaf-sum"
	// Generation is the generation of the winning revision, for sources that
	// cannot list leaves.
	Generation = "generation"
)

// What a deleted document becomes.
const (
	// Tombstone is a row with _deleted = true and the deleted document as
	// received in _doc.
	Tombstone = "tombstone"
	// Hard is a Hudi delete.
	Hard = "hard"
	// TombstoneThenPurge is a row like a tombstone, without the document.
	TombstoneThenPurge = "tombstone-then-purge"
)

// DefaultMaxColumns is the most columns made from documents' fields unless
// Options say otherwise.
const DefaultMaxColumns = 500

// DefaultPartitionName is the partition column's name unless Options say
// otherwise.
const DefaultPartitionName = "pt"

// Options say how documents become rows. The zero value, with the table's
// name, is the default.
type Options struct {
	// Table is the table's name; it names the schema before there is one.
	Table string
	// Ordering is LeafSum by default, Deletes Tombstone.
	Ordering, Deletes string
	// PartitionField is the top-level field whose value names the partition;
	// empty for a table without partitions.
	PartitionField string
	// PartitionFormat makes a day, month or the like of a point in time:
	// yyyyMMdd, yyyy-MM-dd, yyyyMM, yyyyMMddHH and so on. Empty takes the
	// text of the value itself.
	PartitionFormat string
	// PartitionTimezone is the IANA name of the zone in which PartitionFormat
	// reads a clock; empty means UTC. New looks it up, so the program needs
	// the zones of the system or of time/tzdata.
	PartitionTimezone string
	// PartitionName is the partition column's name; empty means "pt".
	PartitionName string
	// BareFolders names folders by the value alone instead of name=value,
	// PlainFolders leaves values unescaped. A value that no such folder can
	// hold goes to the default partition.
	BareFolders, PlainFolders bool
	// DropDoc leaves out the _doc column.
	DropDoc bool
	// Seq adds the _seq column.
	Seq bool
	// MaxColumns is the most columns made from documents' fields. Zero means
	// DefaultMaxColumns.
	MaxColumns int
	// Declare are the columns asked for. Others says what becomes of all other
	// fields: Inferred (the default), Rescued or Dropped. Conflict is the policy
	// for values that do not fit, Rescue by default.
	Declare          []Declared
	Others, Conflict string
	// Salt is the secret of MaskHash.
	Salt string
	// Databases is for a table of many databases: its record key is Key's, and it
	// has columns of that and of the database. Changes must say of which they are.
	Databases bool
	// Filter says whether a document, as it is before anything is masked, is for the
	// table; nil takes all. Those that are not, and all deletions, become changes that
	// are Elsewhere. What is no JSON text is rejected, whatever the answer.
	Filter *filter.Filter
	// Nested is NestedJSON by default. With NestedStruct NestedDepth is how many
	// arrays and objects may stand in each other in a column, NestedWidth how many
	// members a struct has at most; zero means the defaults. What is beyond stays
	// JSON text. Each scalar inside counts as a column.
	Nested                   string
	NestedDepth, NestedWidth int
}

// What becomes of the arrays and objects of inferred fields.
const (
	// NestedJSON keeps their JSON text.
	NestedJSON = "json"
	// NestedStruct makes arrays of one kind lists and objects structs.
	NestedStruct = "struct"
)

// Limits of nested columns unless Options say otherwise.
const (
	DefaultNestedDepth = 5
	DefaultNestedWidth = 50
	// MaxNestedDepth is the most that may be asked for.
	MaxNestedDepth = 15
)

// Errors of New and Normalize.
var (
	// ErrOptions marks options that mean nothing.
	ErrOptions = errors.New("bad normalize options")
	// ErrLeaves says that a change lists no leaf revisions although the
	// table's ordering rule needs them: the source is of the wrong kind.
	ErrLeaves = errors.New("the source lists no leaf revisions, which this table's ordering rule needs")
)

// Reject is a change that cannot become a record, and why.
type Reject struct {
	// Place is the change's in the batch.
	Place  int
	Change changes.Change
	Reason string
}

// Stats count what a batch was made into.
type Stats struct {
	// Rows is the changes in the batch, Collapsed those of them that a newer
	// state in the same batch replaced.
	Rows, Collapsed int
	// Tombstones and Deletes are the deleted documents that became rows or
	// Hudi deletes.
	Tombstones, Deletes int
	// Elsewhere are the changes that are not for the table, of live and of deleted
	// documents. They become records of their own kind (hudi.Record.OnlyHeld) and
	// are not counted in Tombstones and Deletes.
	Elsewhere int
	// Rescued is the values that went to _rescued; OverBudget those of them
	// whose field got no column because of MaxColumns.
	Rescued, OverBudget int
	// DefaultPartition is the live rows whose partition field was missing or
	// could not be understood.
	DefaultPartition int
	// Columns is the columns added to the schema.
	Columns int
}

// Result is what a batch became. Its records share memory with the batch's
// bodies and with each other; they stay valid as long as those are untouched.
type Result struct {
	// Schema is the schema of the records: the given one, or it with columns
	// added at its end.
	Schema *hudi.Schema
	// Records are in the order in which the newest state of each document
	// arrived. Record.Order is the bare sum of generations: the era is added
	// by whoever knows what the table holds.
	Records []hudi.Record
	Rejects []Reject
	Stats   Stats
}

// Normalizer turns batches into records. It keeps scratch memory between
// batches and is not safe for concurrent use; its results depend on nothing
// but its options and the arguments.
type Normalizer struct {
	o        Options
	part     *partitioner
	declared []declared
	// mask is nil when there is nothing to mask.
	mask *masker
	plan *plan
	// exact says that rows without _doc tell the whole document nevertheless.
	exact bool

	elect election
	// prefix begins the keys of the database prefixed.
	prefixed, prefix string
	scan, inner      scanner
	// sieve reads documents for the filter.
	sieve   scanner
	nesting nesting
	arena   arena
	slab    []hudi.Value
	buf     []byte
	cursor  cursor
	// waiting are values whose field has no column yet, rescues those that
	// go to _rescued.
	waiting []waiting
	rescues []rescue
	// failed is why the batch cannot be taken at all.
	failed error
	// bodies are the documents of result.Records, by their places.
	bodies [][]byte
	result Result
}

// New checks the options and makes a Normalizer.
func New(o Options) (*Normalizer, error) {
	o = o.withDefaults()
	switch o.Ordering {
	case LeafSum, Generation:
	default:
		return nil, fmt.Errorf("%w: ordering %q", ErrOptions, o.Ordering)
	}
	switch o.Deletes {
	case Tombstone, Hard, TombstoneThenPurge:
	default:
		return nil, fmt.Errorf("%w: deletes %q", ErrOptions, o.Deletes)
	}
	if o.MaxColumns < 0 {
		return nil, fmt.Errorf("%w: at most %d columns", ErrOptions, o.MaxColumns)
	}
	if err := checkNested(&o); err != nil {
		return nil, err
	}
	switch o.Others {
	case Inferred, Rescued, Dropped:
	default:
		return nil, fmt.Errorf("%w: columns of others %q: they are %s, %s or %s", ErrOptions, o.Others, Inferred, Rescued, Dropped)
	}
	if err := checkPolicy(o.Conflict); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrOptions, err)
	}
	part, err := newPartitioner(&o)
	if err != nil {
		return nil, err
	}
	all, err := o.compile()
	if err != nil {
		return nil, err
	}
	n := &Normalizer{o: o, part: part, declared: all, mask: newMasker(all, o.Salt), exact: o.DropDoc}
	n.scan.member, n.sieve.member = n.member, n.noted
	if _, err = newPlan(&n.o, n.declared, nil); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrOptions, err)
	}
	return n, nil
}

func checkNested(o *Options) error {
	switch {
	case o.Nested != NestedJSON && o.Nested != NestedStruct:
		return fmt.Errorf("%w: nested %q: it is %s or %s", ErrOptions, o.Nested, NestedJSON, NestedStruct)
	case o.NestedDepth < 1 || o.NestedDepth > MaxNestedDepth || o.NestedWidth < 1:
		return fmt.Errorf("%w: nested columns %d deep and %d wide: the depth is 1 to %d, the width 1 or more", ErrOptions, o.NestedDepth, o.NestedWidth, MaxNestedDepth)
	}
	return nil
}

func (o Options) withDefaults() Options {
	if o.Ordering == "" {
		o.Ordering = LeafSum
	}
	if o.Deletes == "" {
		o.Deletes = Tombstone
	}
	if o.PartitionName == "" {
		o.PartitionName = DefaultPartitionName
	}
	if o.MaxColumns == 0 {
		o.MaxColumns = DefaultMaxColumns
	}
	if o.Others == "" {
		o.Others = Inferred
	}
	if o.Conflict == "" {
		o.Conflict = Rescue
	}
	if o.Nested == "" {
		o.Nested = NestedJSON
	}
	if o.NestedDepth == 0 {
		o.NestedDepth = DefaultNestedDepth
	}
	if o.NestedWidth == 0 {
		o.NestedWidth = DefaultNestedWidth
	}
	return o
}

// Normalize makes records of a batch for a table of the given schema. Before the
// table exists that is a Survey's, or nil: then the batch alone decides. A change that cannot be used is among the
// rejects and holds up nothing else; an error means that the table or the
// source as a whole does not fit, and that nothing was made.
func (n *Normalizer) Normalize(b changes.Batch, s *hudi.Schema) (Result, error) {
	defer n.forget()
	b.Changes = n.sift(n.stubs(b.Changes))
	if n.mask != nil {
		b.Changes = n.mask.changes(b.Changes)
	}
	if n.plan == nil || n.plan.stale || s == nil || !n.plan.schema.Same(s) {
		plan, err := newPlan(&n.o, n.declared, s)
		if err != nil {
			return Result{}, err
		}
		n.plan = plan
	} else {
		n.plan.schema = s
	}
	before := n.plan.schema.Len()
	if s != nil {
		before = s.Len()
	}
	n.result = Result{Stats: Stats{Rows: len(b.Changes)}}
	if err := n.pick(b.Changes); err != nil {
		return Result{}, err
	}
	n.result.Records = make([]hudi.Record, 0, len(n.elect.documents))
	for i := range b.Changes {
		if n.elect.state[i] == winner {
			n.shape(b.Changes, i)
		}
	}
	err := n.settle()
	if err = errors.Join(err, n.failed); err != nil {
		n.plan = nil
		return Result{}, err
	}
	n.rescue()
	n.result.Schema = n.plan.schema
	n.result.Stats.Columns = n.plan.schema.Len() - before
	n.result.Stats.Collapsed = len(b.Changes) - len(n.result.Records) - len(n.result.Rejects)
	return n.result, nil
}

// Check says whether a table of that schema can be what the options declare: an
// error of ErrDeclared or ErrSchema when not.
func (n *Normalizer) Check(s *hudi.Schema) error {
	_, err := newPlan(&n.o, n.declared, s)
	return err
}

// forget drops what the last batch left, so that no memory of it is held.
func (n *Normalizer) forget() {
	n.result = Result{}
	n.slab = nil
	n.arena = arena{}
	n.cursor = cursor{}
	n.scan.data, n.inner.data = nil, nil
	n.failed = nil
	n.elect.forget()
	clear(n.waiting)
	clear(n.rescues)
	clear(n.bodies)
	n.waiting, n.rescues, n.bodies = n.waiting[:0], n.rescues[:0], n.bodies[:0]
	if n.plan != nil {
		n.plan.rest()
		n.plan.takeBack(0)
	}
}

func (n *Normalizer) reject(cs []changes.Change, i int, reason string) {
	n.result.Rejects = append(n.result.Rejects, Reject{Place: i, Change: cs[i], Reason: reason})
}
