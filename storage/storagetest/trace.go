package storagetest

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"

	"github.com/couch2hudi/couch2hudi/storage"
)

// TraceOptions say what a trace holds; nil or the zero value is the default.
type TraceOptions struct {
	// Reads has stat, read and list told too.
	Reads bool
	// Bytes has sizes told.
	Bytes bool
	// Rename, when set, is applied to every name, to take out what differs
	// from run to run.
	Rename func(name string) string
}

// Trace is d whose operations are written to w, a line each, in a form to keep
// as a golden file: no ETags, no times, and of an upload its beginning and its
// end. A line is written when its operation has returned, with the error's
// sentinel when it failed.
func Trace(d storage.Driver, w io.Writer, o *TraceOptions) storage.Driver {
	t := &tracer{w: w}
	if o != nil {
		t.options = *o
	}
	return &wrapper{driver: d, around: t.pass}
}

type tracer struct {
	options TraceOptions
	mu      sync.Mutex
	w       io.Writer
}

func (t *tracer) pass(op Op, do func() error) error {
	err := do()
	if !t.told(op.Kind) && (err == nil || op.Kind != Write) {
		return err
	}
	if t.options.Rename != nil && op.Name != "" {
		op.Name = t.options.Rename(op.Name)
	}
	line := op.String()
	if t.options.Bytes && (op.Kind == Put || op.Kind == Commit) {
		line += fmt.Sprintf(" (%d bytes)", op.Bytes)
	}
	if err != nil {
		line += ": " + plainest(err)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if _, writeErr := fmt.Fprintln(t.w, line); writeErr != nil {
		return errors.Join(err, fmt.Errorf("trace: %w", writeErr))
	}
	return err
}

func (t *tracer) told(kind Kind) bool {
	switch kind {
	case Stat, Read, List:
		return t.options.Reads
	case Write:
		return false
	default:
		return true
	}
}

// plainest is the sentinel in err, whose text is the same everywhere.
func plainest(err error) string {
	sentinels := []error{
		storage.ErrNotExist, storage.ErrExist, storage.ErrChanged, storage.ErrName, storage.ErrLocked, storage.ErrLost, storage.ErrFinished,
		io.EOF, ErrCrashed, ErrFault,
	}
	if i := slices.IndexFunc(sentinels, func(s error) bool { return errors.Is(err, s) }); i >= 0 {
		return sentinels[i].Error()
	}
	return err.Error()
}
