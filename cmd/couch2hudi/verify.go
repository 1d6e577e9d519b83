package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/couch2hudi/couch2hudi/changes"
	"github.com/couch2hudi/couch2hudi/config"
	"github.com/couch2hudi/couch2hudi/index"
	"github.com/couch2hudi/couch2hudi/pipeline"
	"github.com/couch2hudi/couch2hudi/table"
)

// differError ends with exitDiffers: what was compared is not equal.
type differError struct{ n int64 }

func (e *differError) Error() string {
	return fmt.Sprintf("%d documents differ from their rows; couch2hudi verify --repair reads them again and commits them", e.n)
}

// verifyFlags are those of verify that are no part of the config.
type verifyFlags struct {
	format  string
	samples int
	repair  bool
	pause   time.Duration
}

func newVerify(s streams) *cobra.Command {
	var file string
	var f verifyFlags
	c := &cobra.Command{
		Use:   "verify --source URL --table URL",
		Short: "Compare a database with a table, document by document",
		Long: `Compare a database with a table, document by document: revision, order,
deletion, partition, and all columns as run would make them of the document now.
Give it the config of run: another one makes other rows.

Both are read once, sorted by id in temporary files, and compared in bounded
memory. A run may go on meanwhile: what changed after the table's newest commit
is counted as moving, and is no difference. What seems to differ is read again
after --pause, document by document: a feed may be one of a copy that is behind.
It ends with 6 when there are differences then.

--repair reads the documents that differ again and commits them alone, through
the index as run does. It needs the table's lease: stop run before. Then it
compares once more.`,
		Example: `  couch2hudi verify -c couch2hudi.yaml
  couch2hudi verify --source http://localhost:5984/shop --table ./shop-table --format json
  couch2hudi verify -c couch2hudi.yaml --repair`,
		RunE: func(c *cobra.Command, _ []string) error {
			cfg, err := loadOne(c, file)
			if err != nil {
				return err
			}
			switch {
			case f.format != formatText && f.format != formatJSON:
				return &usageError{err: fmt.Errorf("--format is %q, want text or json", f.format), command: c.CommandPath()}
			case f.samples < 0, f.pause < 0:
				return &usageError{err: errors.New("--samples or --pause is less than 0"), command: c.CommandPath()}
			}
			return verify(c.Context(), s, cfg, f)
		},
	}
	d := config.Default()
	shapeFlags(c, &file)
	c.Flags().String("table", "", "a path, or file://, s3://, gs://, azblob:// or hdfs:// (docs/stores.md)")
	c.Flags().String("index", d.Table.Index, "the table's: bloom or bucket")
	c.Flags().Int("buckets", d.Table.Buckets, "with --index bucket: the table's")
	c.Flags().StringVar(&f.format, "format", formatText, "text or json")
	c.Flags().IntVar(&f.samples, "samples", 10, "how many documents of each difference are named")
	c.Flags().DurationVar(&f.pause, "pause", 3*time.Second, "how long to wait before what seems to differ is read again")
	c.Flags().BoolVar(&f.repair, "repair", false, "read the documents that differ again and commit them")
	c.Flags().String("log-format", "", "text or json (default: text on a terminal, else json)")
	c.Flags().String("log-level", d.Log.Level, "debug, info, warn or error")
	return c
}

// Formats of verify.
const formatText, formatJSON = "text", "json"

// verification is one run of verify.
type verification struct {
	cfg    config.Config
	f      verifyFlags
	source changes.Source
	table  *table.Table
}

// report is what verify prints.
type report struct {
	pipeline.Verified
	// Repaired are the documents that were read again; what stands beside it is what
	// was found after that.
	Repaired int64 `json:"repaired"`
	// Databases are those that were looked at, of a table that takes several.
	Databases int     `json:"databases,omitempty"`
	Seconds   float64 `json:"seconds"`
}

func verify(ctx context.Context, s streams, cfg config.Config, f verifyFlags) (err error) {
	if err := cfg.Validate(); err != nil {
		return err
	}
	limitMemory(int64(cfg.Memory))
	began, log := time.Now(), newLogger(s.err, cfg.Log.Format, cfg.Log.Level)
	var r report
	if _, shared := cfg.Shared(); shared {
		r, err = verifyAll(ctx, cfg, f, log)
	} else {
		r, err = verifyOne(ctx, cfg, f, log)
	}
	if err != nil {
		return err
	}
	r.Seconds = time.Since(began).Seconds()
	if err := r.print(s.out, f.format); err != nil {
		return err
	}
	if n := r.Count(); n > 0 {
		return &differError{n}
	}
	return nil
}

// verifyOne compares one source with the table.
func verifyOne(ctx context.Context, cfg config.Config, f verifyFlags, log *slog.Logger) (r report, err error) {
	v := verification{cfg: cfg, f: f}
	if v.source, err = openSource(ctx, cfg, log, nil); err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, v.source.Close()) }()
	if f.repair {
		return v.repair(ctx)
	}
	return v.look(ctx)
}

// look only compares.
func (v *verification) look(ctx context.Context) (report, error) {
	t, closeTable, err := openForReading(ctx, v.cfg.Table.Address())
	if err != nil {
		return report{}, err
	}
	defer closeTable()
	v.table = t
	found, err := v.compare(ctx, nil)
	return report{Verified: found}, err
}

// repair compares, repairs, and compares again.
func (v *verification) repair(ctx context.Context) (r report, err error) {
	t, release, err := openLeasedTable(ctx, v.cfg.Table.Address())
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, release()) }()
	v.table = t
	o, err := options(ctx, v.cfg, ingestFlags{once: true}, v.source, t)
	if err != nil {
		return r, err
	}
	o.Repairs = true
	p, err := pipeline.New(ctx, o)
	if err != nil {
		return r, err
	}
	const atOnce = 1000
	var ids []string
	flush := func(ctx context.Context) error {
		err := p.Repair(ctx, ids)
		r.Repaired += int64(len(ids))
		ids = ids[:0]
		return err
	}
	found, err := v.compare(ctx, func(ctx context.Context, _ pipeline.Difference, id string) error {
		if ids = append(ids, id); len(ids) < atOnce {
			return nil
		}
		return flush(ctx)
	})
	if err == nil && len(ids) > 0 {
		err = flush(ctx)
	}
	if err != nil || r.Repaired == 0 {
		r.Verified = found
		return r, err
	}
	r.Verified, err = v.compare(ctx, nil)
	return r, err
}

func (v *verification) compare(ctx context.Context, found func(context.Context, pipeline.Difference, string) error) (pipeline.Verified, error) {
	none := pipeline.Verified{}
	view, err := v.table.View(ctx)
	if err != nil {
		return none, fmt.Errorf("view table: %w", err)
	}
	have, err := pipeline.ReadPins(ctx, view)
	if err == nil {
		err = have.Check(pins(v.cfg))
	}
	if err != nil {
		return none, err
	}
	n, err := newNormalizer(v.cfg, v.table.Name())
	if err != nil {
		return none, err
	}
	o := pipeline.VerifyOptions{Source: v.source, View: view, Normalizer: n, Name: v.cfg.Source.Name,
		Stay: v.cfg.Table.Partition.Moves == config.MovesStay, Memory: int64(v.cfg.Memory) / verifyShare, Samples: v.f.samples, Found: found,
		// Documents that a selector leaves out are there when they are asked for.
		AsShown: v.cfg.Source.Selector != "", Pause: max(1, v.f.pause)}
	o.Database, _ = v.cfg.Shared()
	if v.cfg.Index.Scope == config.ScopePartition {
		o.Scope = index.Partition
	}
	return pipeline.Verify(ctx, o)
}

// verifyShare is the part of the memory that sorting may take; reading and the
// collector's slack take more.
const verifyShare = 4

func (r *report) print(out io.Writer, format string) error {
	if format == formatJSON {
		e := json.NewEncoder(out)
		e.SetEscapeHTML(false)
		return e.Encode(r)
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	line := func(format string, args ...any) { _, _ = fmt.Fprintf(w, format+"\n", args...) }
	line("table as of\t%s", or(string(r.Instant), "no commit"))
	if r.Databases > 0 {
		line("databases\t%d", r.Databases)
	}
	line("documents\t%d", r.Documents)
	line("rows\t%d", r.Rows)
	line("equal\t%d", r.Equal)
	line("moving\t%d", r.Moving)
	if r.Settled > 0 {
		line("settled\t%d (the feed showed them in an older state: a copy of the database is behind)", r.Settled)
	}
	if r.Rejected > 0 {
		line("quarantined\t%d", r.Rejected)
	}
	if r.Repaired > 0 {
		line("repaired\t%d", r.Repaired)
	}
	for _, d := range pipeline.Differences() {
		if n := r.Different[d]; n > 0 {
			line("%s\t%d", strings.ReplaceAll(string(d), "_", " "), n)
		}
	}
	for _, s := range r.Samples {
		line("  %s\t%s\tsource: %s\ttable: %s", strings.ReplaceAll(string(s.Difference), "_", " "), strconv.Quote(s.ID), side(s.Source), side(s.Table))
	}
	return w.Flush()
}

func side(s *pipeline.Side) string {
	if s == nil {
		return "nothing"
	}
	text := or(s.Rev, "no revision") + ", order " + strconv.FormatInt(s.Order, 10)
	if s.Deleted {
		text += ", deleted"
	}
	if s.Partition != "" {
		text += ", in " + s.Partition
	}
	return text
}
