// Package compaction keeps a table small and quick to read beside a running
// ingest: plans of what to do are pure functions of slices and instants, runs
// do what a plan says, and Services decides when (docs/operations.md).
package compaction

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/couch2hudi/couch2hudi/commitmeta"
	"github.com/couch2hudi/couch2hudi/hudi"
)

// Policy says when slices are compacted; the zero value of each field is its
// default.
type Policy struct {
	// MaxDeltaCommits is the number of log files with which a slice is compacted;
	// 10 by default. A commit of ours writes one to each file group.
	MaxDeltaCommits int
	// MaxAge is how old a slice's oldest log file gets; 10 minutes by default.
	// Read-optimized views are that old, and what a plan and its run take.
	MaxAge time.Duration
	// LogBytes are bytes of log files with which a slice is compacted; 256 MiB by
	// default.
	LogBytes int64
	// LogRatio is the part of the base file's bytes that log files may have,
	// unless they are small; 0.5 by default.
	LogRatio float64
	// MaxIO bounds the bytes that one plan reads and writes; 4 GiB by default.
	// The slices that need it most come first, and one slice is always taken.
	MaxIO int64
	// MinGap is the time between two plans; a tenth of MaxAge by default. It
	// keeps commits of every second from rewriting base files every ten.
	MinGap time.Duration
}

const (
	defaultMaxDeltaCommits = 10
	defaultMaxAge          = 10 * time.Minute
	defaultLogBytes        = 256 << 20
	defaultLogRatio        = 0.5
	defaultMaxIO           = 4 << 30
	// gapShare is the part of MaxAge that MinGap is.
	gapShare = 10
	// smallLogs are never compacted for their share of the base file.
	smallLogs = 16 << 20
)

func (p Policy) withDefaults() Policy {
	p.MaxDeltaCommits = cmp.Or(p.MaxDeltaCommits, defaultMaxDeltaCommits)
	p.MaxAge = cmp.Or(p.MaxAge, defaultMaxAge)
	p.LogBytes = cmp.Or(p.LogBytes, defaultLogBytes)
	p.LogRatio = cmp.Or(p.LogRatio, defaultLogRatio)
	p.MaxIO = cmp.Or(p.MaxIO, defaultMaxIO)
	p.MinGap = cmp.Or(p.MinGap, p.MaxAge/gapShare)
	return p
}

// History is what slices themselves do not say. Its times are those of instants,
// as Time.Clock reads them.
type History struct {
	// Last is the instant of the last compaction planned, zero when there was
	// none.
	Last time.Time
	// Oldest is when the oldest log file of a slice was written. A slice that is
	// not in it is older than all that is known.
	Oldest map[hudi.Location]time.Time
	// Busy are file groups that somebody else is rewriting: pending clusterings.
	Busy map[hudi.Location]bool
}

// PlanCompact says which of the latest slices are to be compacted now, those
// that need it most first; false when none is, or when the last plan was a
// moment ago. Slices of a pending compaction or clustering are left alone. It is
// pure.
func PlanCompact(latest []hudi.Slice, h History, p Policy, now time.Time) (commitmeta.CompactionPlan, bool) {
	p = p.withDefaults()
	if !h.Last.IsZero() && now.Sub(h.Last) < p.MinGap {
		return commitmeta.CompactionPlan{}, false
	}
	type candidate struct {
		slice *hudi.Slice
		need  float64
	}
	var due []candidate
	for i := range latest {
		s := &latest[i]
		if len(s.Logs) == 0 || s.Compacting != "" || h.Busy[s.Location] {
			continue
		}
		if need := p.need(s, h, now); need >= 1 {
			due = append(due, candidate{s, need})
		}
	}
	slices.SortFunc(due, func(a, b candidate) int {
		return cmp.Or(-cmp.Compare(a.need, b.need), strings.Compare(a.slice.Partition, b.slice.Partition),
			cmp.Compare(a.slice.File, b.slice.File))
	})
	var plan commitmeta.CompactionPlan
	left := p.MaxIO
	for _, c := range due {
		o := operation(c.slice)
		if left -= rewriteShares * bytesOf(c.slice); left < 0 && len(plan.Operations) > 0 {
			break
		}
		plan.Operations = append(plan.Operations, o)
	}
	return plan, len(plan.Operations) > 0
}

// rewriteShares: what is read is written again, or most of it.
const rewriteShares = 2

// need is how much a slice needs a compaction: 1 and more is due.
func (p Policy) need(s *hudi.Slice, h History, now time.Time) float64 {
	logs := float64(bytesOf(s) - s.Base.Size)
	need := max(float64(len(s.Logs))/float64(p.MaxDeltaCommits), logs/float64(p.LogBytes))
	if logs >= smallLogs {
		need = max(need, logs/(p.LogRatio*float64(max(s.Base.Size, 1))))
	}
	at, known := h.Oldest[s.Location]
	if !known {
		return max(need, 1)
	}
	return max(need, float64(now.Sub(at))/float64(p.MaxAge))
}

// bytesOf are those of all files of a slice.
func bytesOf(s *hudi.Slice) int64 {
	n := s.Base.Size
	for _, f := range s.Logs {
		n += f.Size
	}
	return n
}

// operation is the compaction of a slice, with the metrics that Hudi's own plans
// have.
func operation(s *hudi.Slice) commitmeta.CompactionOperation {
	const megabyte = 1 << 20
	o := commitmeta.CompactionOperation{Location: s.Location, Instant: s.Instant, Base: s.Base.Name}
	for _, f := range s.Logs {
		o.Logs = append(o.Logs, f.Name)
	}
	logs := bytesOf(s) - s.Base.Size
	written := s.Base.Size
	if written == 0 {
		written = logs
	}
	read, write := float64(s.Base.Size+logs)/megabyte, float64(written)/megabyte
	o.Metrics = map[string]float64{commitmeta.MetricLogFiles: float64(len(s.Logs)), commitmeta.MetricLogBytes: float64(logs),
		commitmeta.MetricReadMB: read, commitmeta.MetricWriteMB: write, commitmeta.MetricReadWriteMB: read + write}
	return o
}
