package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/couch2hudi/couch2hudi/catalog"
	"github.com/couch2hudi/couch2hudi/config"
	"github.com/couch2hudi/couch2hudi/table"
)

// syncFlags are the flags of sync that are no part of the config.
type syncFlags struct {
	to            []string
	adopt, dryRun bool
	format        string
}

func newSync(s streams) *cobra.Command {
	var file string
	var f syncFlags
	c := &cobra.Command{
		Use:   "sync --table URL --to TARGET...",
		Short: "Register the table in a metastore, or tell it what is new",
		Long: `Tell a Hive metastore, or AWS Glue, of a table, so that Spark, Hive, Trino and
Flink find it by name: NAME_ro (base files alone, quick and a compaction behind),
NAME_rt and NAME (all that is committed), and NAME_live, a view without tombstones.
Properties, columns and partitions are those that Hudi's own HiveSyncTool writes.

Again and again it may be called: only what changed is written, and of partitions
only those that commits since the last sync name are looked at. run does it after
its commits, when catalog.targets names targets.

Targets: hms://host:9083/database.table, with ?auth=plain or kerberos, ?tls=true and user:password@
where needed, and glue://region/database.table, with ?endpoint=URL for another
server than AWS. ?location=URL is the table's address where engines need another
one than --table says. A name that belongs to another table is refused, unless
--adopt says that it is to be forgotten there; files are never touched.`,
		Example: `  couch2hudi sync --table /data/orders --to hms://metastore:9083/shop.orders
  couch2hudi sync --table s3://lake/orders --to glue://eu-west-1/shop.orders
  couch2hudi sync -c couch2hudi.yaml --dry-run`,
		RunE: func(c *cobra.Command, _ []string) error {
			if err := oneOfFormats(f.format, "", "text", "jsonl"); err != nil {
				return err
			}
			cfg, err := loadServed(c, file)
			if err != nil {
				return err
			}
			return syncOnce(c.Context(), s, cfg, f)
		},
	}
	c.Flags().StringVarP(&file, "config", "c", "", "config file (YAML), for the table and catalog.targets; flags win over it")
	c.Flags().String("table", "", "the table's URL or path")
	c.Flags().StringArrayVar(&f.to, "to", nil, "the metastore and the table's name there; may be given several times (default: catalog.targets)")
	c.Flags().BoolVar(&f.adopt, "adopt", false, "let the metastore forget other tables of these names; their files stay")
	c.Flags().BoolVar(&f.dryRun, "dry-run", false, "only say what would change")
	c.Flags().StringVar(&f.format, "format", "", "text or jsonl (default: text)")
	return c
}

// syncOnce tells each target of the table. One that fails keeps none from its turn.
func syncOnce(ctx context.Context, s streams, cfg config.Config, f syncFlags) error {
	for i, to := range f.to {
		if i == 0 {
			cfg.Catalog.Targets = nil
		}
		cfg.Catalog.Targets = append(cfg.Catalog.Targets, config.Secret(to))
	}
	if len(cfg.Catalog.Targets) == 0 {
		return &usageError{err: errors.New("--to is missing, and catalog.targets is empty: write --to hms://host:9083/database.table"), command: "couch2hudi sync"}
	}
	targets, err := catalogTargets(cfg)
	if err != nil {
		return err
	}
	t, closeTable, err := openForReading(ctx, cfg.Table.URL)
	if err != nil {
		return err
	}
	defer closeTable()
	var errs []error
	for i := range targets {
		targets[i].Adopt, targets[i].DryRun, targets[i].OnlyChanges = f.adopt, f.dryRun, false
		r, err := syncTarget(ctx, &targets[i], t)
		if err != nil {
			errs = append(errs, fmt.Errorf("sync %s: %w", targets[i].Name, err))
			continue
		}
		if err := printSync(s.out, targets[i].Name, r, f); err != nil {
			return err
		}
	}
	return errors.Join(errs...)
}

func syncTarget(ctx context.Context, to *catalog.Target, t *table.Table) (catalog.Result, error) {
	m, err := to.Open(ctx)
	if err != nil {
		return catalog.Result{}, err
	}
	r, err := catalog.Sync(ctx, m, t, to.Options)
	_ = m.Close() // what matters was answered
	return r, err
}

// syncLine is what sync says of one target; its JSON is a contract.
type syncLine struct {
	Target   string      `json:"target"`
	Instant  string      `json:"instant"`
	Database bool        `json:"database_created"`
	DryRun   bool        `json:"dry_run,omitempty"`
	Tables   []syncTable `json:"tables"`
}

type syncTable struct {
	Name    string `json:"name"`
	Step    string `json:"step"`
	Added   int    `json:"partitions_added"`
	Moved   int    `json:"partitions_moved"`
	Dropped int    `json:"partitions_dropped"`
	Whole   bool   `json:"all_partitions_compared"`
}

func printSync(out io.Writer, target string, r catalog.Result, f syncFlags) error {
	if f.format == "jsonl" {
		line := syncLine{Target: target, Instant: string(r.Instant), Database: r.Database, DryRun: f.dryRun, Tables: []syncTable{}}
		for _, c := range r.Changes {
			line.Tables = append(line.Tables, syncTable{c.Name, string(c.Step), c.Added, c.Moved, c.Dropped, c.Whole})
		}
		return json.NewEncoder(out).Encode(line)
	}
	would := ""
	if f.dryRun {
		would = " (dry run: nothing is written)"
	}
	_, err := fmt.Fprintf(out, "%s knows the table as of %s%s: %s\n", target, r.Instant, would, syncSummary(r))
	return err
}

// syncSummary is what a sync changed, in few words.
func syncSummary(r catalog.Result) string {
	var parts []string
	if r.Database {
		parts = append(parts, "database created")
	}
	for _, c := range r.Changes {
		text := []string{c.Name + " " + string(c.Step)}
		for _, n := range []struct {
			n    int
			what string
		}{{c.Added, "added"}, {c.Moved, "moved"}, {c.Dropped, "dropped"}} {
			if n.n > 0 {
				text = append(text, fmt.Sprintf("%d partitions %s", n.n, n.what))
			}
		}
		parts = append(parts, strings.Join(text, ", "))
	}
	return strings.Join(parts, "; ")
}

// catalogTargets are the config's, as the table's URL has them.
func catalogTargets(cfg config.Config) ([]catalog.Target, error) {
	if err := cfg.Catalog.Validate(); err != nil {
		return nil, err
	}
	list := make([]catalog.Target, 0, len(cfg.Catalog.Targets))
	for _, text := range cfg.Catalog.Targets {
		u, err := config.ParseTargetURL(text)
		if err != nil {
			return nil, err
		}
		location, err := catalogLocation(cfg, u)
		if err != nil {
			return nil, err
		}
		list = append(list, catalog.Target{Name: u.String(),
			Open:    func(ctx context.Context) (catalog.Metastore, error) { return openMetastore(ctx, u) },
			Options: catalog.Options{Database: u.Database, Name: u.Name, Location: location, OnlyChanges: cfg.Catalog.On == config.CatalogChanges}})
	}
	return list, nil
}

// catalogLocation is where engines that know the table from a metastore find it.
func catalogLocation(cfg config.Config, to config.TargetURL) (string, error) {
	if given := to.Option("location"); given != "" {
		return strings.TrimRight(given, "/"), nil
	}
	u, err := config.ParseTableURL(cfg.Table.URL)
	if err != nil {
		return "", err
	}
	location := u.Location()
	switch {
	case u.Local():
		path, err := filepath.Abs(u.Path)
		return "file://" + path, err
	case location == "":
		return "", &config.FieldError{Field: "catalog.targets", Err: fmt.Errorf("engines' address of %s is not known: add ?location=abfs://container@account.dfs.core.windows.net/path to %s", u, to)}
	case to.Kind == config.KindGlue: // AWS's engines know the store by its plain name
		return strings.Replace(location, "s3a://", "s3://", 1), nil
	}
	return location, nil
}
