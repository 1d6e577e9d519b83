package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/spf13/cobra"

	"github.com/couch2hudi/couch2hudi/commitmeta"
	"github.com/couch2hudi/couch2hudi/hudi"
	"github.com/couch2hudi/couch2hudi/hudi/timeline"
	"github.com/couch2hudi/couch2hudi/table"
)

func newRestore(s streams) *cobra.Command {
	var url, to string
	var dry bool
	c := &cobra.Command{
		Use:   "restore --table URL --to INSTANT|SAVEPOINT",
		Short: "Bring a table back to an earlier commit or savepoint",
		Long: `Take back all that was written after a commit: rows, schema, position, and what was
put into quarantine. The table is then as it was, and the next run goes on from that
commit's position: it reads again what came since, and the table equals the database
again.

--to is a savepoint's instant or comment, or a point in time: an instant or the
beginning of one, RFC 3339, or a duration ago (-2h); then the newest commit that is not
later is meant. Nothing is asked: --dry-run says what would be done.

It ends with 4 when files of that time are cleaned (savepoints keep them), and with 5
while run is at work: stop that before. A later savepoint must be deleted first.
Whatever dies, the same command, or the next run, brings a begun restore to its end.`,
		Example: `  couch2hudi restore --table ./shop-table --to -2h --dry-run
  couch2hudi restore --table ./shop-table --to 20260101020304005
  couch2hudi restore --table ./shop-table --to "before the import"
  couch2hudi run --source couchdb://localhost/shop --table ./shop-table`,
		RunE: func(c *cobra.Command, _ []string) error {
			if to == "" {
				return &usageError{err: errors.New("--to is missing"), command: c.CommandPath()}
			}
			if dry {
				return planRestore(c.Context(), s.out, url, to)
			}
			return withLease(c.Context(), s.out, url, func(ctx context.Context, t *table.Table, _ []timeline.Instant) error {
				at, err := resolve(ctx, t, to)
				if err != nil {
					return err
				}
				done, err := t.Restore(ctx, at)
				for _, i := range done.Undone {
					_, _ = fmt.Fprintf(s.out, "%s %s taken back\n", i.Time, i.Action)
				}
				if err != nil {
					return err
				}
				return sayRestored(ctx, s.out, t, done)
			})
		},
	}
	tableFlag(c, &url)
	c.Flags().StringVar(&to, "to", "", "what to go back to")
	c.Flags().BoolVar(&dry, "dry-run", false, "say what would be taken back, and do nothing; needs no lease")
	return c
}

// planRestore says what a restore would do.
func planRestore(ctx context.Context, out io.Writer, url, to string) error {
	t, closeTable, err := openForReading(ctx, url)
	if err != nil {
		return err
	}
	defer closeTable()
	at, err := resolve(ctx, t, to)
	if err != nil {
		return err
	}
	plan, err := t.PlanRestore(ctx, at)
	if err != nil {
		return err
	}
	for _, i := range plan.Undone {
		_, _ = fmt.Fprintf(out, "%s %s would be taken back\n", i.Time, i.Action)
	}
	_, err = fmt.Fprintf(out, "%s would be as of %s: %d writes and %d files less\n", t.Name(), at, len(plan.Undone), plan.Files)
	return err
}

// sayRestored says how the table is now, and where the next run begins.
func sayRestored(ctx context.Context, out io.Writer, t *table.Table, done table.Restored) error {
	if done.Instant == "" {
		_, err := fmt.Fprintf(out, "%s is as of %s already\n", t.Name(), done.To)
		return err
	}
	_, err := fmt.Fprintf(out, "restore %s: %s is as of %s, %d writes and %d files are gone\n", done.Instant, t.Name(), done.To, len(done.Undone), done.Files)
	return errors.Join(err, sayPosition(ctx, out, t))
}

// sayPosition says where the next run begins.
func sayPosition(ctx context.Context, out io.Writer, t *table.Table) error {
	v, err := t.View(ctx)
	if err != nil {
		return err
	}
	seq, _, ok, err := v.Extra(ctx, commitmeta.ExtraLastSeq)
	if err != nil {
		return err
	}
	if !ok {
		_, err = fmt.Fprintln(out, "the next run begins at its --since")
		return err
	}
	_, err = fmt.Fprintf(out, "the next run goes on from last_seq %s\n", seq)
	return err
}

func newRollback(s streams) *cobra.Command {
	var url string
	c := &cobra.Command{
		Use:   "rollback INSTANT --table URL",
		Short: "Take the newest commit of a table back",
		Long: `Take the newest commit back: the table is as of the one before, and the next run goes
on from there. A compaction is planned again; file groups that a replacecommit
replaced are back. What came before the newest commit is a matter of restore.

Commits that a dead writer left unfinished are rolled back first, as run does when it
starts. It ends with 5 while run is at work: stop that before.`,
		Example: `  couch2hudi timeline --table ./shop-table
  couch2hudi rollback 20260101020304005 --table ./shop-table`,
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			at, err := hudi.ParseTime(args[0])
			if err != nil {
				return &usageError{err: err, command: c.CommandPath()}
			}
			return rollBack(c.Context(), s.out, url, at)
		},
	}
	tableFlag(c, &url)
	return c
}

func rollBack(ctx context.Context, out io.Writer, url string, at hudi.Time) error {
	return withLease(ctx, out, url, func(ctx context.Context, t *table.Table, recovered []timeline.Instant) error {
		is := func(i timeline.Instant) bool { return i.Time == at }
		if slices.ContainsFunc(recovered, is) {
			return nil // that was all there was to do
		}
		done, err := t.Rollback(ctx, at)
		if err != nil {
			return err
		}
		_, _ = fmt.Fprintf(out, "%s %s taken back\n", done.Time, done.Action)
		v, err := t.View(ctx)
		if err != nil {
			return err
		}
		if slices.ContainsFunc(v.Compactions(), is) {
			_, err = fmt.Fprintf(out, "compaction %s is planned again: run it with compact\n", at)
			return err
		}
		if v.Last() == "" {
			_, _ = fmt.Fprintf(out, "%s is empty\n", t.Name())
		} else {
			_, _ = fmt.Fprintf(out, "%s is as of %s\n", t.Name(), v.Last())
		}
		return sayPosition(ctx, out, t)
	})
}
