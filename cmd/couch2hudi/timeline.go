package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/couch2hudi/couch2hudi/commitmeta"
	"github.com/couch2hudi/couch2hudi/hudi"
	"github.com/couch2hudi/couch2hudi/hudi/timeline"
	"github.com/couch2hudi/couch2hudi/reader"
	"github.com/couch2hudi/couch2hudi/table"
)

// instantLine is one line of `timeline --format jsonl`, a contract.
type instantLine struct {
	Instant   string            `json:"instant"`
	Completed string            `json:"completed,omitempty"`
	Action    string            `json:"action"`
	State     string            `json:"state"`
	Upserts   int64             `json:"upserts"`
	Deletes   int64             `json:"deletes"`
	Inserts   int64             `json:"inserts"`
	Files     int64             `json:"files"`
	Bytes     int64             `json:"bytes"`
	LastSeq   string            `json:"last_seq,omitempty"`
	Extra     map[string]string `json:"extra,omitempty"`
	Archived  bool              `json:"archived,omitempty"`
	// Since says that query --since takes this instant, with any --until: nothing that
	// was written after it is gone.
	Since bool `json:"since,omitempty"`
}

func newTimeline(s streams) *cobra.Command {
	var url, format string
	var all bool
	c := &cobra.Command{
		Use:   "timeline --table URL",
		Short: "List the instants of a table: state, action, rows, last_seq",
		Long: `List the instants of a table: state, action, rows, last_seq.

Those in the archive are listed too, from the oldest one on as of which the table
can still be read; with --all the whole archive. The last line, on stderr, says from
which instant on query --since reads changes; in jsonl the instants that it takes
have "since": true.`,
		Example: `  couch2hudi timeline --table ./demo-table
  couch2hudi timeline --table ./demo-table --format jsonl | jq -r .last_seq
  couch2hudi timeline --table ./demo-table --format jsonl | jq -r 'select(.since).instant' | head -1`,
		RunE: func(c *cobra.Command, _ []string) error {
			if err := oneOfFormats(format, "", "table", "jsonl"); err != nil {
				return err
			}
			t, closeTable, err := openForReading(c.Context(), url)
			if err != nil {
				return err
			}
			defer closeTable()
			return printTimeline(c.Context(), s, t, format, all)
		},
	}
	c.Flags().StringVar(&url, "table", "", "the table: a path, or file://, s3://, gs://, azblob:// or hdfs:// (docs/stores.md)")
	c.Flags().BoolVar(&all, "all", false, "the whole archive, too")
	c.Flags().StringVar(&format, "format", "", "table or jsonl (default: table on a terminal, else jsonl)")
	return c
}

func printTimeline(ctx context.Context, s streams, t *table.Table, format string, all bool) error {
	v, err := reaching(ctx, t, all)
	if err != nil {
		return err
	}
	var emit func(instantLine) error
	flush := func() error { return nil }
	if format == "jsonl" || (format == "" && !terminal(s.out)) {
		e := json.NewEncoder(s.out)
		e.SetEscapeHTML(false)
		emit = func(l instantLine) error { return e.Encode(l) }
	} else {
		emit, flush = timelineTable(s.out)
	}
	begin, err := reader.OldestBegin(ctx, v)
	if err != nil {
		return err
	}
	for _, i := range v.Instants() {
		line, err := describe(ctx, v, i)
		if err != nil {
			return err
		}
		line.Since = i.Done() && i.Writes() && !v.When(i).Before(begin)
		if err := emit(line); err != nil {
			return err
		}
	}
	if err := flush(); err != nil {
		return err
	}
	if holder, err := t.Holder(ctx); err == nil && holder != nil {
		if _, err := fmt.Fprintln(s.err, "the table is", holder.Holder); err != nil {
			return err
		}
	}
	if v.Last() == "" {
		return nil
	}
	_, err = fmt.Fprintf(s.err, "changes can be read %s\n", after(begin))
	return err
}

// after says where incremental reads may begin.
func after(begin hudi.Time) string {
	if begin == "" {
		return "from the beginning on"
	}
	return fmt.Sprintf("after %s, and after each later instant, up to any; before that, files were cleaned", begin)
}

// reaching is the newest view with the archived instants to list.
func reaching(ctx context.Context, t *table.Table, all bool) (*table.View, error) {
	v, err := t.View(ctx)
	if err != nil {
		return nil, err
	}
	reach, err := v.Cleaned(ctx)
	if err != nil {
		return nil, err
	}
	if all || reach.Earliest == "" {
		return v.Reaching(ctx, "")
	}
	before, err := reach.Earliest.Clock()
	if err != nil {
		return nil, err
	}
	return v.Reaching(ctx, hudi.FormatTime(before.Add(-time.Millisecond)))
}

// describe is what one instant says of itself.
func describe(ctx context.Context, v *table.View, i timeline.Instant) (instantLine, error) {
	l := instantLine{Instant: string(i.Time), Action: string(i.Action), State: strings.ToUpper(i.State.String()), Archived: v.Archived(i)}
	if !i.Done() {
		return l, nil
	}
	const milliseconds = "2006-01-02T15:04:05.000Z"
	l.Completed = i.Modified.UTC().Format(milliseconds)
	if at, err := i.Completion.Clock(); err == nil {
		l.Completed = at.Format(milliseconds)
	}
	if !i.Writes() {
		about, err := v.About(ctx, i)
		if len(about) > 0 {
			l.Extra = about
		}
		return l, err
	}
	b, err := v.Body(ctx, i)
	if err != nil {
		return l, fmt.Errorf("read instant %s: %w", i.Time, err)
	}
	for _, stats := range b.Stats {
		for k := range stats {
			l.Upserts += stats[k].Updates
			l.Inserts += stats[k].Inserts
			l.Deletes += stats[k].Deletes
			l.Bytes += stats[k].Bytes
			l.Files++
		}
	}
	l.LastSeq = b.Extra[commitmeta.ExtraLastSeq]
	l.Extra = map[string]string{}
	for k, value := range b.Extra {
		if k != commitmeta.ExtraSchema && k != commitmeta.ExtraLastSeq {
			l.Extra[k] = value
		}
	}
	return l, nil
}

// action is the action, and of what, as a table shows it.
func (l *instantLine) action() string {
	about := ""
	switch l.Action {
	case string(commitmeta.ActionRestore):
		about = l.Extra["to"]
	case string(commitmeta.ActionRollback):
		about = l.Extra["undone"]
	case string(commitmeta.ActionSavepoint):
		about = l.Extra["comment"]
	default:
	}
	switch {
	case about == "":
		return l.Action
	case l.Action == string(commitmeta.ActionRestore):
		return l.Action + " to " + about
	case l.Action == string(commitmeta.ActionRollback):
		return l.Action + " of " + about
	}
	return l.Action + " " + strconv.Quote(about)
}

// timelineTable prints instants as aligned columns.
func timelineTable(out io.Writer) (emit func(instantLine) error, flush func() error) {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(w, "INSTANT\tACTION\tSTATE\tINSERTS\tUPSERTS\tDELETES\tFILES\tBYTES\tLAST_SEQ")
	emit = func(l instantLine) error {
		_, err := fmt.Fprintf(w, "%s\t%s\t%s\t%d\t%d\t%d\t%d\t%d\t%s\n", l.Instant, l.action(), l.State,
			l.Inserts, l.Upserts, l.Deletes, l.Files, l.Bytes, shorten(l.LastSeq))
		return err
	}
	return emit, w.Flush
}

// shorten keeps a long seq readable in a table; jsonl has it whole.
func shorten(seq string) string {
	const most = 24
	if len(seq) <= most {
		return seq
	}
	return seq[:most-1] + "…"
}
