package main

import (
	"context"
	"log/slog"
	"time"

	"github.com/couch2hudi/couch2hudi/catalog"
	"github.com/couch2hudi/couch2hudi/config"
	"github.com/couch2hudi/couch2hudi/pipeline"
)

// followCatalog tells the config's metastores of the commits that events tell. What is
// returned waits for a last sync.
func followCatalog(ctx context.Context, cfg config.Config, with shared, name string, events *pipeline.Events, log *slog.Logger) (func() error, error) {
	none := func() error { return nil }
	if len(cfg.Catalog.Targets) == 0 || cfg.Catalog.On == config.CatalogOff {
		return none, nil
	}
	targets, err := catalogTargets(cfg)
	if err != nil {
		return nil, err
	}
	// A table of its own: the views of the other one are its writer's.
	t, closeTable, err := openForReading(ctx, cfg.Table.URL)
	if err != nil {
		return nil, err
	}
	shown := with.board.Table(name)
	for i := range targets {
		shown.Target(targets[i].Name)
	}
	f := catalog.Follow(ctx, catalog.FollowOptions{Table: t, Targets: targets, Interval: time.Duration(cfg.Catalog.Interval), Events: catalog.Events{
		Syncing: shown.Syncing,
		Synced: func(target string, r catalog.Result, took time.Duration) {
			shown.Synced(target, string(r.Instant), took)
			if r.Changed() {
				log.Info("metastore synced", keyTarget, target, keyInstant, string(r.Instant), keyChanges, syncSummary(r), keyTook, took)
				return
			}
			log.Debug("metastore synced", keyTarget, target, keyInstant, string(r.Instant), keyTook, took)
		},
		Failed: func(target string, err error, again time.Duration) {
			shown.SyncFailed(target, message(err))
			if again == 0 {
				log.Warn("could not sync a metastore; the next run does", keyTarget, target, keyReason, message(err), keyNext, "couch2hudi sync")
				return
			}
			log.Warn("could not sync a metastore, trying again", keyTarget, target, keyReason, message(err), keyWait, again)
		},
	}})
	committed := events.Committed
	events.Committed = func(p pipeline.Progress) {
		committed(p)
		if p.Instant != "" {
			f.Committed()
		}
	}
	return func() error {
		f.Close()
		closeTable()
		return nil
	}, nil
}
