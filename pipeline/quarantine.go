package pipeline

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"strings"

	"github.com/couch2hudi/couch2hudi/changes"
	"github.com/couch2hudi/couch2hudi/hudi"
	"github.com/couch2hudi/couch2hudi/normalize"
	"github.com/couch2hudi/couch2hudi/table"
)

// ErrQuarantine says that more of the last rows are broken than may be: rather than
// one document something about the source, or how it is read, is wrong.
var ErrQuarantine = errors.New("too many changes would be quarantined")

const (
	quarantineFolder = "quarantine/"
	quarantineSuffix = ".ndjson"
	settledSuffix    = ".settled.json"
)

// quarantined is one line of a quarantine file: the whole change and why it
// could not be applied. Texts that are not JSON are kept as base64.
type quarantined struct {
	ID      string   `json:"id,omitempty"`
	Rev     string   `json:"rev,omitempty"`
	Leaves  []string `json:"leaves,omitempty"`
	Deleted bool     `json:"deleted,omitempty"`
	Seq     string   `json:"seq,omitempty"`
	// Source and Epoch are the checkpoint's.
	Source string `json:"source,omitempty"`
	Epoch  int64  `json:"epoch,omitempty"`
	// Place is where in the source it stands, such as topic/partition@offset.
	Place  string          `json:"place,omitempty"`
	Reason string          `json:"reason"`
	Doc    json.RawMessage `json:"doc,omitempty"`
	Row    json.RawMessage `json:"row,omitempty"`
	DocRaw []byte          `json:"doc_base64,omitempty"`
	RowRaw []byte          `json:"row_base64,omitempty"`
}

// quarantine renders rejected changes as NDJSON.
func (p *Ingest) quarantine(rejects []normalize.Reject) ([]byte, error) {
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	for i := range rejects {
		c := &rejects[i].Change
		q := quarantined{ID: c.ID, Rev: c.Rev.String(), Deleted: c.Deleted, Seq: c.Seq, Place: c.Place.String(), Source: or(c.Database, p.name), Reason: rejects[i].Reason}
		q.Epoch = p.checkpoint.Sources[q.Source].Epoch
		for _, l := range c.Leaves {
			q.Leaves = append(q.Leaves, l.String())
		}
		q.Doc, q.DocRaw = asJSON(c.Body)
		q.Row, q.RowRaw = asJSON(c.Raw)
		if err := e.Encode(q); err != nil {
			return nil, fmt.Errorf("render quarantined change %q: %w", c.ID, err)
		}
	}
	return out.Bytes(), nil
}

func asJSON(b []byte) (json.RawMessage, []byte) {
	switch {
	case len(b) == 0:
		return nil, nil
	case json.Valid(b):
		return b, nil
	}
	return nil, b
}

// change is the line as the change that it was. What made it broken shows again.
func (q *quarantined) change() changes.Change {
	c := changes.Change{ID: q.ID, Deleted: q.Deleted, Seq: q.Seq, Body: q.Doc, Raw: q.Row}
	if q.DocRaw != nil {
		c.Body = q.DocRaw
	}
	if q.RowRaw != nil {
		c.Raw = q.RowRaw
	}
	var err error
	if c.Rev, err = changes.ParseRev(q.Rev); err != nil {
		c.Defect = q.Reason
	}
	for _, text := range q.Leaves {
		rev, err := changes.ParseRev(text)
		if err != nil {
			c.Defect = q.Reason
			break
		}
		c.Leaves = append(c.Leaves, rev)
	}
	return c
}

// place is where a quarantined change stands: a line of an instant's file.
type place struct {
	instant hudi.Time
	line    int
}

// settled are the places of changes that need no further try, a bit for each line.
type settled map[hudi.Time][]uint64

const wordBits = 64

func (s settled) has(p place) bool {
	words := s[p.instant]
	return p.line/wordBits < len(words) && words[p.line/wordBits]&(1<<(p.line%wordBits)) != 0
}

func (s settled) add(p place) {
	words := s[p.instant]
	for p.line/wordBits >= len(words) {
		words = append(words, 0)
	}
	words[p.line/wordBits] |= 1 << (p.line % wordBits)
	s[p.instant] = words
}

// settledFile is what a retry's commit says of the lines of one file.
type settledFile struct {
	Instant hudi.Time `json:"instant"`
	Lines   []int     `json:"lines"`
}

// Pending is a quarantined change that waits for another try.
type Pending struct {
	ID, Reason, Source string
	Instant            hudi.Time
	line               place
	q                  quarantined
	bytes              int64
}

// Quarantine yields the changes in the quarantine of completed instants that no retry
// has settled, the oldest first. It holds one of them at a time.
func Quarantine(ctx context.Context, v *table.View) iter.Seq2[*Pending, error] {
	return func(yield func(*Pending, error) bool) {
		files, err := v.Aside(ctx, quarantineFolder)
		if err != nil {
			yield(nil, fmt.Errorf("list the quarantine: %w", err))
			return
		}
		done, err := readSettled(ctx, v.Table(), files)
		if err != nil {
			yield(nil, err)
			return
		}
		for _, f := range files {
			if !strings.HasSuffix(f.Name, quarantineSuffix) {
				continue
			}
			if on, err := eachLine(ctx, v.Table(), f, done, yield); err != nil || !on {
				if err != nil {
					yield(nil, fmt.Errorf("read the quarantine of %s: %w", f.Instant, err))
				}
				return
			}
		}
	}
}

func readSettled(ctx context.Context, t *table.Table, files []table.Aside) (settled, error) {
	done := settled{}
	for _, f := range files {
		if !strings.HasSuffix(f.Name, settledSuffix) {
			continue
		}
		r, err := t.OpenAside(ctx, f.Name)
		if err != nil {
			return nil, fmt.Errorf("read what the retry %s settled: %w", f.Instant, err)
		}
		d := json.NewDecoder(io.NewSectionReader(r, 0, r.Size()))
		var one settledFile
		for err = d.Decode(&one); err == nil; err = d.Decode(&one) {
			for _, line := range one.Lines {
				done.add(place{one.Instant, line})
			}
			one = settledFile{}
		}
		if err = errors.Join(notEnd(err), r.Close()); err != nil {
			return nil, fmt.Errorf("read what the retry %s settled: %w", f.Instant, err)
		}
	}
	return done, nil
}

func notEnd(err error) error {
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

// eachLine yields what is pending of one file; false when nobody wants more.
func eachLine(ctx context.Context, t *table.Table, f table.Aside, done settled, yield func(*Pending, error) bool) (on bool, err error) {
	r, err := t.OpenAside(ctx, f.Name)
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	const block = 1 << 20
	in := bufio.NewReaderSize(io.NewSectionReader(r, 0, r.Size()), block)
	for line := 0; ; line++ {
		text, err := in.ReadBytes('\n')
		if len(text) == 0 && errors.Is(err, io.EOF) {
			return true, nil
		}
		if err != nil && !errors.Is(err, io.EOF) {
			return false, err
		}
		p := Pending{Instant: f.Instant, line: place{f.Instant, line}, bytes: int64(len(text))}
		if done.has(p.line) {
			continue
		}
		if err := json.Unmarshal(text, &p.q); err != nil {
			return false, fmt.Errorf("line %d: %w", line+1, err)
		}
		p.ID, p.Reason, p.Source = p.q.ID, p.q.Reason, p.q.Source
		if !yield(&p, nil) {
			return false, nil
		}
	}
}

// quarantineWindow is how many rows MaxShare is a share of.
const quarantineWindow = 1000

// share counts the rejects among the last quarantineWindow rows.
type share struct {
	broken [quarantineWindow]bool
	next   int
	count  int
}

func (s *share) add(broken bool) {
	if s.broken[s.next] {
		s.count--
	}
	if s.broken[s.next] = broken; broken {
		s.count++
	}
	s.next = (s.next + 1) % quarantineWindow
}

// tooMany is an ErrQuarantine when a batch brings the share of rejects above most.
func (s *share) tooMany(rows int, rejects []normalize.Reject, most float64) error {
	if len(rejects) == 0 && s.count == 0 {
		return nil
	}
	broken := make(map[int]*normalize.Reject, len(rejects))
	for i := range rejects {
		broken[rejects[i].Place] = &rejects[i]
	}
	for i := range rows {
		r := broken[i]
		if s.add(r != nil); r == nil || float64(s.count) <= most*quarantineWindow {
			continue
		}
		return fmt.Errorf("%w: %d of the last %d rows are broken, more than quarantine.max_share = %g; the last one, of document %q: %s. "+
			"Nothing of this batch was written: see what is wrong with the source, or raise the limit (1 is none) and start again",
			ErrQuarantine, s.count, quarantineWindow, most, r.Change.ID, r.Reason)
	}
	return nil
}
