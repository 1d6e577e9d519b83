package pipeline

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/couch2hudi/couch2hudi/changes"
	"github.com/couch2hudi/couch2hudi/reader"
)

const (
	// lookPause is how long what seems to differ is left alone.
	lookPause = 3 * time.Second
	// againAtOnce is how many documents are held while they are looked at again.
	againAtOnce = 100
	// doubtShare is the part of the memory that doubts may take.
	doubtShare = 4
)

// sleep waits, or returns why it did not.
func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

// twice judges what was read, and looks at what seems to differ once more, later.
func (v *verifier) twice(ctx context.Context, purger changes.Purger) error {
	v.doubts = v.doubting()
	if err := v.merged(ctx, v.doubt); err != nil || v.doubtful == 0 {
		return err
	}
	if err := v.o.Sleep(ctx, v.o.Pause); err != nil {
		return err
	}
	if err := v.sorter.Close(); err != nil {
		return err
	}
	v.sorter, v.doubts = v.doubts, nil
	if err := v.readMoving(ctx); err != nil {
		return fmt.Errorf("read what changed: %w", err)
	}
	a := again{v: v, purger: purger}
	if err := v.merged(ctx, a.add); err != nil {
		return err
	}
	return a.flush(ctx)
}

func (v *verifier) doubting() *reader.Sorter {
	return reader.NewSorter(reader.Options{Memory: max(1, v.o.Memory/doubtShare), TempDir: v.o.TempDir, TempFile: v.o.TempFile})
}

// doubt counts a document that is as it should be, and keeps one that is not.
func (v *verifier) doubt(ctx context.Context, d *document) error {
	row := v.pick(d)
	if v.coming(d, row) || d.inSource && d.source.is(isRejected) || v.compare(d, row) == "" {
		return v.judge(ctx, d)
	}
	v.doubtful++
	entries := slices.Clone(d.rows)
	if d.inSource {
		entries = append(entries, d.source)
	}
	for _, e := range entries {
		e.flags |= isDoubt
		if err := v.keep(v.doubts, d.id, e); err != nil {
			return err
		}
	}
	return nil
}

// again are documents that are looked at again.
type again struct {
	v      *verifier
	purger changes.Purger
	held   []document
}

func (a *again) add(ctx context.Context, d *document) error {
	if !d.doubted {
		return nil // it only changed meanwhile
	}
	kept := *d
	kept.rows = slices.Clone(d.rows)
	if a.held = append(a.held, kept); len(a.held) < againAtOnce {
		return nil
	}
	return a.flush(ctx)
}

// flush asks the source for the documents that are held, and judges them.
func (a *again) flush(ctx context.Context) error {
	var ids []string
	for i := range a.held {
		if d := &a.held[i]; a.asked(d) {
			ids = append(ids, d.id)
		}
	}
	now, err := a.read(ctx, ids)
	if err != nil {
		return err
	}
	for i := range a.held {
		d := &a.held[i]
		if a.asked(d) {
			a.settle(d, now)
		}
		if err := a.v.judge(ctx, d); err != nil {
			return err
		}
	}
	a.held = a.held[:0]
	return nil
}

// asked says that a document is asked for. Feeds leave design documents out, so asking
// says nothing of theirs.
func (a *again) asked(d *document) bool {
	return !a.v.coming(d, a.v.pick(d)) && !strings.HasPrefix(d.id, "_design/")
}

// read are the states of documents, as they are compared.
func (a *again) read(ctx context.Context, ids []string) (map[string]entry, error) {
	now := make(map[string]entry, len(ids))
	if len(ids) == 0 {
		return now, nil
	}
	states, err := a.purger.Read(ctx, ids)
	if err != nil {
		return nil, fmt.Errorf("read documents again: %w", err)
	}
	states = slices.DeleteFunc(states, func(c changes.Change) bool { return c.Absent })
	shaped, err := a.v.o.Normalizer.Normalize(changes.Batch{Changes: states}, a.v.schema)
	if err != nil {
		return nil, fmt.Errorf("normalize: %w", err)
	}
	for i := range shaped.Records {
		now[strings.Clone(a.v.id(&shaped.Records[i]))] = a.v.entry(&shaped.Records[i], fromSource)
	}
	for i := range shaped.Rejects {
		now[strings.Clone(shaped.Rejects[i].Change.ID)] = entry{flags: fromSource | isRejected}
	}
	return now, nil
}

// settle gives a document the state that it has now. If that is another one than the
// feed showed, and not the row's, it says nothing of the row: it may be newer than
// what is due.
func (a *again) settle(d *document, now map[string]entry) {
	e, there := now[d.id]
	if there == d.inSource && (!there || e == d.source) {
		return
	}
	d.source, d.inSource = e, there
	if a.v.compare(d, a.v.pick(d)) == "" {
		a.v.out.Settled++
		return
	}
	d.changed = true
}
