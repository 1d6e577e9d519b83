// Package changes says what a source said: the one vocabulary in which every
// source (CouchDB's _changes, and later a topic or a folder of files) reports
// documents. It knows nothing of tables.
package changes

import (
	"context"
	"errors"
	"strconv"
	"time"
)

// Position is where a source is to go on. It is opaque: only the source that
// gave it can read it, and two positions must never be compared, not even for
// equality. The zero Position is the beginning of the source.
type Position string

// Change is the state of one document as the source showed it: the winning
// revision, the leaf revisions known at that moment, and the document itself.
// The changes of a batch may share the memory of their texts: what is kept for
// longer than its batch (an id in a cache) is cloned, or it keeps others with it.
type Change struct {
	// ID is the document's _id, decoded from JSON.
	ID string
	// Database is the one that the document is of, for tables that take several;
	// drivers leave it empty.
	Database string
	// Rev is the winning leaf's revision.
	Rev Rev
	// Leaves are all leaf revisions, the winner first, deleted leaves
	// included. Empty when the source cannot give them.
	Leaves []Rev
	// Deleted says that the winning leaf is a deletion.
	Deleted bool
	// Seq is the source's sequence for this row; empty when it gave none.
	Seq string
	// Body is the document as received, byte for byte; nil when the source
	// gave none. It stays valid as long as the Change does and is never
	// written to.
	Body []byte
	// Raw is the whole row as received, for quarantine when the envelope
	// itself is broken. May be nil.
	Raw []byte
	// Absent says that the source does not hold the document at all, not even
	// as a deletion: it was purged, or the database was created again without
	// it. Deleted is set too; there is no revision and no body.
	Absent bool
	// Purged says that a purge named the document, so that the state may be an
	// older one than was seen before.
	Purged bool
	// Elsewhere says that the document is not for the table, though the source
	// holds it: a filter leaves it out, or it is routed to another one. A table
	// that holds it deletes it, in the order of its revision; another one drops the
	// change. It may be set with Deleted: then the deletion is for those tables
	// alone that hold the document.
	Elsewhere bool
	// Place is where the source had it, for those whose places have names.
	Place Place
	// Defect says why the envelope cannot be used (no _id, a revision that is
	// no revision, a live row without a body even when asked again). A change
	// with a defect is quarantined and counted, never applied.
	Defect string
}

// Place is where a change stood in its source: a message of a topic, a line of a
// file. The zero Place is none.
type Place struct {
	// In is the topic's or file's name.
	In string
	// Part is the topic's partition, or -1 where there are none.
	Part int32
	// At is the offset or the line.
	At int64
}

// String is like "couchdb.binlog/3@42"; "" for none.
func (p Place) String() string {
	switch {
	case p.In == "":
		return ""
	case p.Part < 0:
		return p.In + "@" + strconv.FormatInt(p.At, 10)
	}
	return p.In + "/" + strconv.Itoa(int(p.Part)) + "@" + strconv.FormatInt(p.At, 10)
}

// Batch is what one Next returned. Last is the position after all of Changes;
// it is only ever a position that came with delivered rows, or, for an empty
// batch, one that the source gave for "nothing new since".
type Batch struct {
	Changes []Change
	Last    Position
	// Seq is the newest sequence of the database behind the source of which all
	// was delivered by Last. Empty when it is not known, or when Last is itself
	// such a sequence.
	Seq string
	// Pending is the source's estimate of the rows still to come; advisory.
	Pending int64
	// CaughtUp says that the source had nothing more when the batch ended.
	CaughtUp bool
	// Bytes are the bytes of rows read for this batch.
	Bytes int64
}

// Limit closes a batch: whichever of the three is reached first. The zero
// value of a field means the source's default for it.
type Limit struct {
	// Rows is the largest number of changes in a batch.
	Rows int
	// Bytes is the size in bytes of rows after which a batch is closed; one
	// row alone may be larger.
	Bytes int64
	// Wait is how long a batch may stay open after its first row.
	Wait time.Duration
	// Idle is how long Next waits for a first row before it returns an empty
	// batch with CaughtUp set; without CaughtUp when the source could not be
	// reached all that time. Zero returns as soon as the source says that there
	// is nothing more.
	Idle time.Duration
}

// Identity names the thing behind a source, so that a position is never used
// on another one.
type Identity struct {
	// Kind is "couchdb", "kafka" or "ndjson".
	Kind string
	// Name is the database's, topic's or folder's name, never a URL.
	Name string
	// Incarnation tells a database from one deleted and created again under
	// the same name (CouchDB's instance_start_time). Empty when unknown.
	Incarnation string
	// PurgeSeq is the source's purge sequence, as text. Empty when unknown.
	PurgeSeq string
	// Leaves says that the source lists leaf revisions, so that a table whose
	// ordering rule is the leaf sum can be fed from it.
	Leaves bool
}

// Source yields changes in batches. It is pulled, never pushing: the caller
// asks for the next batch after a position that it has made durable.
type Source interface {
	// Identify reads the identity of what stands behind the source now.
	Identify(ctx context.Context) (Identity, error)
	// Next returns the changes after a position. It retries what is
	// temporary by itself and returns an error only when somebody must act,
	// or when ctx is done.
	Next(ctx context.Context, after Position, limit Limit) (Batch, error)
	// Now is the position after everything the source holds at this moment.
	Now(ctx context.Context) (Position, error)
	Close() error
}

// Purger is a Source whose documents can be purged: removed without a trace in
// its feed.
type Purger interface {
	Source
	// Purged lists the ids that purges named since the purge sequence after
	// ("" for none), and the purge sequence that it has looked up to. A source
	// that remembers only so many may list ids that were listed before.
	Purged(ctx context.Context, after string) (ids []string, seq string, err error)
	// Read returns the present states of documents, as their rows would show
	// them; of a document that the source does not hold, an Absent one.
	Read(ctx context.Context, ids []string) ([]Change, error)
}

// Acknowledged is a Source that wants to know what was made durable: it may give
// up what it kept for a position before.
type Acknowledged interface {
	Source
	// Committed says that everything up to a position is in a completed commit. It
	// is called again with the last one after a start.
	Committed(ctx context.Context, at Position) error
}

// Gapped is a Source that can be caught up with and yet know of more that it
// cannot deliver, since something before it is missing or not whole.
type Gapped interface {
	Source
	// Gap says what is missing, as an ErrChain; nil when nothing is. It speaks of
	// the last Next.
	Gap() error
}

// Sentinels that callers branch on.
var (
	// ErrChain: files that were carried here are not a whole chain: one is missing,
	// changed, doubled, out of order or of another chain.
	ErrChain = errors.New("the chain of files is broken")
	// ErrBusy: another process writes there.
	ErrBusy = errors.New("another process is at work there")
	// ErrNotFound: the database, topic or folder does not exist.
	ErrNotFound = errors.New("source does not exist")
	// ErrUnauthorized: the credentials are missing, wrong or not enough.
	ErrUnauthorized = errors.New("source refused the credentials")
	// ErrPosition: the source cannot read the position it was given.
	ErrPosition = errors.New("source cannot read this position")
	// ErrLeaves: a change lists no leaf revisions, and the table orders by them.
	ErrLeaves = errors.New("no leaf revisions")
	// ErrRecreated: the source is not the one that the position came from.
	ErrRecreated = errors.New("source was deleted and created again")
)
