package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"

	"github.com/spf13/cobra"

	"github.com/couch2hudi/couch2hudi/changes"
	"github.com/couch2hudi/couch2hudi/config"
	"github.com/couch2hudi/couch2hudi/pipeline"
	"github.com/couch2hudi/couch2hudi/table"
)

func newReplayQuarantine(s streams) *cobra.Command {
	var file, format string
	var dry bool
	c := &cobra.Command{
		Use:   "replay-quarantine {--source URL --table URL | -c FILE}",
		Short: "Try quarantined changes again after a config fix",
		Long: `Try the changes again that run put into quarantine because they were broken, with
the flags and the config of run. The documents of a CouchDB database are asked for
again, and their present state counts; changes of other sources are taken from the
quarantine. What is newer than the table's row is written, in commits that leave the
position as it is. What is settled, written or not, is noted with the commit and not
tried again; what is broken still stays.

Of a config with several tables all quarantines are tried, since what could not be
read may be for another table than the one that put it aside.

Stop run before, or it ends with 5. With --dry-run nothing is written, and run may go on.
Exit code 0 says that all pending changes were tried, whatever became of them.`,
		Example: `  couch2hudi replay-quarantine -c couch2hudi.yaml --dry-run
  couch2hudi replay-quarantine -c couch2hudi.yaml --format jsonl`,
		RunE: func(c *cobra.Command, _ []string) error {
			if err := oneOfFormats(format, "", "text", "jsonl"); err != nil {
				return err
			}
			cfg, err := loadConfig(c, file)
			if err != nil {
				return err
			}
			defer endInTime(c.Context(), s.err)()
			return replayQuarantine(c.Context(), s, cfg, dry, format)
		},
	}
	configFlags(c, &file)
	c.Flags().BoolVar(&dry, "dry-run", false, "say what would become of them and write nothing")
	c.Flags().StringVar(&format, "format", "", "text or jsonl (default: text)")
	return c
}

func replayQuarantine(ctx context.Context, s streams, cfg config.Config, dry bool, format string) (err error) {
	if err := cfg.Validate(); err != nil {
		return err
	}
	limitMemory(int64(cfg.Memory))
	if _, shared := cfg.Shared(); shared && len(cfg.Source.Databases) > 0 {
		return replayQuarantines(ctx, s, cfg, dry, format)
	}
	source, err := openSource(ctx, cfg, newLogger(s.err, cfg.Log.Format, cfg.Log.Level), nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, source.Close()) }()
	if len(cfg.Tables) == 0 {
		o, release, failed := openRetry(ctx, cfg, source, dry)
		if failed != nil {
			return failed
		}
		defer func() { err = errors.Join(err, release()) }()
		done, failed := pipeline.RetryQuarantine(ctx, o, dry)
		if failed != nil {
			return failed
		}
		of, _ := cfg.Shared()
		return printRetried(s.out, format, of, done, dry)
	}
	all, err := cfg.Several()
	if err != nil {
		return err
	}
	o := pipeline.GroupOptions{Field: cfg.Route.Field, Others: others(cfg)}
	for i := range all {
		name := cfg.Tables[i].Name
		all[i].Memory = max(cfg.Memory/config.Size(len(all)), leastShare)
		t, release, failed := openRetry(ctx, all[i], source, dry)
		if failed != nil {
			return &entryError{name, failed}
		}
		defer func() { err = errors.Join(err, release()) }()
		if i == 0 {
			o.Feed = t
		}
		o.Tables = append(o.Tables, pipeline.Routed{Name: name, Values: cfg.Tables[i].Values, Options: t})
	}
	done, err := pipeline.RetryGroup(ctx, o, dry)
	for i := range done {
		if err == nil {
			err = printRetried(s.out, format, cfg.Tables[i].Name, done[i], dry)
		}
	}
	return err
}

// replayQuarantines tries again what stands in the one table's quarantine of many
// databases, one after the other. What is of databases that are no more stays.
func replayQuarantines(ctx context.Context, s streams, cfg config.Config, dry bool, format string) error {
	log := newLogger(s.err, cfg.Log.Format, cfg.Log.Level)
	names, err := namesOf(ctx, cfg, log)
	if err != nil {
		return err
	}
	for _, name := range names {
		err := replayQuarantine(ctx, s, cfg.Database(name), dry, format)
		if errors.Is(err, changes.ErrNotFound) {
			log.Warn("there is no such database: what is of it stays in quarantine", keyDatabase, name)
			continue
		}
		if err != nil {
			return inDatabase(name, err)
		}
	}
	return nil
}

// openRetry opens a table whose quarantine is tried again. release gives it back.
func openRetry(ctx context.Context, cfg config.Config, source changes.Source, dry bool) (o pipeline.Options, release func() error, err error) {
	var t *table.Table
	if dry {
		var closeTable func()
		t, closeTable, err = openForReading(ctx, cfg.Table.Address())
		release = func() error { closeTable(); return nil }
	} else {
		t, release, err = openLeasedTable(ctx, cfg.Table.Address())
	}
	if err != nil {
		return o, nil, err
	}
	if o, err = options(ctx, cfg, ingestFlags{once: true}, source, t); err != nil {
		return o, nil, errors.Join(err, release())
	}
	return o, release, nil
}

// retriedLine is the result as JSON, a contract.
type retriedLine struct {
	Table     string           `json:"table,omitempty"`
	Changes   int64            `json:"changes"`
	Applied   int64            `json:"applied"`
	Older     int64            `json:"older"`
	Elsewhere int64            `json:"elsewhere"`
	Gone      int64            `json:"gone"`
	Broken    int64            `json:"broken"`
	Commits   int              `json:"commits"`
	DryRun    bool             `json:"dry_run,omitempty"`
	Reasons   map[string]int64 `json:"reasons,omitempty"`
}

func printRetried(out io.Writer, format, table string, r pipeline.Retried, dry bool) error {
	if format == "jsonl" {
		e := json.NewEncoder(out)
		e.SetEscapeHTML(false)
		return e.Encode(retriedLine{Table: table, Changes: r.Changes, Applied: r.Applied, Older: r.Older, Elsewhere: r.Elsewhere,
			Gone: r.Gone, Broken: r.Broken, Commits: r.Commits, DryRun: dry, Reasons: r.Reasons})
	}
	if table != "" {
		table += ": "
	}
	if r.Changes == 0 {
		_, err := fmt.Fprintln(out, table+"nothing in quarantine waits for another try")
		return err
	}
	will := ""
	if dry {
		will = " would be (nothing was written)"
	}
	_, err := fmt.Fprintf(out, "%s%d quarantined changes%s: %d applied, %d not newer than the table, %d not for it, %d of documents that are no more, %d broken still; %d commits\n",
		table, r.Changes, will, r.Applied, r.Older, r.Elsewhere, r.Gone, r.Broken, r.Commits)
	for _, reason := range slices.Sorted(maps.Keys(r.Reasons)) {
		if err == nil {
			_, err = fmt.Fprintf(out, "  %d: %s\n", r.Reasons[reason], reason)
		}
	}
	return err
}
