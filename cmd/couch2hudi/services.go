package main

import (
	"errors"
	"log/slog"
	"time"

	"github.com/couch2hudi/couch2hudi/compaction"
	"github.com/couch2hudi/couch2hudi/config"
	"github.com/couch2hudi/couch2hudi/hudi"
	"github.com/couch2hudi/couch2hudi/status"
	"github.com/couch2hudi/couch2hudi/table"
)

// shared is what the services of all tables of a process share.
type shared struct {
	// memory is the budget of all of them, turn lets one compact at a time.
	memory config.Size
	turn   chan struct{}
	// board shows what the tables do.
	board *status.Board
}

func newShared(cfg config.Config, board *status.Board) shared {
	return shared{memory: cfg.Memory, turn: make(chan struct{}, 1), board: board}
}

// newServices are the config's, for a table, and tell the log what they do.
func newServices(cfg config.Config, with shared, t *table.Table, log *slog.Logger) *compaction.Services {
	c, shown := cfg.Compaction, with.board.Table(t.Name())
	return compaction.New(compaction.Options{Table: t, Mode: compaction.Mode(c.Mode), Turn: with.turn,
		Policy: compaction.Policy{MaxDeltaCommits: c.MaxDeltaCommits, MaxAge: time.Duration(c.MaxAge)},
		Run:    compaction.RunOptions{Memory: int64(c.Memory)},
		Clean:  cleanPolicy(cfg), Archive: archivePolicy(cfg),
		Events: compaction.Events{
			Scheduled: func(at hudi.Time, groups int) {
				log.Info("compaction planned", keyInstant, string(at), keyGroups, groups)
			},
			Running: func(on bool) {
				// What a compaction holds comes on top of what the ingest does.
				limit := with.memory
				if on {
					limit += c.Memory
				}
				limitMemory(int64(limit))
			},
			Compacted: func(r compaction.Result) {
				shown.Compacted(string(r.Instant), r.Rows, r.Took)
				log.Info("compacted", keyInstant, string(r.Instant), keyGroups, r.Slices, keyRows, r.Rows, keyFiles, r.LogFiles, keyBytes, r.Bytes, keyTook, r.Took)
			},
			Cleaned: func(c table.Cleaned) {
				readable, _ := c.Earliest.Clock()
				shown.Cleaned(c.Files, readable)
				log.Info("cleaned", keyInstant, string(c.Instant), keyFiles, c.Files, keyEarliest, string(c.Earliest))
			},
			Archived: func(a table.Archived) {
				shown.Archived(a.Instants)
				log.Info("archived", keyInstants, a.Instants, keyInstant, string(a.Last))
			},
			Failed: func(service string, err error, again time.Duration) {
				shown.Failed(service, message(err))
				level := log.Warn
				if errors.Is(err, compaction.ErrKeys) {
					level = log.Error
				}
				level("could not "+service+", trying again", keyReason, message(err), keyWait, again)
			},
		}})
}

// cleanPolicy is what the config keeps of the past.
func cleanPolicy(cfg config.Config) compaction.CleanPolicy {
	return compaction.CleanPolicy{By: compaction.CleanBy(cfg.Clean.Policy), Retain: time.Duration(cfg.Retain), Keep: cfg.Clean.Keep}
}

// archivePolicy is how long the config lets the timeline get.
func archivePolicy(cfg config.Config) compaction.ArchivePolicy {
	if cfg.Timeline == config.Default().Timeline {
		return compaction.ArchivePolicy{} // its default looks at how quick commits are
	}
	return compaction.ArchivePolicy{KeepMin: cfg.Timeline.KeepMin, KeepMax: cfg.Timeline.KeepMax, Off: cfg.Timeline.KeepMax == 0}
}
