package ndjson

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"sync"
	"time"

	"github.com/couch2hudi/couch2hudi/changes"
)

// Options say what to read and how. The zero value of each field but Folder is
// its default.
type Options struct {
	// Folder is where the files arrive. It must exist.
	Folder string
	// Plain reads files without manifests, of other tools: names that end in
	// .ndjson, .jsonl or .json, and .gz or .zst after that, in the order of their
	// names.
	Plain bool
	// Leaves says of plain files that their rows list all leaf revisions
	// (style=all_docs).
	Leaves bool
	// Consumed says what becomes of files once their rows are in a commit.
	Consumed Consumed
	// MaxRowBytes is the largest row that is read; 64 MiB by default.
	MaxRowBytes int
	// Poll is how often the folder is looked at while nothing comes; 1 s by default.
	Poll time.Duration
	// Settle is how long a file that is not what it must be has to stay as it is
	// before it counts as damaged instead of being copied; 1 minute by default. A
	// plain file is read once it has stayed as it is for as long as Quiet, 2 s by
	// default.
	Settle, Quiet time.Duration
	// Events are told what happens.
	Events Events
	// Clock is the wall clock; time.Now by default.
	Clock func() time.Time
}

// Consumed says what becomes of files that were read.
type Consumed struct {
	// Delete removes them; MoveTo is the folder that they are moved to.
	Delete bool
	MoveTo string
}

// Events are told what the source does. Every func may be nil.
type Events struct {
	// Opened: a file is whole and is read from now on.
	Opened func(file string)
	// Waiting: what is waited for changed; empty when it came.
	Waiting func(reason string)
	// Warned: something failed that does not stop anything.
	Warned func(reason string)
}

const (
	defaultMaxRow = 64 << 20
	defaultPoll   = time.Second
	defaultSettle = time.Minute
	defaultQuiet  = 2 * time.Second
	defaultRows   = 10_000
	defaultBytes  = 64 << 20
)

func (o Options) withDefaults() Options {
	if o.MaxRowBytes <= 0 {
		o.MaxRowBytes = defaultMaxRow
	}
	if o.Poll <= 0 {
		o.Poll = defaultPoll
	}
	if o.Settle <= 0 {
		o.Settle = defaultSettle
	}
	if o.Quiet <= 0 {
		o.Quiet = defaultQuiet
	}
	if o.Clock == nil {
		o.Clock = time.Now
	}
	return o
}

// ErrClosed is what calls of a closed Source return.
var ErrClosed = errors.New("source is closed")

// Source reads what was carried into a folder. Its methods may be called from
// several goroutines; calls of Next wait for each other.
type Source struct {
	o    Options
	rows rowReader
	// stop is closed by Close.
	stop     chan struct{}
	stopOnce sync.Once

	// mu is held for the whole of a Next.
	mu     sync.Mutex
	files  shelf
	reader *reader

	// state guards what other calls ask for while a Next runs.
	state   sync.Mutex
	waiting string
	gap     error
}

var (
	_ changes.Acknowledged = (*Source)(nil)
	_ changes.Gapped       = (*Source)(nil)
)

// shelf knows the order of the files in a folder.
type shelf interface {
	// open opens the file that a place is in, or the one that follows it. Without
	// one it says why.
	open(ctx context.Context, p place) (*reader, wait, error)
	// end is the place after all that is there.
	end(ctx context.Context) (place, error)
	// incarnation is that of the database that the files are of, "" when unknown.
	incarnation() string
	// consumed are the names of the files that were read to their end by a place.
	consumed(p place) ([]string, error)
}

// wait is why there is no next file. gap says that later ones are there.
type wait struct {
	reason string
	gap    bool
}

// reader reads one file.
type reader struct {
	lines *lines
	at    place
	name  string
	// rows is how many there are, -1 when that is not known; seq is the
	// database's sequence at the end.
	rows int64
	seq  string
}

// Open prepares to read a folder, which must exist.
func Open(o Options) (*Source, error) {
	o = o.withDefaults()
	if err := folderExists(o.Folder); err != nil {
		return nil, err
	}
	if o.Consumed.MoveTo != "" {
		if err := folderExists(o.Consumed.MoveTo); err != nil {
			return nil, fmt.Errorf("where consumed files go: %w", err)
		}
	}
	s := &Source{o: o, stop: make(chan struct{}), rows: rowReader{plain: o.Plain, leaves: o.Leaves}}
	w := &watch{clock: o.Clock, seen: map[string]sighting{}}
	if o.Plain {
		s.files = &plainFiles{o: o, watch: w}
	} else {
		s.files = &bundles{o: o, watch: w}
	}
	return s, nil
}

// Identify implements changes.Source. The incarnation is known once a manifest has
// arrived.
func (s *Source) Identify(context.Context) (changes.Identity, error) {
	if s.closed() {
		return changes.Identity{}, ErrClosed
	}
	if err := folderExists(s.o.Folder); err != nil {
		return changes.Identity{}, err
	}
	return changes.Identity{Kind: "ndjson", Name: filepath.Base(s.o.Folder), Incarnation: s.files.incarnation(), Leaves: !s.o.Plain || s.o.Leaves}, nil
}

// Now implements changes.Source.
func (s *Source) Now(ctx context.Context) (changes.Position, error) {
	if s.closed() {
		return "", ErrClosed
	}
	p, err := s.files.end(ctx)
	return p.position(), err
}

// Gap implements changes.Gapped.
func (s *Source) Gap() error {
	s.state.Lock()
	defer s.state.Unlock()
	return s.gap
}

func (s *Source) closed() bool {
	select {
	case <-s.stop:
		return true
	default:
		return false
	}
}

// Next implements changes.Source. Files that are damaged, doubled, out of order or
// foreign are changes.ErrChain; one that is missing is waited for.
func (s *Source) Next(ctx context.Context, after changes.Position, limit changes.Limit) (changes.Batch, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed() {
		return changes.Batch{}, ErrClosed
	}
	p, err := parsePlace(after, s.o.Plain)
	if err != nil {
		return changes.Batch{}, err
	}
	if s.reader != nil && s.reader.at != p {
		s.drop()
	}
	b := &filling{limit: withDefaults(limit), at: p, clock: s.o.Clock}
	b.Last = after
	began := s.o.Clock()
	for !b.full() {
		waits, err := s.fill(ctx, b)
		switch {
		case err != nil && len(b.Changes) > 0:
			// What was read stands; the next call finds the same again.
			s.drop()
			return b.Batch, nil
		case err != nil:
			s.drop()
			return changes.Batch{}, err
		case !waits:
			continue
		case len(b.Changes) > 0 || s.o.Clock().Sub(began) >= limit.Idle:
			b.CaughtUp = true
			return b.Batch, nil
		}
		if err := s.pause(ctx, limit.Idle-s.o.Clock().Sub(began)); err != nil {
			return changes.Batch{}, err
		}
	}
	return b.Batch, nil
}

func withDefaults(l changes.Limit) changes.Limit {
	if l.Rows <= 0 {
		l.Rows = defaultRows
	}
	if l.Bytes <= 0 {
		l.Bytes = defaultBytes
	}
	return l
}

// filling is a batch in the making, at the place after its last row.
type filling struct {
	changes.Batch
	limit changes.Limit
	at    place
	clock func() time.Time
	// opened is when its first row came.
	opened time.Time
}

func (b *filling) full() bool {
	if len(b.Changes) >= b.limit.Rows || b.Bytes >= b.limit.Bytes {
		return true
	}
	const often = 256 // rows between two looks at the clock
	return b.limit.Wait > 0 && len(b.Changes)%often == 1 && b.clock().Sub(b.opened) >= b.limit.Wait
}

// fill reads from the file that b is at until b is full or the file ends. It says
// that it waits when there is no such file.
func (s *Source) fill(ctx context.Context, b *filling) (waits bool, err error) {
	if err := ctx.Err(); err != nil {
		return false, err
	}
	if s.reader == nil {
		r, why, err := s.files.open(ctx, b.at)
		if err != nil {
			return false, err
		}
		s.tell(why)
		if r == nil {
			return true, nil
		}
		s.reader = r
		if s.o.Events.Opened != nil {
			s.o.Events.Opened(r.name)
		}
	}
	r := s.reader
	for !b.full() {
		line, err := r.lines.next(true)
		if errors.Is(err, io.EOF) {
			return false, s.endFile(b)
		}
		if err != nil {
			return false, fmt.Errorf("%w: %s, after row %d: %w", changes.ErrChain, r.name, r.at.Row, err)
		}
		r.at.Row++
		s.add(b, line)
		b.at = r.at
		b.Last = b.at.position()
	}
	if r.at.Row == r.rows {
		return false, s.endFile(b)
	}
	if r.rows >= 0 {
		b.Pending = r.rows - r.at.Row
	}
	return false, nil
}

// add takes a row.
func (s *Source) add(b *filling, line []byte) {
	size := int64(len(line)) + 1
	if s.o.Plain {
		var skip bool
		if line, skip = trimRow(line); skip {
			return
		}
	}
	c := s.rows.read(line)
	if len(b.Changes) == 0 {
		b.opened = s.o.Clock()
	}
	if c.Seq != "" {
		b.Seq = c.Seq
	}
	b.Changes = append(b.Changes, c)
	b.Bytes += size
}

// endFile leaves a file that was read to its end.
func (s *Source) endFile(b *filling) error {
	r := s.reader
	if r.rows >= 0 && r.at.Row != r.rows {
		return fmt.Errorf("%w: %s has %d rows, its manifest says %d", changes.ErrChain, r.name, r.at.Row, r.rows)
	}
	r.at.Done = true
	b.at, b.Pending = r.at, 0
	b.Last = b.at.position()
	if r.seq != "" {
		b.Seq = r.seq
	}
	s.drop()
	return nil
}

func (s *Source) drop() {
	if s.reader != nil {
		s.reader.lines.done()
		s.reader = nil
	}
}

// tell says what is waited for, when that changed.
func (s *Source) tell(w wait) {
	s.state.Lock()
	changed := w.reason != s.waiting
	s.waiting, s.gap = w.reason, nil
	if w.gap {
		s.gap = fmt.Errorf("%w: %s", changes.ErrChain, w.reason)
	}
	s.state.Unlock()
	if changed && s.o.Events.Waiting != nil {
		s.o.Events.Waiting(w.reason)
	}
}

// pause waits until it is worth looking again.
func (s *Source) pause(ctx context.Context, most time.Duration) error {
	timer := time.NewTimer(max(0, min(s.o.Poll, most)))
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-s.stop:
		return ErrClosed
	case <-timer.C:
		return nil
	}
}

// Close ends a Next that waits. Closing twice is harmless.
func (s *Source) Close() error {
	s.stopOnce.Do(func() { close(s.stop) })
	s.mu.Lock()
	defer s.mu.Unlock()
	s.drop()
	return nil
}
