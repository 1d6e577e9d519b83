package main

import (
	"context"
	"errors"
	"time"

	"github.com/spf13/cobra"

	"github.com/couch2hudi/couch2hudi/config"
)

func newProduce(s streams) *cobra.Command {
	var file string
	var once bool
	d := config.Default()
	c := &cobra.Command{
		Use:   "produce --source URL --to kafka://BROKERS/TOPIC",
		Short: "Write a CouchDB database into a Kafka topic",
		Long: `Write what a CouchDB database holds and all that changes into a Kafka topic,
until stopped, or with --once until caught up. Each batch is one transaction,
which also holds the position: start it again, whatever it died of, and no row is
lost or written twice. A topic is of one database. A second producer takes the
topic over, and the first one ends with 5.

A topic that does not exist is made, compacted, so that it stays a whole copy of
the database: produce.partitions, .replication and .topic say how. What a message
looks like: docs/kafka.md.`,
		Example: `  couch2hudi produce --source couchdb://user:pass@localhost:5984/shop --to kafka://b1:9092,b2:9092/couchdb.binlog
  couch2hudi produce -c couch2hudi.yaml --to 'kafka://user:pass@b1:9093/shop?sasl=scram-sha-512&tls=true' --partitions 64
  couch2hudi run --source 'kafka://b1:9092/couchdb.binlog?group=tables' --table ./shop-table`,
		RunE: func(c *cobra.Command, _ []string) error {
			cfg, err := loadConfig(c, file)
			if err != nil {
				return err
			}
			produceFlags(c, &cfg.Produce)
			defer endInTime(c.Context(), s.err)()
			err = produce(c.Context(), s, cfg, once)
			if c.Context().Err() != nil && errors.Is(err, context.Canceled) {
				return nil
			}
			return err
		},
	}
	c.Flags().StringVarP(&file, "config", "c", "", "config file (YAML), for source, produce, log and memory; flags win over it")
	c.Flags().String("source", "", "couchdb://user:pass@host:5984/db, couchdbs:// for TLS, or http(s)://host/db")
	c.Flags().String("to", "", "kafka://broker:9092,broker:9092/topic")
	c.Flags().Int("partitions", d.Produce.Partitions, "of a topic that does not exist: its partitions, best as many as the table has buckets")
	c.Flags().Duration("interval", time.Duration(d.Produce.Interval), "close a transaction this long after its first row")
	c.Flags().BoolVar(&once, "once", false, "stop with 0 when caught up")
	c.Flags().String("log-format", "", "text or json (default: text on a terminal, else json)")
	c.Flags().String("log-level", d.Log.Level, "debug, info, warn or error")
	return c
}

// produceFlags lets produce's own flags win over the file.
func produceFlags(c *cobra.Command, p *config.Produce) {
	flags := c.Flags()
	if to, _ := flags.GetString("to"); to != "" {
		p.To = config.Secret(to)
	}
	if flags.Changed("interval") {
		d, _ := flags.GetDuration("interval")
		p.Interval = config.Duration(d)
	}
	if flags.Changed("partitions") {
		p.Partitions, _ = flags.GetInt("partitions")
	}
}

// produce writes a database into a topic.
func produce(ctx context.Context, s streams, cfg config.Config, once bool) (err error) {
	if cfg.Table.URL == "" && len(cfg.Tables) == 0 {
		cfg.Table.URL = "." // Validate wants one; it is not looked at
	}
	_, wrong := cfg.Produce.Validate()
	if err := errors.Join(cfg.Validate(), wrong); err != nil {
		return err
	}
	if u, err := config.ParseSourceURL(cfg.Source.URL); err != nil || u.Kind != config.KindCouchDB {
		return &usageError{err: errors.New("--source: only CouchDB is produced"), command: "couch2hudi produce"}
	}
	limitMemory(int64(cfg.Memory))
	log := newLogger(s.err, cfg.Log.Format, cfg.Log.Level)
	source, err := openSource(ctx, cfg, log, nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, source.Close()) }()
	outgoing, err := withMasks(source, cfg, "couch2hudi produce")
	if err != nil {
		return err
	}
	p, err := openProducer(outgoing, cfg, once, log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.Close()) }()
	return p.Run(ctx)
}
