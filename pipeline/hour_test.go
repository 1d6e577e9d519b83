package pipeline_test

import (
	"flag"
	"os"
	"runtime"
	"testing"
	"time"

	"github.com/couch2hudi/couch2hudi/compaction"
)

var (
	hourPlot    = flag.String("hour.plot", "", "write TestHour's figures as SVG into this file, and simulate the whole hour")
	hourSeconds = flag.Int("hour.seconds", 240, "how many seconds TestHour simulates without -hour.plot")
)

// sample is the table and the process at a moment.
type sample struct {
	at   time.Duration
	held held
	// heap is what is live on the heap, in MiB.
	heap float64
}

// TestHour ingests ten rows a second, eight of them updates, with compaction,
// cleaning and archival, by an injected clock that stamps the files, too. Files,
// timeline and heap level off: what the last third of the time holds at most is
// hardly more than what the second did.
func TestHour(t *testing.T) {
	const hour = 3600
	seconds := *hourSeconds
	if *hourPlot != "" {
		seconds = hour
	}
	// All times are those of an hour, scaled.
	scaled := func(d time.Duration) time.Duration { return d * time.Duration(seconds) / hour }
	s := &secondly{tb: t, fresh: 1, first: 2000, services: compaction.Options{
		Mode:    compaction.Inline,
		Policy:  compaction.Policy{MaxAge: scaled(10 * time.Minute)},
		Clean:   compaction.CleanPolicy{Retain: scaled(15 * time.Minute)},
		Archive: compaction.ArchivePolicy{KeepMin: seconds / 6, KeepMax: seconds/6 + seconds/54},
	}}
	var samples []sample
	s.committed = func(n int) {
		if n%max(1, seconds/120) == 0 {
			samples = append(samples, sample{time.Duration(n) * time.Second, s.held(), heapMiB()})
		}
	}
	s.open()
	s.run(seconds)
	most := func(of func(sample) float64, from, to int) (most float64) {
		for _, p := range samples[len(samples)*from/3 : len(samples)*to/3] {
			most = max(most, of(p))
		}
		return most
	}
	for _, f := range figures() {
		second, last := most(f.of, 1, 2), most(f.of, 2, 3)
		t.Logf("%s: at most %.1f in the second third, %.1f in the last", f.name, second, last)
		const growth = 1.25
		if last > growth*second+f.slack {
			t.Errorf("%s grows: at most %.1f in the second third, %.1f in the last", f.name, second, last)
		}
	}
	if *hourPlot != "" {
		s.must(os.WriteFile(*hourPlot, plot(samples), 0o644))
	}
}

func heapMiB() float64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc) / (1 << 20)
}

// figure is one curve.
type figure struct {
	name, colour string
	of           func(sample) float64
	// slack is how much more is no growth.
	slack float64
}

func figures() []figure {
	return []figure{
		{"files that a snapshot opens", "#1b7837", func(p sample) float64 { return float64(p.held.live) }, 10},
		{"base and log files", "#2166ac", func(p sample) float64 { return float64(p.held.data) }, 20},
		{"all files", "#762a83", func(p sample) float64 { return float64(p.held.files) }, 50},
		{"instants of the active timeline", "#b2182b", func(p sample) float64 { return float64(p.held.instants) }, 5},
		{"live heap, MiB", "#e08214", func(p sample) float64 { return p.heap }, 8},
	}
}
