package main

import (
	"context"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"
	"golang.org/x/term"
)

// streams are where a command writes: data to out, messages to err.
type streams struct{ out, err io.Writer }

// terminal says whether a stream is one.
func terminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// execute runs one command line and returns its exit code.
func execute(ctx context.Context, s streams, args []string) int {
	root := newRoot(s) //nolint:contextcheck // commands get ctx from ExecuteContext
	root.SetArgs(args)
	root.SetOut(s.out)
	root.SetErr(s.err)
	err := root.ExecuteContext(withWaits(ctx, s.err))
	if err == nil {
		return exitDone
	}
	code := exitCode(err)
	_, _ = fmt.Fprintln(s.err, "couch2hudi:", message(err))
	return code
}

func newRoot(s streams) *cobra.Command {
	root := &cobra.Command{
		Use:   "couch2hudi",
		Short: "Keep an Apache Hudi table equal to a CouchDB database",
		Long: `couch2hudi follows CouchDB's _changes and keeps an Apache Hudi Merge-On-Read
table equal to it, commit by commit. The position travels in the same commit as
the rows: whatever dies, whenever, the next start goes on from the last commit.

Exit codes: 0 done; 1 failed; 2 wrong usage or config; 3 the database was deleted
and created again; 4 the position is gone, or a file of a chain; 5 another writer holds the table;
6 verify found a difference.`,
		Example: `  couch2hudi demo
  couch2hudi run --source couchdb://user:pass@localhost:5984/shop --table ./shop-table
  couch2hudi query --table ./shop-table --since -15m`,
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          wrapArgs(cobra.NoArgs),
		RunE:          func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	root.CompletionOptions.HiddenDefaultCmd = true
	root.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		return &usageError{err: err, command: c.CommandPath()}
	})
	root.AddCommand(newRun(s), newExport(s), newProduce(s), newDemo(s), newQuery(s), newTail(s), newTimeline(s), newSchema(s), newCheck(s), newVerify(s), newCompact(s), newClean(s), newArchive(s), newRebucket(s),
		newReplayQuarantine(s), newSavepoint(s), newRestore(s), newRollback(s), newSync(s), newVersion(s))
	for _, c := range root.Commands() {
		c.Args = wrapArgs(c.Args)
	}
	return root
}

// wrapArgs makes a wrong number of arguments a usage error.
func wrapArgs(check cobra.PositionalArgs) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		if check == nil {
			check = cobra.NoArgs
		}
		if err := check(c, args); err != nil {
			return &usageError{err: err, command: c.CommandPath()}
		}
		return nil
	}
}
