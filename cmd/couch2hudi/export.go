package main

import (
	"context"
	"errors"
	"time"

	"github.com/spf13/cobra"

	"github.com/couch2hudi/couch2hudi/config"
)

// bundleLimits say when a bundle is closed, and when an export ends.
type bundleLimits struct {
	bytes    int64
	interval time.Duration
	once     bool
}

func newExport(s streams) *cobra.Command {
	var file, to string
	size := config.Size(256 << 20)
	o := bundleLimits{interval: 5 * time.Minute}
	c := &cobra.Command{
		Use:   "export --source URL --to ndjson:///FOLDER",
		Short: "Write a CouchDB database into files that cross an air gap",
		Long: `Write what a CouchDB database holds and all that changes into bundles in a
folder, until stopped, or with --once until caught up. A bundle is a file of rows
(NDJSON, zstd) and a manifest that ties it to the bundle before: carry both to
the other side, in any way, and follow the folder there with run.

The newest manifest says where an export goes on: start it again, whatever it
died of, and no row is lost or written twice. A folder is of one database.`,
		Example: `  couch2hudi export --source couchdb://user:pass@localhost:5984/shop --to ndjson:///outbox
  couch2hudi export -c couch2hudi.yaml --to ndjson:///outbox --once --bundle-bytes 64MiB
  couch2hudi run --source ndjson:///inbox --table ./shop-table`,
		RunE: func(c *cobra.Command, _ []string) error {
			cfg, err := loadConfig(c, file)
			if err != nil {
				return err
			}
			o.bytes = int64(size)
			switch {
			case to == "":
				return &usageError{err: errors.New("--to is missing"), command: c.CommandPath()}
			case size < 1 || o.interval <= 0:
				return &usageError{err: errors.New("--bundle-bytes and --bundle-interval are more than nothing"), command: c.CommandPath()}
			}
			err = export(c.Context(), s, cfg, to, o)
			if c.Context().Err() != nil && errors.Is(err, context.Canceled) {
				return nil
			}
			return err
		},
	}
	c.Flags().StringVarP(&file, "config", "c", "", "config file (YAML), for the source, the log and the memory; flags win over it")
	c.Flags().String("source", "", "couchdb://user:pass@host:5984/db, couchdbs:// for TLS, or http(s)://host/db")
	c.Flags().StringVar(&to, "to", "", "ndjson:///folder, which is made when it is not there")
	c.Flags().TextVar(&size, "bundle-bytes", size, "close a bundle when its rows are so many bytes, before compression")
	c.Flags().DurationVar(&o.interval, "bundle-interval", o.interval, "close a bundle this long after its first row")
	c.Flags().BoolVar(&o.once, "once", false, "stop with 0 when caught up")
	c.Flags().String("log-format", "", "text or json (default: text on a terminal, else json)")
	c.Flags().String("log-level", config.Default().Log.Level, "debug, info, warn or error")
	return c
}

// export reads a database into bundles.
func export(ctx context.Context, s streams, cfg config.Config, to string, o bundleLimits) (err error) {
	if cfg.Table.URL == "" && len(cfg.Tables) == 0 {
		cfg.Table.URL = "." // Validate wants one; it is not looked at
	}
	if err := cfg.Validate(); err != nil {
		return err
	}
	if u, err := config.ParseSourceURL(cfg.Source.URL); err != nil || u.Kind != config.KindCouchDB {
		return &usageError{err: errors.New("--source: only CouchDB is exported"), command: "couch2hudi export"}
	}
	limitMemory(int64(cfg.Memory))
	log := newLogger(s.err, cfg.Log.Format, cfg.Log.Level)
	source, err := openSource(ctx, cfg, log, nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, source.Close()) }()
	outgoing, err := withMasks(source, cfg, "couch2hudi export")
	if err != nil {
		return err
	}
	e, err := openExporter(ctx, outgoing, to, o, func(number, rows, bytes int64, seq string) {
		log.Info("exported", keyBundle, number, keyRows, rows, keyBytes, bytes, keyLastSeq, seq)
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, e.Close()) }()
	return e.Run(ctx)
}
