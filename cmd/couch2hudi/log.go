package main

import (
	"io"
	"log/slog"
	"strings"
)

// Keys of log lines.
const (
	keyInstant     = "instant"
	keyLastSeq     = "last_seq"
	keyRows        = "rows"
	keyUpserts     = "upserts"
	keyInserts     = "inserts"
	keyDeletes     = "deletes"
	keyReplayed    = "replayed"
	keyQuarantined = "quarantined"
	keyElsewhere   = "elsewhere"
	keyLeft        = "left"
	keyFilter      = "filter"
	keyBefore      = "before"
	keyNext        = "next"
	keySelector    = "selector"
	keyRescued     = "rescued"
	keyFiles       = "files"
	keyBytes       = "bytes"
	keyPending     = "pending"
	keyEstimate    = "estimate"
	keyTook        = "took"
	keySource      = "source"
	keyTable       = "table"
	keyTables      = "tables"
	keyDatabase    = "database"
	keyDatabases   = "databases"
	keyReason      = "reason"
	keyWait        = "wait"
	keyInstants    = "instants"
	keyGroups      = "groups"
	keyKeys        = "keys"
	keyDone        = "done"
	keyEarliest    = "earliest"
	keyFile        = "file"
	keyBundle      = "bundle"
	keyTopic       = "topic"
	keyPartitions  = "partitions"
	keyAddress     = "address"
	keyURL         = "url"
	keyTarget      = "target"
	keyChanges     = "changes"
)

// newLogger writes text to a terminal and JSON elsewhere unless told otherwise.
func newLogger(w io.Writer, format, level string) *slog.Logger {
	o := &slog.HandlerOptions{Level: logLevel(level)}
	if format == "text" || (format == "" && terminal(w)) {
		return slog.New(slog.NewTextHandler(w, o))
	}
	return slog.New(slog.NewJSONHandler(w, o))
}

func logLevel(s string) slog.Level {
	switch strings.ToLower(s) {
	case "debug":
		return slog.LevelDebug
	case "warn":
		return slog.LevelWarn
	case "error":
		return slog.LevelError
	}
	return slog.LevelInfo
}
