package status

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// target is a metastore that is told of a table.
type target struct {
	name    string
	instant string // of which it knows
	at      time.Time
	failure string    // until it works again
	since   time.Time // when the sync that goes on began; zero: none does
}

// targetRow is one as the page shows it.
type targetRow struct {
	Name, State string
	Failed      bool
}

// Target notes a metastore that is told of the table.
func (t *Table) Target(name string) {
	t.b.m.syncFailures.WithLabelValues(t.name, name).Add(0)
	t.b.m.syncing.WithLabelValues(t.name, name).Set(0)
	t.b.mu.Lock()
	defer t.b.mu.Unlock()
	t.target(name)
}

// target is the metastore's note, made when there is none. The board is locked.
func (t *Table) target(name string) *target {
	at := slices.IndexFunc(t.targets, func(g *target) bool { return g.name == name })
	if at < 0 {
		t.targets = append(t.targets, &target{name: name})
		slices.SortFunc(t.targets, func(a, b *target) int { return strings.Compare(a.name, b.name) })
		return t.target(name)
	}
	return t.targets[at]
}

// Syncing notes that a sync of a metastore begins or ends.
func (t *Table) Syncing(name string, on bool) {
	var since time.Time
	if on {
		since = t.b.o.Clock()
	}
	t.b.mu.Lock()
	defer t.b.mu.Unlock()
	t.target(name).since = since
}

// Synced notes that a metastore knows the table as of a commit.
func (t *Table) Synced(name, instant string, took time.Duration) {
	now := t.b.o.Clock()
	t.b.m.syncs.WithLabelValues(t.name, name).Inc()
	t.b.m.syncSeconds.WithLabelValues(t.name, name).Add(took.Seconds())
	t.b.m.synced.WithLabelValues(t.name, name).Set(float64(now.UnixMilli()) / 1000)
	t.b.m.syncing.WithLabelValues(t.name, name).Set(1)
	t.b.mu.Lock()
	defer t.b.mu.Unlock()
	g := t.target(name)
	g.instant, g.at, g.failure = instant, now, ""
}

// SyncFailed notes that a metastore could not be told, and is tried again.
func (t *Table) SyncFailed(name, reason string) {
	t.b.m.syncFailures.WithLabelValues(t.name, name).Inc()
	t.b.m.syncing.WithLabelValues(t.name, name).Set(0)
	t.b.mu.Lock()
	defer t.b.mu.Unlock()
	t.target(name).failure = reason
}

func (t *Table) targetRows(now time.Time) []targetRow {
	rows := make([]targetRow, 0, len(t.targets))
	for _, g := range t.targets {
		r := targetRow{Name: g.name, State: "not told yet", Failed: g.failure != ""}
		if g.instant != "" {
			r.State = fmt.Sprintf("knows %s, told %s ago", g.instant, now.Sub(g.at).Round(time.Second))
		}
		if r.Failed {
			r.State += "; could not tell it, trying again: " + g.failure
		}
		if !g.since.IsZero() {
			r.State += fmt.Sprintf("; has been asked for %s", now.Sub(g.since).Round(time.Second))
		}
		rows = append(rows, r)
	}
	return rows
}
