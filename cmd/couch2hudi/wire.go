package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/url"
	"os"
	"strings"
	"time"
	_ "time/tzdata" // zones by name, in images without a zone database too

	"github.com/spf13/cobra"

	"github.com/couch2hudi/couch2hudi/catalog"
	"github.com/couch2hudi/couch2hudi/catalog/glue"
	"github.com/couch2hudi/couch2hudi/catalog/hms"
	"github.com/couch2hudi/couch2hudi/changes"
	"github.com/couch2hudi/couch2hudi/changes/couchdb"
	"github.com/couch2hudi/couch2hudi/changes/kafka"
	"github.com/couch2hudi/couch2hudi/changes/ndjson"
	"github.com/couch2hudi/couch2hudi/config"
	"github.com/couch2hudi/couch2hudi/hudi"
	"github.com/couch2hudi/couch2hudi/internal/couchfake"
	"github.com/couch2hudi/couch2hudi/pipeline"
	"github.com/couch2hudi/couch2hudi/status"
	"github.com/couch2hudi/couch2hudi/storage"
	"github.com/couch2hudi/couch2hudi/storage/cloud"
	"github.com/couch2hudi/couch2hudi/storage/file"
	"github.com/couch2hudi/couch2hudi/storage/hdfs"
	"github.com/couch2hudi/couch2hudi/table"
)

// This file is the only one that names drivers.

// openSource opens the source that the config names.
func openSource(ctx context.Context, cfg config.Config, log *slog.Logger, board *status.Board) (changes.Source, error) {
	source, err := openDriver(ctx, cfg, log, board)
	if err != nil {
		return nil, err
	}
	if database, shared := cfg.Shared(); shared && database != "" {
		return pipeline.Of(source, database), nil
	}
	return asRouted(cfg, source)
}

func openDriver(ctx context.Context, cfg config.Config, log *slog.Logger, board *status.Board) (changes.Source, error) {
	u, err := config.ParseSourceURL(cfg.Source.URL)
	if err != nil {
		return nil, err
	}
	switch u.Kind {
	case config.KindCouchDB:
		return openCouchDB(ctx, cfg, log, board)
	case config.KindNDJSON:
		return openFolder(u, cfg, log)
	case config.KindKafka:
		return openKafka(cfg, u, log, board)
	}
	return nil, &usageError{err: fmt.Errorf("source %s: kind %q is not known", u, u.Kind)}
}

// openCouchDB opens the database that the config names.
func openCouchDB(ctx context.Context, cfg config.Config, log *slog.Logger, board *status.Board) (changes.Source, error) {
	o := sourceOptions(cfg)
	o.Events = sourceEvents(log, board)
	s, err := couchdb.Open(ctx, o)
	if errors.Is(err, couchdb.ErrOptions) {
		return nil, &usageError{err: err, command: "couch2hudi run"}
	}
	return s, err
}

// openFolder opens the folder of files that a URL names.
func openFolder(u config.SourceURL, cfg config.Config, log *slog.Logger) (changes.Source, error) {
	o := ndjson.Options{Folder: u.Path, MaxRowBytes: int(cfg.Source.MaxRowBytes), Events: ndjson.Events{
		Opened: func(file string) { log.Debug("reading", keyFile, file) },
		Waiting: func(reason string) {
			if reason != "" {
				log.Info("waiting for files", keyReason, reason)
			}
		},
		Warned: func(reason string) { log.Warn("source", keyReason, reason) },
	}}
	var err error
	if o.Consumed, err = ndjson.ParseConsumed(u.Option("consumed")); err != nil {
		return nil, &usageError{err: fmt.Errorf("source.url: %w", err)}
	}
	switch format := u.Option("format"); format {
	case "plain":
		o.Plain, o.Leaves = true, u.Option("leaves") == "all"
	case "", "bundles":
	default:
		return nil, &usageError{err: fmt.Errorf("source.url: format=%s: write bundles or plain", format)}
	}
	return ndjson.Open(o)
}

// exporter writes a source into files, or into a topic.
type exporter interface {
	// Run ends when ctx is done, or when the source has nothing more.
	Run(ctx context.Context) error
	Close() error
}

// openExporter takes the folder that a URL names, and makes it when it is not there.
func openExporter(ctx context.Context, source changes.Source, to string, o bundleLimits, show func(number, rows, bytes int64, seq string)) (exporter, error) {
	u, err := config.ParseSourceURL(config.Secret(to))
	if err != nil || u.Kind != config.KindNDJSON {
		return nil, &usageError{err: errors.New("--to: write ndjson:///folder"), command: "couch2hudi export"}
	}
	const mode = 0o755 // another user's process may carry the bundles away
	if err := os.MkdirAll(u.Path, mode); err != nil {
		return nil, fmt.Errorf("make the folder of --to: %w", err)
	}
	return ndjson.NewExporter(ctx, source, ndjson.ExportOptions{Folder: u.Path, Bytes: o.bytes, Interval: o.interval, Once: o.once,
		Written: func(m ndjson.Manifest) { show(m.Number, m.Rows, m.Bytes, m.LastSeq) }})
}

// openKafka opens the topic that the config names.
func openKafka(cfg config.Config, u config.SourceURL, log *slog.Logger, board *status.Board) (changes.Source, error) {
	c, err := kafkaCluster(cfg, u)
	if err != nil {
		return nil, err
	}
	s, err := kafka.Open(kafka.Options{Cluster: c, Topic: u.Database, Group: u.Option("group"), Leaves: cfg.Table.Ordering == config.OrderingLeafSum,
		AcceptGap: cfg.Source.AcceptGap, Memory: int64(cfg.Memory), MaxBatch: int(cfg.Source.MaxRowBytes), Events: kafkaEvents(log, board)})
	if errors.Is(err, kafka.ErrOptions) {
		return nil, &usageError{err: err, command: "couch2hudi run"}
	}
	return s, err
}

// kafkaCluster says which brokers a URL names and how the config speaks to them.
func kafkaCluster(cfg config.Config, u config.SourceURL) (kafka.Cluster, error) {
	c := kafka.Cluster{Brokers: strings.Split(u.Server, ","), User: u.User, Password: u.Password.Reveal(), Mechanism: u.Option("sasl")}
	if user := os.Getenv(envUser); user != "" && u.User == "" {
		c.User, c.Password = user, os.Getenv(envPassword)
	}
	if u.Option("tls") != "true" {
		return c, nil
	}
	files := cfg.Source.TLS
	var err error
	c.TLS, err = kafka.TLSFiles{CA: files.CA, Cert: files.Cert, Key: files.Key, ServerName: files.ServerName, InsecureSkipVerify: files.InsecureSkipVerify}.Config()
	if err != nil {
		return c, &usageError{err: err, command: "couch2hudi run"}
	}
	return c, nil
}

// kafkaEvents logs what an operator should know.
func kafkaEvents(log *slog.Logger, board *status.Board) kafka.Events {
	return kafka.Events{
		Retried: func(err error, wait time.Duration) {
			board.Retried(err.Error())
			log.Warn("kafka failed, trying again", keyReason, err.Error(), keyWait, wait)
		},
		Gap:        func(err error) { log.Warn("going on over a gap", keyReason, err.Error()) },
		Warned:     func(reason string) { log.Warn("kafka", keyReason, reason) },
		Partitions: func(n int) { log.Info("the topic has more partitions", keyPartitions, n) },
		Created:    func(topic string, n int) { log.Info("made the topic", keyTopic, topic, keyPartitions, n) },
		Resumed:    func(seq string) { log.Info("going on where the topic ends", keyLastSeq, seq) },
	}
}

// openProducer prepares to write a source into the topic that the config names.
// Keys go to partitions as they go to buckets of a table.
func openProducer(source changes.Source, cfg config.Config, once bool, log *slog.Logger) (exporter, error) {
	u, err := cfg.Produce.Validate()
	if err != nil {
		return nil, err
	}
	c, err := kafkaCluster(cfg, u)
	if err != nil {
		return nil, err
	}
	p, err := kafka.NewProducer(source, kafka.ProducerOptions{Cluster: c, Topic: u.Database, Partition: hudi.Bucket,
		Partitions: cfg.Produce.Partitions, Copies: cfg.Produce.Replication, Settings: cfg.Produce.Topic, Interval: time.Duration(cfg.Produce.Interval),
		Once: once, Memory: int64(cfg.Memory), Events: kafkaEvents(log, nil), Written: func(w kafka.Written) {
			log.Info("produced", keyTopic, u.Database, keyRows, w.Rows, keyBytes, w.Bytes, keyPending, w.Pending, keyTook, w.Took, keyLastSeq, w.Seq)
		}})
	if errors.Is(err, kafka.ErrOptions) {
		return nil, &usageError{err: err, command: "couch2hudi produce"}
	}
	return p, err
}

// openServer opens the server whose databases are followed.
func openServer(ctx context.Context, cfg config.Config, log *slog.Logger) (server, error) {
	one := cfg.Database("x") // its credentials are the server's
	o := sourceOptions(one)
	o.URL = cfg.Source.URL.Reveal()
	o.Events = sourceEvents(log, nil)
	s, err := couchdb.OpenServer(ctx, o)
	if errors.Is(err, couchdb.ErrOptions) {
		return nil, &usageError{err: err, command: "couch2hudi run"}
	}
	return s, err
}

// sourceHint is what an error of a source says of the next step, "" when it says
// nothing.
func sourceHint(err error) string {
	var e *couchdb.Error
	if errors.As(err, &e) {
		return e.Hint
	}
	return ""
}

// sourceOptions is the config in the words of the driver.
func sourceOptions(cfg config.Config) couchdb.Options {
	src, auth, files := cfg.Source, cfg.Source.Auth, cfg.Source.TLS
	o := couchdb.Options{URL: src.URL.Reveal(), Credentials: credentials(src), Auth: couchdb.Auth(auth.Kind),
		PasswordFile: auth.PasswordFile, TokenFile: auth.TokenFile, ProxyHash: auth.Hash, Roles: auth.Roles,
		TLSFiles: couchdb.TLSFiles{CA: files.CA, Cert: files.Cert, Key: files.Key,
			ServerName: files.ServerName, InsecureSkipVerify: files.InsecureSkipVerify},
		Heartbeat: time.Duration(src.Heartbeat), Timeout: time.Duration(src.Timeout),
		BatchRows: src.BatchRows, SeqInterval: src.SeqInterval, Parallel: src.Parallel, MaxRowsPerSecond: src.MaxRowsPerSecond, MaxRowBytes: int(src.MaxRowBytes), IncludeDesign: src.IncludeDesign, Selector: src.Selector}
	if cfg.Columns.Seq {
		o.SeqInterval = 1 // the column wants the sequence of every row
	}
	if !auth.Bearer() && os.Getenv(envUser) != "" {
		o.PasswordFile = "" // the environment wins, with a password of its own
	}
	return o
}

// sourceEvents logs what an operator should know.
func sourceEvents(log *slog.Logger, board *status.Board) couchdb.Events {
	return couchdb.Events{
		Retried: func(r couchdb.Retried) {
			board.Retried(r.Err.Error())
			log.Warn("source failed, trying again", keyReason, r.Err.Error(), keyWait, r.Wait)
		},
		LoggedIn:     func() { log.Info("source refused the credentials, logged in anew") },
		PurgesMissed: func(n int64) { log.Warn("source lists some purges no more", keyRows, n) },
		Warned:       func(reason string) { log.Warn("source is not safe", keyReason, reason) },
	}
}

// The environment's user and password win over the config's.
const envUser, envPassword = "COUCH2HUDI_USER", "COUCH2HUDI_PASSWORD"

// credentials reads them anew whenever it is asked: from the environment, or
// from the config with its references, so that a rotated secret needs no
// restart.
func credentials(cfg config.Source) func(context.Context) (couchdb.Credentials, error) {
	return func(context.Context) (couchdb.Credentials, error) {
		auth, err := cfg.RereadAuth()
		if err != nil {
			return couchdb.Credentials{}, err
		}
		c := couchdb.Credentials{Secret: auth.Secret.Reveal(), Token: auth.Token.Reveal()}
		if c.User = os.Getenv(envUser); c.User != "" {
			c.Password = os.Getenv(envPassword)
			return c, nil
		}
		text, err := cfg.Reread()
		if err != nil {
			return couchdb.Credentials{}, err
		}
		u, err := config.ParseSourceURL(text)
		c.User, c.Password = u.User, u.Password.Reveal()
		if auth.User != "" {
			c.User = auth.User
		}
		if auth.Password != "" {
			c.Password = auth.Password.Reveal()
		}
		return c, err
	}
}

// openBucket opens the store in which the table of that URL lives, or is to live.
// It is the one place for it: every command that opens a table comes here. memory is
// the process's budget for that table, 0 for the default.
func openBucket(ctx context.Context, text string, memory config.Size) (*storage.Bucket, config.TableURL, error) {
	u, err := config.ParseTableURL(text)
	if err != nil {
		return nil, u, err
	}
	tuning, query, err := u.Split()
	if err != nil {
		return nil, u, err
	}
	var d storage.Driver
	switch u.Scheme {
	case config.SchemeFile:
		d, err = file.New(u.Path, nil)
	case config.SchemeHDFS:
		d, err = openHDFS(ctx, u, tuning, query)
	case config.SchemeS3, config.SchemeGCS, config.SchemeAzure:
		d, err = cloud.Open(ctx, u.Scheme, u.Host, u.Path, query, &cloud.Options{Timeout: tuning.Timeout, Patience: tuning.Patience,
			Retried: waitsOf(ctx), Lease: storage.LeaseOptions{Validity: tuning.Lease}})
		if errors.Is(err, cloud.ErrURL) {
			err = &usageError{err: fmt.Errorf("table.url: %w", err)}
		}
	default:
		err = &usageError{err: fmt.Errorf("table.url: %s: there is no driver for %s://", u, u.Scheme)}
	}
	if err != nil {
		return nil, u, err
	}
	return storage.New(d, &storage.Options{Cache: blockCache(memory), Ahead: requestsAhead}), u, nil
}

// requestsAhead is how many requests for what a scan will read next may be under way.
const requestsAhead = 8

// blockCache holds what is read of object stores: a part of the budget, and no less
// than a few blocks.
func blockCache(memory config.Size) *storage.Cache {
	const share, least = 8, 2 << 20
	if memory == 0 {
		return nil
	}
	return storage.NewCache(max(int64(memory)/share, least))
}

// openHDFS opens a folder of HDFS. Files that are no objects yet lie where no engine
// looks.
func openHDFS(ctx context.Context, u config.TableURL, tuning config.Tuning, query url.Values) (storage.Driver, error) {
	for name := range query {
		return nil, &usageError{err: fmt.Errorf("table.url: %s: %s= is not known; write lease=, patience= or timeout= (docs/hdfs.md)", u, name)}
	}
	o := hdfs.Options{Hidden: ".hoodie/couch2hudi/hdfs", Patience: tuning.Patience, Retried: waitsOf(ctx), Lease: storage.LeaseOptions{Validity: tuning.Lease}}
	a := hdfs.Address{User: u.User, Timeout: tuning.Timeout}
	if u.Host != "" {
		a.Namenodes = strings.Split(u.Host, ",")
	}
	return hdfs.New("/"+u.Path, hdfs.Dial(a), &o)
}

// openForReading opens a table that exists.
func openForReading(ctx context.Context, url string) (*table.Table, func(), error) {
	if url == "" {
		return nil, nil, &usageError{err: errors.New("--table is missing")}
	}
	b, u, err := openBucket(ctx, url, 0)
	if err != nil {
		return nil, nil, err
	}
	t, err := table.Open(ctx, b, table.Options{ReadOnly: true, Location: u.Location()})
	if err != nil {
		return nil, nil, errors.Join(err, b.Close())
	}
	return t, func() { _ = b.Close() }, nil
}

// openForWriting opens the table or creates it, and takes its lease. release
// gives both back. With held, it waits while another writer has the lease, and
// tells held once who that is; without, only as long as that one may be dead.
func openForWriting(ctx context.Context, cfg config.Config, source changes.Source, held func(error)) (*table.Table, func() error, error) {
	b, u, err := openBucket(ctx, cfg.Table.Address(), cfg.Memory)
	if err != nil {
		return nil, nil, err
	}
	if err := probe(ctx, b, u); err != nil {
		return nil, nil, errors.Join(err, b.Close())
	}
	// Opened anew for each attempt: the table may be made, or changed, by
	// whoever holds it.
	for told := false; ; told = true {
		t, lease, err := openLeased(ctx, b, u, cfg, source)
		if err == nil {
			return outlive(ctx, t, lease, b)
		}
		if held != nil && !told && errors.Is(err, table.ErrHeld) {
			held(err)
		}
		if err := standBy(ctx, err, held != nil); err != nil {
			return nil, nil, errors.Join(err, b.Close())
		}
	}
}

// openLeasedTable opens a table that exists and takes its lease. release gives
// both back.
func openLeasedTable(ctx context.Context, url string) (*table.Table, func() error, error) {
	b, u, err := openBucket(ctx, url, 0)
	if err != nil {
		return nil, nil, err
	}
	t, err := table.Open(ctx, b, table.Options{Location: u.Location()})
	if err != nil {
		return nil, nil, errors.Join(err, b.Close())
	}
	if err := probe(ctx, b, u); err != nil {
		return nil, nil, errors.Join(err, b.Close())
	}
	lease, err := t.Lease(ctx)
	for err != nil {
		if err := standBy(ctx, err, false); err != nil {
			return nil, nil, errors.Join(err, b.Close())
		}
		lease, err = t.Lease(ctx)
	}
	return outlive(ctx, t, lease, b)
}

// openWithoutLease opens a table that exists for work that needs no lease.
func openWithoutLease(ctx context.Context, url string) (*table.Table, func(), error) {
	b, u, err := openBucket(ctx, url, 0)
	if err != nil {
		return nil, nil, err
	}
	t, err := table.Open(ctx, b, table.Options{Location: u.Location()})
	if err != nil {
		return nil, nil, errors.Join(err, b.Close())
	}
	return t, func() { _ = b.Close() }, nil
}

func openLeased(ctx context.Context, b *storage.Bucket, u config.TableURL, cfg config.Config, source changes.Source) (*table.Table, io.Closer, error) {
	t, err := openOrCreate(ctx, b, u, cfg, source)
	if err != nil {
		return nil, nil, err
	}
	lease, err := t.Lease(ctx)
	return t, lease, err
}

func openOrCreate(ctx context.Context, b *storage.Bucket, u config.TableURL, cfg config.Config, source changes.Source) (*table.Table, error) {
	o := table.Options{Location: u.Location()}
	there, err := table.Exists(ctx, b)
	if err != nil {
		return nil, err
	}
	if there {
		return table.Open(ctx, b, o)
	}
	// Asked first, so that a wrong password or a missing database leaves no
	// empty table behind.
	id, err := source.Identify(ctx)
	if err != nil {
		return nil, fmt.Errorf("identify source: %w", err)
	}
	c := table.CreateOptions{Name: cfg.Table.Name, OrderColumn: hudi.ColumnRevOrder, KeyColumn: pins(cfg).Key, CDC: pins(cfg).CDC, Extra: pins(cfg).Properties()}
	if c.Name == "" {
		c.Name = id.Name
	}
	if cfg.Table.Partition.Field != "" {
		c.PartitionField = cfg.Table.Partition.Name
		c.BareFolders, c.PlainFolders = !cfg.Table.Partition.HiveStyle, !cfg.Table.Partition.URLEncode
	}
	t, err := table.Create(ctx, b, c, o)
	if err != nil {
		// Another writer was quicker, and may even have swept away what this
		// one was about to put there.
		if there, look := table.Exists(ctx, b); there && look == nil {
			return table.Open(ctx, b, o)
		}
	}
	return t, err
}

// startStandIn starts the embedded CouchDB with one empty database and returns
// its URL.
func startStandIn(_ context.Context, database string) (url string, stop func(), err error) {
	s, err := couchfake.Start(couchfake.Options{})
	if err != nil {
		return "", nil, fmt.Errorf("start the CouchDB stand-in: %w", err)
	}
	if _, err := s.Create(database); err != nil {
		return "", nil, errors.Join(fmt.Errorf("create database %s: %w", database, err), s.Close())
	}
	return s.URL() + "/" + database, func() { _ = s.Close() }, nil
}

// loadFlags reads the file, if any, and lets flags win over it, but for --table.
func loadFlags(c *cobra.Command, path string) (config.Config, error) {
	cfg := config.Default()
	if path != "" {
		data, err := os.ReadFile(path)
		if err != nil {
			return cfg, &usageError{err: fmt.Errorf("read config: %w", err)}
		}
		if cfg, err = config.Parse(data); err != nil {
			return cfg, fmt.Errorf("config %s: %w", path, err)
		}
	}
	flags := c.Flags()
	set := func(name string, to *string) {
		if flags.Changed(name) {
			*to, _ = flags.GetString(name)
		}
	}
	var source string
	set("source", &source)
	if source != "" {
		cfg.Source.URL = config.Secret(source)
	}
	if flags.Changed("accept-gap") {
		cfg.Source.AcceptGap, _ = flags.GetBool("accept-gap")
	}
	if flags.Changed("trust-single-writer") {
		cfg.Table.TrustSingleWriter, _ = flags.GetBool("trust-single-writer")
	}
	set("ordering", &cfg.Table.Ordering)
	set("since", &cfg.Source.Since)
	set("table-name", &cfg.Table.Name)
	set("partition-field", &cfg.Table.Partition.Field)
	set("partition-format", &cfg.Table.Partition.Format)
	set("deletes", &cfg.Table.Deletes)
	set("index", &cfg.Table.Index)
	if flags.Changed("buckets") {
		cfg.Table.Buckets, _ = flags.GetInt("buckets")
	}
	set("state-dir", &cfg.StateDir)
	set("listen", &cfg.Listen)
	set("compaction", &cfg.Compaction.Mode)
	if flags.Changed("compact-after") {
		cfg.Compaction.MaxDeltaCommits, _ = flags.GetInt("compact-after")
	}
	if flags.Changed("retain") {
		d, _ := flags.GetDuration("retain")
		cfg.Retain = config.Duration(d)
	}
	set("policy", &cfg.Clean.Policy)
	if flags.Changed("keep") {
		cfg.Clean.Keep, _ = flags.GetInt("keep")
	}
	if flags.Changed("keep-min") {
		cfg.Timeline.KeepMin, _ = flags.GetInt("keep-min")
	}
	if flags.Changed("keep-max") {
		cfg.Timeline.KeepMax, _ = flags.GetInt("keep-max")
	}
	set("log-format", &cfg.Log.Format)
	set("log-level", &cfg.Log.Level)
	if flags.Changed("commit-interval") {
		d, _ := flags.GetDuration("commit-interval")
		cfg.Commit.Interval = config.Duration(d)
	}
	if flags.Changed("keep-doc") {
		cfg.Columns.KeepDoc, _ = flags.GetBool("keep-doc")
	}
	return cfg, nil
}

// openMetastore connects to the metastore that a target names.
func openMetastore(ctx context.Context, u config.TargetURL) (catalog.Metastore, error) {
	switch u.Kind {
	case config.KindHMS:
		o := hms.Options{Addresses: u.Addresses, Auth: u.Option("auth"), Principal: u.Option("principal"), User: u.User, Password: u.Password.Reveal()}
		if u.Option("tls") == "true" {
			o.TLS = &tls.Config{MinVersion: tls.VersionTLS12}
		}
		return hms.Open(ctx, o)
	case config.KindGlue:
		return glue.Open(ctx, glue.Options{Region: u.Region, Endpoint: u.Option("endpoint"), Profile: u.Option("profile"), Catalog: u.Option("catalog")})
	}
	return nil, &usageError{err: fmt.Errorf("%s: there is no driver for %s://", u, u.Kind)}
}
