package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/couch2hudi/couch2hudi/hudi"
	"github.com/couch2hudi/couch2hudi/hudi/timeline"
	"github.com/couch2hudi/couch2hudi/table"
)

// savedBy is who savepoints say made them.
const savedBy = "couch2hudi"

func newSavepoint(s streams) *cobra.Command {
	c := &cobra.Command{
		Use:   "savepoint",
		Short: "Keep a state of a table, to go back to: create, list, delete",
		Long: `A savepoint keeps the files of one commit: cleaning spares them, so that restore
can bring the table back to it, however long ago it was. Hudi's engines see it too.

The files of a savepoint stay on the disk until it is deleted, and the timeline is
not archived beyond it: delete what you no longer need.`,
		Example: `  couch2hudi savepoint create --table ./shop-table --comment "before the import"
  couch2hudi savepoint list --table ./shop-table
  couch2hudi restore --table ./shop-table --to "before the import"
  couch2hudi savepoint delete "before the import" --table ./shop-table`,
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.AddCommand(newSavepointCreate(s), newSavepointList(s), newSavepointDelete(s))
	return c
}

func newSavepointCreate(s streams) *cobra.Command {
	var url, at, comment string
	c := &cobra.Command{
		Use:   "create --table URL",
		Short: "Make a savepoint of the newest commit, or of an older one",
		Long: `Make a savepoint of the newest commit, or of the one that was the newest at an
instant (--at). It needs the table's lease: stop run for a moment, or it ends with 5.
When files of that time are cleaned already it ends with 4.`,
		Example: `  couch2hudi savepoint create --table ./shop-table --comment "before the import"
  couch2hudi savepoint create --table ./shop-table --at -2h`,
		Args: wrapArgs(cobra.NoArgs),
		RunE: func(c *cobra.Command, _ []string) error {
			return withLease(c.Context(), s.out, url, func(ctx context.Context, t *table.Table, _ []timeline.Instant) error {
				to, err := resolve(ctx, t, at)
				if err != nil {
					return err
				}
				made, err := t.Save(ctx, to, savedBy, comment)
				if err != nil {
					return err
				}
				_, err = fmt.Fprintf(s.out, "savepoint %s: %d files are kept\n", made.Instant, made.Files)
				return err
			})
		},
	}
	tableFlag(c, &url)
	c.Flags().StringVar(&at, "at", "", "an instant or the beginning of one, RFC 3339, or a duration ago (-2h); default: now")
	c.Flags().StringVar(&comment, "comment", "", "what it is for; restore and delete take it for a name")
	return c
}

func newSavepointList(s streams) *cobra.Command {
	var url, format string
	c := &cobra.Command{
		Use:     "list --table URL",
		Short:   "List the savepoints of a table",
		Example: `  couch2hudi savepoint list --table ./shop-table --format jsonl`,
		Args:    wrapArgs(cobra.NoArgs),
		RunE: func(c *cobra.Command, _ []string) error {
			if err := oneOfFormats(format, "", "table", "jsonl"); err != nil {
				return err
			}
			t, closeTable, err := openForReading(c.Context(), url)
			if err != nil {
				return err
			}
			defer closeTable()
			v, err := t.View(c.Context())
			if err != nil {
				return err
			}
			all, err := v.Savepoints(c.Context())
			if err != nil {
				return err
			}
			if format == "jsonl" || (format == "" && !terminal(s.out)) {
				return savepointLines(s.out, all)
			}
			return savepointTable(s.out, all)
		},
	}
	tableFlag(c, &url)
	c.Flags().StringVar(&format, "format", "", "table or jsonl (default: table on a terminal, else jsonl)")
	return c
}

// savepointLine is one line of `savepoint list --format jsonl`, a contract.
type savepointLine struct {
	Instant string `json:"instant"`
	Made    string `json:"made"`
	Files   int    `json:"files"`
	By      string `json:"by"`
	Comment string `json:"comment"`
}

const savedLayout = "2006-01-02T15:04:05.000Z"

func savepointLines(out io.Writer, all []table.Savepoint) error {
	e := json.NewEncoder(out)
	e.SetEscapeHTML(false)
	for _, p := range all {
		if err := e.Encode(savepointLine{string(p.Instant), p.Made.Format(savedLayout), p.Files, p.By, p.Comment}); err != nil {
			return err
		}
	}
	return nil
}

func savepointTable(out io.Writer, all []table.Savepoint) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(w, "INSTANT\tMADE\tFILES\tBY\tCOMMENT")
	for _, p := range all {
		_, _ = fmt.Fprintf(w, "%s\t%s\t%d\t%s\t%s\n", p.Instant, p.Made.Format(savedLayout), p.Files, p.By, p.Comment)
	}
	return w.Flush()
}

func newSavepointDelete(s streams) *cobra.Command {
	var url string
	c := &cobra.Command{
		Use:   "delete INSTANT|COMMENT --table URL",
		Short: "Delete a savepoint: its files may be cleaned from now on",
		Example: `  couch2hudi savepoint delete 20260101020304005 --table ./shop-table
  couch2hudi savepoint delete "before the import" --table ./shop-table`,
		Args: wrapArgs(cobra.ExactArgs(1)),
		RunE: func(c *cobra.Command, args []string) error {
			return withLease(c.Context(), s.out, url, func(ctx context.Context, t *table.Table, _ []timeline.Instant) error {
				v, err := t.View(ctx)
				if err != nil {
					return err
				}
				at := hudi.Time(args[0])
				if !isDigits(args[0]) {
					if at, err = v.Find(ctx, args[0], ""); err != nil {
						return err
					}
				}
				if err := t.DeleteSavepoint(ctx, at); err != nil {
					return err
				}
				_, err = fmt.Fprintf(s.out, "savepoint %s is deleted\n", at)
				return err
			})
		},
	}
	tableFlag(c, &url)
	return c
}

func tableFlag(c *cobra.Command, url *string) {
	c.Flags().StringVar(url, "table", "", "the table: a path, or file://, s3://, gs://, azblob:// or hdfs:// (docs/stores.md)")
}

// withLease does something to a table that exists, under its lease, after what dead
// writers left was recovered: f is told what that was.
func withLease(ctx context.Context, out io.Writer, url string, f func(context.Context, *table.Table, []timeline.Instant) error) (err error) {
	if url == "" {
		return &usageError{err: errors.New("--table is missing")}
	}
	t, release, err := openLeasedTable(ctx, url)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, release()) }()
	recovered, err := t.Recover(ctx)
	for _, i := range recovered {
		_, _ = fmt.Fprintf(out, "%s %s rolled back: it, or a restore, was left unfinished\n", i.Time, i.Action)
	}
	if err != nil {
		return err
	}
	return f(ctx, t, recovered)
}

// resolve is the commit that a text of the command line means, "" for "".
func resolve(ctx context.Context, t *table.Table, text string) (hudi.Time, error) {
	if text == "" {
		return "", nil
	}
	v, err := t.View(ctx)
	if err != nil {
		return "", err
	}
	now, err := t.Now().Clock()
	if err != nil {
		return "", err
	}
	// A text that is no instant may be a savepoint's comment.
	at, err := parseInstant(text, padUp, now)
	if err != nil {
		at = ""
	}
	return v.Find(ctx, text, at)
}
