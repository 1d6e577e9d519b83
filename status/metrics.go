package status

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/couch2hudi/couch2hudi/pipeline"
)

const (
	namespace   = "couch2hudi"
	byTable     = "table"
	byKind      = "kind"
	byService   = "service"
	byTarget    = "target"
	slowestTook = 15 // buckets of the time that a commit took, doubling from 5 ms
)

// metrics are those of all tables.
type metrics struct {
	read, readBytes, commits, rows, files, bytes *prometheus.CounterVec
	took                                         *prometheus.HistogramVec
	pending, last, caughtUp, readable            *prometheus.GaugeVec
	services, serviceSeconds, failures           *prometheus.CounterVec
	compacted, cleaned, archived                 *prometheus.CounterVec
	retries                                      prometheus.Counter
	syncs, syncSeconds, syncFailures             *prometheus.CounterVec
	synced, syncing                              *prometheus.GaugeVec
}

func newMetrics(r prometheus.Registerer, version string) *metrics {
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		c := prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: namespace, Name: name, Help: help}, labels)
		r.MustRegister(c)
		return c
	}
	gauge := func(name, help string, labels ...string) *prometheus.GaugeVec {
		g := prometheus.NewGaugeVec(prometheus.GaugeOpts{Namespace: namespace, Name: name, Help: help}, labels)
		r.MustRegister(g)
		return g
	}
	m := &metrics{
		read:      counter("read_rows_total", "Rows that the source gave.", byTable),
		readBytes: counter("read_bytes_total", "Bytes of those rows.", byTable),
		commits:   counter("commits_total", "Completed commits.", byTable),
		rows:      counter("rows_total", "Rows of completed commits, by what became of them.", byTable, byKind),
		files:     counter("written_files_total", "Files that commits wrote.", byTable),
		bytes:     counter("written_bytes_total", "Bytes of those files.", byTable),
		took: prometheus.NewHistogramVec(prometheus.HistogramOpts{Namespace: namespace, Name: "commit_seconds",
			Help: "Time that a commit took to place and write.", Buckets: prometheus.ExponentialBuckets(0.005, 2, slowestTook)}, []string{byTable}),
		pending:        gauge("pending_rows", "Rows that the source still has, by its own estimate.", byTable),
		last:           gauge("last_commit_timestamp_seconds", "When the last commit completed.", byTable),
		caughtUp:       gauge("caught_up", "1 when the source had nothing more at the last commit.", byTable),
		readable:       gauge("oldest_readable_timestamp_seconds", "Since when the table can be read as of, after the last clean.", byTable),
		services:       counter("service_runs_total", "Compactions, cleans and archivals that did something.", byTable, byService),
		serviceSeconds: counter("service_seconds_total", "Time that compactions took.", byTable, byService),
		failures:       counter("service_failures_total", "Services that failed, to be tried again.", byTable, byService),
		compacted:      counter("compacted_rows_total", "Rows that compactions wrote.", byTable),
		cleaned:        counter("cleaned_files_total", "Files that cleans deleted.", byTable),
		archived:       counter("archived_instants_total", "Instants that went to the archive.", byTable),
		retries: prometheus.NewCounter(prometheus.CounterOpts{Namespace: namespace, Name: "source_retries_total",
			Help: "What failed at the source, to be tried again."}),
	}
	r.MustRegister(m.took, m.retries)
	m.syncs = counter("catalog_syncs_total", "Syncs of a metastore that worked.", byTable, byTarget)
	m.syncSeconds = counter("catalog_sync_seconds_total", "Time that those took.", byTable, byTarget)
	m.syncFailures = counter("catalog_sync_failures_total", "Syncs of a metastore that failed, to be tried again.", byTable, byTarget)
	m.synced = gauge("catalog_last_sync_timestamp_seconds", "When a metastore was last told of the table.", byTable, byTarget)
	m.syncing = gauge("catalog_up", "1 when the last sync of a metastore worked.", byTable, byTarget)
	gauge("build_info", "The program's version.", "version").WithLabelValues(version).Set(1)
	return m
}

func (m *metrics) committed(table string, p pipeline.Progress, now time.Time) {
	m.commits.WithLabelValues(table).Inc()
	s := p.Stats
	for kind, n := range map[string]int64{"read": s.Rows, "collapsed": s.Collapsed, "replayed": s.Replayed, "quarantined": s.Quarantined,
		"inserts": s.Inserts, "upserts": s.Upserts, "deletes": s.Deletes, "moved": s.Moved, "rescued": s.Rescued, "elsewhere": s.Elsewhere,
		"left": s.Left, "purged": s.Purged, "retried": s.Retried, "default_partition": s.Unplaced} {
		m.rows.WithLabelValues(table, kind).Add(float64(n))
	}
	m.files.WithLabelValues(table).Add(float64(p.Files))
	m.bytes.WithLabelValues(table).Add(float64(p.Bytes))
	m.took.WithLabelValues(table).Observe(p.Took.Seconds())
	m.pending.WithLabelValues(table).Set(float64(p.Pending))
	m.last.WithLabelValues(table).Set(float64(now.UnixMilli()) / 1000)
	caughtUp := 0.0
	if p.CaughtUp {
		caughtUp = 1
	}
	m.caughtUp.WithLabelValues(table).Set(caughtUp)
}

func (m *metrics) service(table, service string, took time.Duration) {
	m.services.WithLabelValues(table, service).Inc()
	if took > 0 {
		m.serviceSeconds.WithLabelValues(table, service).Add(took.Seconds())
	}
}
