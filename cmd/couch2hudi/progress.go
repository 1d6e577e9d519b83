package main

import (
	"fmt"
	"io"
	"log/slog"
	"sync"
	"time"

	"github.com/couch2hudi/couch2hudi/index/keycache"
	"github.com/couch2hudi/couch2hudi/pipeline"
	"github.com/couch2hudi/couch2hudi/status"
)

// progress shows what an ingest does: a live line on a terminal, one log line
// a commit elsewhere.
type progress struct {
	log  *slog.Logger
	live io.Writer // nil: no live line
	now  func() time.Time

	mu      sync.Mutex
	began   time.Time
	drawn   time.Time
	rows    int64 // read since the start
	pending int64
	last    pipeline.Progress
	lastAt  time.Time
	window  []sample
}

// sample is a point for the rate of the last seconds.
type sample struct {
	at   time.Time
	rows int64
}

const (
	drawEvery  = 200 * time.Millisecond
	rateWindow = 5 * time.Second
	// longest is the most that is estimated.
	longest = 1000 * time.Hour
	// logEvery is how often a long piece of work says in the log how far it is.
	logEvery = 10 * time.Second
)

func newProgress(log *slog.Logger, live io.Writer) *progress {
	p := &progress{log: log, live: live, now: time.Now}
	p.began = p.now()
	return p
}

// events are the hooks for the pipeline, for a table that tells this log, and is shown
// there.
func (p *progress) events(log *slog.Logger, shown *status.Table) pipeline.Events {
	return pipeline.Events{
		Committed: func(c pipeline.Progress) {
			shown.Committed(c)
			p.committed(c, log)
		},
		Read: func(r pipeline.Reading) {
			shown.Read(r)
			p.read(r)
		},
	}
}

func (p *progress) read(r pipeline.Reading) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.rows += r.Rows
	p.pending = r.Pending
	now := p.now()
	p.window = append(p.window, sample{now, p.rows})
	for len(p.window) > 1 && now.Sub(p.window[0].at) > rateWindow {
		p.window = p.window[1:]
	}
	if now.Sub(p.drawn) >= drawEvery {
		p.draw(now)
	}
}

func (p *progress) committed(c pipeline.Progress, log *slog.Logger) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.last, p.lastAt, p.pending = c, p.now(), c.Pending
	if p.live != nil {
		p.draw(p.lastAt)
		return
	}
	if c.Sources > 1 {
		log = log.With(keyDatabases, c.Sources)
	}
	log.Info("committed", keyInstant, string(c.Instant), keyRows, c.Stats.Rows, keyInserts, c.Stats.Inserts,
		keyUpserts, c.Stats.Upserts, keyDeletes, c.Stats.Deletes, keyReplayed, c.Stats.Replayed,
		keyRescued, c.Stats.Rescued, keyQuarantined, c.Stats.Quarantined, keyElsewhere, c.Stats.Elsewhere, keyLeft, c.Stats.Left, keyFiles, c.Files, keyBytes, c.Bytes,
		keyPending, c.Pending, keyEstimate, p.left(p.lastAt), keyTook, c.Took, keyLastSeq, c.LastSeq)
}

// building shows how the key cache comes into being.
func (p *progress) building(b keycache.Building) {
	if b.Groups == 0 {
		return // a new table
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.now()
	begins, ends := b.Done == 0, b.Done == b.Groups
	if p.live != nil {
		if begins || ends || now.Sub(p.drawn) >= drawEvery {
			p.drawn = now
			_, _ = fmt.Fprintf(p.live, "\r\x1b[Kkey cache: %d of %d file groups, %d keys", b.Done, b.Groups, b.Keys)
		}
		return
	}
	switch {
	case begins:
		p.log.Info("building the key cache", keyReason, b.Reason, keyGroups, b.Groups)
	case ends:
		p.log.Info("key cache built", keyKeys, b.Keys, keyGroups, b.Groups, keyTook, b.Took)
	case now.Sub(p.drawn) >= logEvery:
		p.drawn = now
		p.log.Info("building the key cache", keyKeys, b.Keys, keyDone, b.Done, keyGroups, b.Groups)
	}
}

// draw overwrites the live line. The caller holds the lock.
func (p *progress) draw(now time.Time) {
	if p.live == nil {
		return
	}
	p.drawn = now
	last := "no commit yet"
	if p.last.Instant != "" {
		last = fmt.Sprintf("last commit %s (%d rows, %s ago)", p.last.Instant, p.last.Stats.Rows,
			now.Sub(p.lastAt).Round(time.Second))
	}
	left := ""
	if d := p.left(now); d > 0 {
		left = fmt.Sprintf(" (about %s)", d)
	}
	_, _ = fmt.Fprintf(p.live, "\r\x1b[K%d rows, %.0f rows/s, %d pending%s, %s", p.rows, p.rate(now), p.pending, left, last)
}

// left is about how long the pending rows take at the rate of the last seconds; 0 when
// that is not known, or less than a second.
func (p *progress) left(now time.Time) time.Duration {
	rate := p.rate(now)
	if p.pending <= 0 || rate <= 0 {
		return 0
	}
	seconds := min(float64(p.pending)/rate, longest.Seconds())
	return time.Duration(seconds) * time.Second
}

func (p *progress) rate(now time.Time) float64 {
	if len(p.window) == 0 {
		return 0
	}
	first := p.window[0]
	seconds := now.Sub(first.at).Seconds()
	if seconds <= 0 {
		return 0
	}
	return float64(p.rows-first.rows) / seconds
}

// done ends the live line.
func (p *progress) done() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.live != nil && !p.drawn.IsZero() {
		p.draw(p.now())
		_, _ = fmt.Fprintln(p.live)
	}
}
