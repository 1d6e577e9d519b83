package main

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/couch2hudi/couch2hudi/pipeline"
)

// The live line and the log say how long the pending rows take at the last seconds'
// rate, and say nothing while that is not known.
func TestEstimate(t *testing.T) {
	var live, logged bytes.Buffer
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	p := newProgress(slog.New(slog.NewTextHandler(&logged, nil)), &live)
	p.now = func() time.Time { return now }
	read := func(rows, pending int64) string {
		live.Reset()
		p.read(pipeline.Reading{Rows: rows, Pending: pending})
		now = now.Add(time.Second)
		return live.String()
	}
	if line := read(500, 10_000); strings.Contains(line, "about") {
		t.Errorf("%q", line)
	}
	if line := read(500, 9_500); !strings.Contains(line, "9500 pending (about 19s)") {
		t.Errorf("%q", line)
	}
	if line := read(500, 0); strings.Contains(line, "about") {
		t.Errorf("%q", line)
	}
	p.live = nil
	p.pending = 0
	p.committed(pipeline.Progress{Instant: "20260102030405000", Pending: 1_000}, p.log)
	if !strings.Contains(logged.String(), "estimate=2s") && !strings.Contains(logged.String(), "estimate=3s") {
		t.Errorf("%s", logged.String())
	}
}
