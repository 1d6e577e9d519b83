package status

import (
	_ "embed"
	"fmt"
	"html/template"
	"net/http"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"
)

//go:embed page.html
var pageText string

// row is a table as the page shows it.
type row struct {
	Name                   string
	Read, Pending, Commits int64
	State, Last, LastSeq   string
	Rows, Quarantined      int64
	Took                   time.Duration
	Compacted              string
	Failures               []string
	Targets                []targetRow
}

func (t *Table) row(now time.Time) row {
	r := row{Name: t.name, Read: t.read, Pending: t.pending, Commits: t.committed, Quarantined: t.quarantined, Compacted: t.compacted,
		State: "behind", Last: "none yet"}
	switch {
	case t.committed == 0 && t.read == 0:
		r.State = "waiting for rows"
	case t.caughtUp && t.pending == 0:
		r.State = "caught up"
	}
	if t.committed > 0 {
		r.Last = fmt.Sprintf("%s, %s ago", t.last.Instant, now.Sub(t.lastAt).Round(time.Second))
		r.LastSeq, r.Rows, r.Took = t.last.LastSeq, t.last.Stats.Rows, t.last.Took.Round(time.Millisecond)
	}
	for service, reason := range t.failures {
		r.Failures = append(r.Failures, "could not "+service+", trying again: "+reason)
	}
	slices.Sort(r.Failures)
	r.Targets = t.targetRows(now)
	return r
}

// Handler serves the page at /, metrics at /metrics, /healthz, which answers while the
// process does, and /readyz, which is 503 until the process holds a table.
func (b *Board) Handler() http.Handler {
	page := template.Must(template.New("page").Parse(pageText))
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(b.registry, promhttp.HandlerOpts{Registry: b.registry}))
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { _, _ = fmt.Fprintln(w, "ok") })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		if !b.Ready() {
			http.Error(w, "waiting for the table", http.StatusServiceUnavailable)
			return
		}
		_, _ = fmt.Fprintln(w, "ready")
	})
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		b.mu.Lock()
		retries, trouble := b.retries, b.trouble
		b.mu.Unlock()
		_ = page.Execute(w, map[string]any{"Version": b.o.Version, "Source": b.o.Source, "Since": b.o.Clock().Sub(b.began).Round(time.Second),
			"Tables": b.rows(), "Retries": retries, "Trouble": trouble})
	})
	return mux
}
