// Package config is the configuration of couch2hudi: the YAML file as plain
// data, its defaults, and the checks that tell an operator which field is
// wrong and why. It opens nothing but the files that secrets are kept in.
package config

import "time"

// Config is the whole configuration. Default gives one that lacks only the two
// URLs; Parse reads a file on top of it. Flags are set on the result; then
// Validate.
type Config struct {
	Source  Source  `yaml:"source"`
	Table   Table   `yaml:"table"`
	Commit  Commit  `yaml:"commit"`
	Columns Columns `yaml:"columns"`
	Log     Log     `yaml:"log"`
	Index   Index   `yaml:"index"`
	Writer  Writer  `yaml:"writer"`
	// Quarantine bounds what is put into it.
	Quarantine Quarantine `yaml:"quarantine"`
	// Compaction says when log files are merged into base files, and by whom.
	Compaction Compaction `yaml:"compaction"`
	// Retain is how far back readers may begin: cleans keep what they need.
	Retain   Duration `yaml:"retain"`
	Clean    Clean    `yaml:"clean"`
	Timeline Timeline `yaml:"timeline"`
	// Catalog says which metastores are told of the table.
	Catalog Catalog `yaml:"catalog"`
	// Produce is for produce alone.
	Produce Produce `yaml:"produce"`
	// StateDir is the folder below which key caches live, by table; empty is one
	// beside the user's other caches, StateOff is none at all.
	StateDir string `yaml:"state_dir"`
	// Listen is host:port of the status page and the metrics, or ListenOff.
	Listen string `yaml:"listen"`
	// Memory is about how many bytes the process should stay under: it bounds
	// batches and is told to the collector.
	Memory Size `yaml:"memory"`
	// Route and Tables are for several tables: the sections above are then what all
	// of them have that do not say otherwise.
	Route  Route   `yaml:"route"`
	Tables []Entry `yaml:"tables"`
	among  *Config
	entry  string
	// database is the one that the configuration was made for, of many.
	database string
}

// Source is where changes come from.
type Source struct {
	// URL is couchdb://user:password@host:5984/db, couchdbs:// for TLS, or
	// http(s)://host/db; kafka://broker:9092/topic; or ndjson:///folder. It may
	// hold a password, hence a Secret.
	URL Secret `yaml:"url"`
	// Databases are names and patterns of databases, each of which is followed into a
	// table of its own, or all into one; URL is then the server's, without a database.
	Databases []string `yaml:"databases"`
	// Into says which of the two: IntoEach or IntoOne.
	Into string `yaml:"into"`
	// MaxConnections is how many of them are read at a time.
	MaxConnections int `yaml:"max_connections"`
	// Deleted is what becomes of the rows of one that was deleted: "keep" or "delete".
	Deleted string `yaml:"deleted"`
	// Name is the source's name in the table's checkpoint; the database's,
	// topic's or folder's name by default.
	Name string `yaml:"name"`
	// Since is where to begin when the table has no checkpoint: "0", "now" or
	// a sequence.
	Since string `yaml:"since"`
	// Heartbeat is the interval at which the server proves that an idle feed
	// is alive.
	Heartbeat Duration `yaml:"heartbeat"`
	// BatchRows is the most rows asked for in one response.
	BatchRows int `yaml:"batch_rows"`
	// IncludeDesign also takes design documents.
	IncludeDesign bool `yaml:"include_design"`
	// Filter is an expression over a document's fields: what it is not true of is not
	// for the table, and deleted from it. Empty takes all.
	Filter string `yaml:"filter"`
	// Selector is a Mango selector, as JSON, by which the server leaves documents out.
	// It tells nothing of deletions and of documents that stop matching.
	Selector string `yaml:"selector"`
	// Parallel is how many requests for documents run side by side while the source
	// is behind; with 1 documents come with the feed.
	Parallel int `yaml:"parallel"`
	// MaxRowsPerSecond bounds what is read while the source is behind; 0 for no bound.
	MaxRowsPerSecond int `yaml:"max_rows_per_second"`
	// SeqInterval asks for a sequence only on each k-th row of a backlog, which
	// spares the server. columns.seq makes it 1.
	SeqInterval int `yaml:"seq_interval"`
	// MaxRowBytes is the largest row, document included, that is read.
	MaxRowBytes Size `yaml:"max_row_bytes"`
	// Timeout is how long any response but an idle feed may stay silent.
	Timeout Duration `yaml:"timeout"`
	// AcceptGap goes on where the source has lost changes that were not read.
	AcceptGap bool `yaml:"accept_gap"`
	Auth      Auth `yaml:"auth"`
	TLS       TLS  `yaml:"tls"`

	// reread resolves again what the file has. A func holds it, and a pointer
	// that one, since fmt finds its way into everything else, secrets and all.
	reread     *func(current Secret) (Secret, error)
	rereadAuth *func() (Auth, error)
}

// Table is where rows go.
type Table struct {
	// URL is file:///path or a bare path, s3://bucket/prefix, gs://bucket/prefix,
	// azblob://container/prefix or hdfs://namenode:port/path.
	URL string `yaml:"url"`
	// TrustSingleWriter goes on with a store that ignores the condition of a put:
	// nothing but the operator keeps a second writer out.
	TrustSingleWriter bool `yaml:"trust_single_writer"`
	// Name is the table's name; the database's by default.
	Name      string    `yaml:"name"`
	Partition Partition `yaml:"partition"`
	// Deletes is "tombstone" or "hard".
	Deletes string `yaml:"deletes"`
	// Ordering is "leaf-sum", or "generation" for a table of sources that list no
	// leaf revisions.
	Ordering string `yaml:"ordering"`
	// Index is "bloom" or "bucket".
	Index string `yaml:"index"`
	// Buckets is how many file groups a partition has with the bucket index.
	Buckets int `yaml:"buckets"`
	// FileSize is the size at which a base file is full: smaller ones take more
	// keys in.
	FileSize Size `yaml:"file_size"`
	// CDC is what readers of changes get where a base file is written again: "off",
	// "op_key_only", "data_before" or "data_before_after".
	CDC string `yaml:"cdc"`
	// Changelog gives each update in a log file with the row before it, and each
	// hard delete with its row, for streams that want both.
	Changelog bool `yaml:"changelog"`
}

// Index says how keys are found.
type Index struct {
	// Scope is "global", where a document has one row in the whole table, or
	// "partition", where it has one in each partition that it was ever in.
	Scope string `yaml:"scope"`
	// PruneByRanges leaves out files by their least and greatest key. Random
	// ids gain nothing by it.
	PruneByRanges bool `yaml:"prune_by_ranges"`
}

// Writer says how files are written.
type Writer struct {
	// MaxRewrite is the most bytes of small base files that one commit writes
	// again to add keys to them.
	MaxRewrite Size `yaml:"max_rewrite"`
}

// Quarantine bounds what is put into it.
type Quarantine struct {
	// MaxShare is the share of the last 1,000 rows of which more may not be broken; 1
	// is no limit.
	MaxShare float64 `yaml:"max_share"`
}

// Clean says what cleans keep.
type Clean struct {
	// Policy is "hours" (of Retain), "commits" or "versions" (slices of a file
	// group), of both the last Keep, or "off".
	Policy string `yaml:"policy"`
	// Keep is for commits and versions; 0 is 10 commits, 3 versions.
	Keep int `yaml:"keep"`
}

// Timeline bounds the active timeline. Older commits are in the archive, where
// our readers find them; other engines' incremental readers do not.
type Timeline struct {
	// KeepMin is how many completed commits an archival leaves, KeepMax the number
	// above which one takes place. 0 turns it off. Both as by default are 300 and
	// 333 while commits follow each other in seconds.
	KeepMin int `yaml:"keep_min"`
	KeepMax int `yaml:"keep_max"`
}

// Compaction says when log files are merged into base files.
type Compaction struct {
	// Mode is "async", in the background; "inline", between two commits;
	// "schedule-only", where another process or engine runs the plans; "off".
	Mode string `yaml:"mode"`
	// MaxDeltaCommits is the number of log files with which a file group is
	// compacted: each commit writes one to it.
	MaxDeltaCommits int `yaml:"max_delta_commits"`
	// MaxAge is how old the oldest log file of a file group gets.
	MaxAge Duration `yaml:"max_age"`
	// Memory is about how many bytes a compaction holds, beside the ingest's.
	Memory Size `yaml:"memory"`
}

// Who compacts.
const (
	CompactionAsync        = "async"
	CompactionInline       = "inline"
	CompactionScheduleOnly = "schedule-only"
	CompactionOff          = "off"
)

// Partition says how rows are laid into folders. Without a Field there is one
// folder for all.
type Partition struct {
	// Field is the documents' top-level field.
	Field string `yaml:"field"`
	// Format makes a folder's name of a point in time, like yyyyMMdd; empty
	// takes the field's own text.
	Format string `yaml:"format"`
	// Timezone is the IANA name of the zone of Format.
	Timezone string `yaml:"timezone"`
	// Name is the partition column's.
	Name string `yaml:"name"`
	// Moves is "move", where a row follows its field's value to another folder,
	// or "stay", where it remains in the first.
	Moves string `yaml:"moves"`
	// HiveStyle names folders name=value instead of the bare value, URLEncode
	// escapes what a folder's name cannot hold.
	HiveStyle bool `yaml:"hive_style"`
	URLEncode bool `yaml:"url_encode"`
}

// Commit says when a batch is closed: whichever comes first.
type Commit struct {
	Interval Duration `yaml:"interval"`
	MaxRows  int      `yaml:"max_rows"`
	MaxBytes Size     `yaml:"max_bytes"`
}

// Columns says which columns the table gets.
type Columns struct {
	// KeepDoc keeps the document as received in _doc.
	KeepDoc bool `yaml:"keep_doc"`
	// Seq adds the source's sequence of every row, which costs the server
	// time.
	Seq bool `yaml:"seq"`
	// MaxColumns is the most columns made from documents' fields.
	MaxColumns int `yaml:"max_columns"`
	// Nested is what arrays and objects of inferred fields become: "json", their
	// text, or "struct", lists and structs of at most NestedDepth arrays and
	// objects in each other, structs of at most NestedWidth members.
	Nested      string `yaml:"nested"`
	NestedDepth int    `yaml:"nested_depth"`
	NestedWidth int    `yaml:"nested_width"`
	// Sample is how many documents are looked at before a table's first columns
	// are made.
	Sample int `yaml:"sample"`
	// Declare are the columns asked for, and the values to mask.
	Declare []Declare `yaml:"declare"`
	// Others says what becomes of fields that are not declared: "inferred",
	// "rescued" or "dropped".
	Others string `yaml:"others"`
	// OnConflict is what is done with values that do not fit: "rescue", "string",
	// "new_column" or "fail".
	OnConflict string `yaml:"on_conflict"`
	// Salt is the secret of mask: hash.
	Salt Secret `yaml:"salt"`
}

// Declare is a declared column.
type Declare struct {
	// Name is the column's; empty is the last name of Path.
	Name string `yaml:"name"`
	// Path is where in documents its values stand, like address.zip or tags[0];
	// empty is the field called Name.
	Path string `yaml:"path"`
	// Type is boolean, long, double, string, json, timestamp, date or
	// decimal(p,s).
	Type string `yaml:"type"`
	// Format is how timestamps and dates are written.
	Format string `yaml:"format"`
	// Nullable false stops the run when a document has no value; it goes with
	// OnConflict fail.
	Nullable *bool `yaml:"nullable"`
	// Mask is "none", "drop", "hash" or "redact".
	Mask string `yaml:"mask"`
	// OnConflict is as in Columns, for the one column.
	OnConflict string `yaml:"on_conflict"`
}

// What becomes of fields that are not declared.
const (
	OthersInferred = "inferred"
	OthersRescued  = "rescued"
	OthersDropped  = "dropped"
)

// What arrays and objects become.
const (
	NestedJSON   = "json"
	NestedStruct = "struct"
)

// What is done with values that do not fit their column.
const (
	ConflictRescue    = "rescue"
	ConflictString    = "string"
	ConflictNewColumn = "new_column"
	ConflictFail      = "fail"
)

// Log says how to log.
type Log struct {
	// Format is "text" or "json"; empty is text on a terminal, else json.
	Format string `yaml:"format"`
	// Level is debug, info, warn or error.
	Level string `yaml:"level"`
}

// What a document's deletion does to the table.
const (
	DeletesTombstone = "tombstone"
	DeletesHard      = "hard"
)

// What orders two states of a document.
const (
	OrderingLeafSum    = "leaf-sum"
	OrderingGeneration = "generation"
)

// What change files hold, by Hudi's names for it.
const (
	CDCOff             = "off"
	CDCOpKeyOnly       = "op_key_only"
	CDCDataBefore      = "data_before"
	CDCDataBeforeAfter = "data_before_after"
)

// What cleans count by.
const (
	CleanHours    = "hours"
	CleanCommits  = "commits"
	CleanVersions = "versions"
	CleanOff      = "off"
)

// What finds keys, where it looks, and what a new partition value does to a row.
const (
	IndexBloom     = "bloom"
	IndexBucket    = "bucket"
	ScopeGlobal    = "global"
	ScopePartition = "partition"
	MovesMove      = "move"
	MovesStay      = "stay"
	// StateOff is the state_dir of those who want no key cache.
	StateOff = "off"
	// ListenDefault is where the status page is when nobody said where.
	ListenDefault = "127.0.0.1:9400"
	// ListenOff is the listen of those who want no page.
	ListenOff = "off"
)

// MaxBuckets is the most buckets that a table may have.
const MaxBuckets = 2048

// Default is the configuration before anybody said anything.
func Default() Config {
	const (
		heartbeat = 10 * time.Second
		interval  = 60 * time.Second
		timeout   = 60 * time.Second
		mebibyte  = 1 << 20
		maxAge    = 10 * time.Minute
		retain    = 24 * time.Hour
	)
	return Config{
		Listen: ListenDefault,
		Source: Source{Since: "0", Into: IntoEach, MaxConnections: 4, Deleted: GoneKeep, Heartbeat: Duration(heartbeat), BatchRows: 10_000, Parallel: 1,
			SeqInterval: 1_000, MaxRowBytes: 64 * mebibyte, Timeout: Duration(timeout), Auth: Auth{Kind: AuthBasic}},
		Table: Table{Partition: Partition{Timezone: "UTC", Name: "pt", Moves: MovesMove, HiveStyle: true, URLEncode: true},
			Deletes: DeletesTombstone, Ordering: OrderingLeafSum, Index: IndexBloom, Buckets: 16, FileSize: 128 * mebibyte, CDC: CDCOff},
		Index:      Index{Scope: ScopeGlobal, PruneByRanges: true},
		Quarantine: Quarantine{MaxShare: 0.1},
		Writer:     Writer{MaxRewrite: 16 * mebibyte},
		Retain:     Duration(retain), Clean: Clean{Policy: CleanHours}, Timeline: Timeline{KeepMin: 1800, KeepMax: 2000},
		Compaction: Compaction{Mode: CompactionAsync, MaxDeltaCommits: 10, MaxAge: Duration(maxAge), Memory: 256 * mebibyte},
		Commit:     Commit{Interval: Duration(interval), MaxRows: 100_000, MaxBytes: 128 * mebibyte},
		Columns:    Columns{KeepDoc: true, MaxColumns: 500, Nested: NestedJSON, NestedDepth: 5, NestedWidth: 50, Sample: 10_000, Others: OthersInferred, OnConflict: ConflictRescue},
		Log:        Log{Level: "info"},
		Produce:    defaultProduce(),
		Catalog:    defaultCatalog(),
		Memory:     256 * mebibyte,
		Route:      Route{Others: OthersFail},
	}
}
