package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/couch2hudi/couch2hudi/config"
	"github.com/couch2hudi/couch2hudi/table"
)

// What a finding says, in the words of the output.
const (
	statusOK   = "ok"
	statusWarn = "warn"
	statusFail = "FAIL"
)

// finding is one line of check; its JSON is a contract.
type finding struct {
	Status string `json:"status"`
	Check  string `json:"check"`
	// Table is which of several it is about.
	Table   string `json:"table,omitempty"`
	Message string `json:"message"`
	Next    string `json:"next,omitempty"`
}

// checker tells what it finds, as it finds it.
type checker struct {
	emit func(finding) error
	// first is the first failure: what run would end with.
	first  error
	counts map[string]int
	broken error // the output's
	// of is the table that findings are about, of several.
	of string
	// timeout is how long the source may take to say who it is, and to read.
	timeout time.Duration
}

func (c *checker) tell(status, check, next, format string, args ...any) {
	c.counts[status]++
	f := finding{Status: status, Check: check, Table: c.of, Message: oneLine(fmt.Sprintf(format, args...)), Next: next}
	if err := c.emit(f); err != nil && c.broken == nil {
		c.broken = err
	}
}

func (c *checker) ok(check, format string, args ...any) {
	c.tell(statusOK, check, "", format, args...)
}

func (c *checker) warn(check, next, format string, args ...any) {
	c.tell(statusWarn, check, next, format, args...)
}

// fail is what run would end with. What the error itself says of the next step
// counts more than next.
func (c *checker) fail(check string, err error, next string) {
	if c.first == nil {
		c.first = err
	}
	text, hint := err.Error(), sourceHint(err)
	var hinted *table.Error
	if errors.As(err, &hinted) {
		hint = hinted.Hint
	}
	var hinting interface{ Hint() string }
	if errors.As(err, &hinting) {
		hint = hinting.Hint()
	}
	var since *sinceError
	if errors.As(err, &since) {
		text, hint = since.err.Error(), sinceHint
	}
	if hint != "" {
		text, next = strings.TrimSuffix(text, "; "+hint), hint
	}
	c.tell(statusFail, check, next, "%s", text)
}

// failedError ends check with the exit code of the first failure.
type failedError struct {
	first error
	n     int
}

func (e *failedError) Error() string {
	if e.n == 1 {
		return "check: run would fail: " + e.first.Error()
	}
	return fmt.Sprintf("check: run would fail for %d reasons, the first: %s", e.n, e.first)
}

func (e *failedError) Unwrap() error { return e.first }

func newCheck(s streams) *cobra.Command {
	var file, format string
	timeout := 20 * time.Second
	c := &cobra.Command{
		Use:   "check {--source URL --table URL | -c FILE}",
		Short: "Check config, source and table, without writing anything",
		Long: `Check what a run with the same flags and config would meet, without writing
anything: the config and its secrets; the table with its version, settings, lease,
unfinished instants and files; the source, the right to read it, and whether it is
the one that the table's last commit came from; and which engines read the table
how well. In an object store it tries whether conditions of puts are minded, by an
object of its own which it removes.

Each line begins with ok, warn or FAIL. A FAIL is something at which run would stop
(or, of a server that cannot be reached, wait); it says the next step. Without one
the exit code is 0, else it is the one that run would end with.`,
		Example: `  couch2hudi check -c couch2hudi.yaml
  couch2hudi check --source couchdb://user:pass@localhost:5984/shop --table ./shop-table
  couch2hudi check -c couch2hudi.yaml --format jsonl | jq -r 'select(.status != "ok")'`,
		RunE: func(c *cobra.Command, _ []string) error {
			if err := oneOfFormats(format, "", "text", "jsonl"); err != nil {
				return err
			}
			k := &checker{emit: findingWriter(s.out, format), counts: map[string]int{}, timeout: timeout}
			cfg, err := loadConfig(c, file)
			k.all(c.Context(), cfg, err, c.Flags().Changed("source"))
			return k.end(s.out, format)
		},
	}
	configFlags(c, &file)
	c.Flags().StringVar(&format, "format", "", "text or jsonl (default: text)")
	c.Flags().DurationVar(&timeout, "timeout", timeout, "how long to try to reach the source")
	return c
}

// findingWriter prints a finding a line.
func findingWriter(out io.Writer, format string) func(finding) error {
	if format == "jsonl" {
		e := json.NewEncoder(out)
		e.SetEscapeHTML(false)
		return func(f finding) error { return e.Encode(f) }
	}
	return func(f finding) error {
		line := fmt.Sprintf("%-4s  %-18s  ", f.Status, f.Check)
		if f.Table != "" {
			line += f.Table + ": "
		}
		line += f.Message
		if f.Next != "" {
			line += " → " + f.Next
		}
		_, err := fmt.Fprintln(out, line)
		return err
	}
}

// end sums up.
func (c *checker) end(out io.Writer, format string) error {
	if c.broken != nil {
		return c.broken
	}
	if format != "jsonl" {
		_, err := fmt.Fprintf(out, "%d ok, %d warn, %d FAIL\n", c.counts[statusOK], c.counts[statusWarn], c.counts[statusFail])
		if err != nil {
			return err
		}
	}
	if c.first != nil {
		return &failedError{c.first, c.counts[statusFail]}
	}
	return nil
}

// all checks in the order in which run would fail. loaded is the error of
// reading the config, flagged says that the source's URL is on the command line.
func (c *checker) all(ctx context.Context, cfg config.Config, loaded error, flagged bool) {
	if !c.config(cfg, loaded, flagged) {
		return
	}
	if len(cfg.Source.Databases) > 0 {
		c.databases(ctx, cfg)
		return
	}
	tables := []config.Config{cfg}
	if len(cfg.Tables) > 0 {
		tables, _ = cfg.Several() // config has looked at its error
	}
	var src *checkedSource
	for i, one := range tables {
		if len(cfg.Tables) > 0 {
			c.of = cfg.Tables[i].Name
		}
		t := c.table(ctx, one)
		if i == 0 {
			of := c.of
			c.of = ""
			src = c.source(ctx, one)
			defer src.close()
			c.of = of
		}
		c.into(ctx, one, t, src)
	}
}

// into looks at how run would go on from the source into a table.
func (c *checker) into(ctx context.Context, cfg config.Config, t *checkedTable, src *checkedSource) {
	defer t.close()
	c.settings(ctx, cfg, t)
	c.tableOnly(ctx, cfg, t, c.resume(ctx, cfg, t, src))
}

// tableOnly looks at what only concerns the table. ids are the next ones of the source.
func (c *checker) tableOnly(ctx context.Context, cfg config.Config, t *checkedTable, ids []string) {
	c.buckets(ctx, cfg, t, ids)
	c.catalog(ctx, cfg)
	if t.view != nil {
		c.files(ctx, t)
		c.readers(t)
	}
	if t.url.Local() {
		c.disk(t.url.Path, int64(cfg.Commit.MaxBytes))
	}
}

// config says whether there is enough of it to go on.
func (c *checker) config(cfg config.Config, loaded error, flagged bool) bool {
	const next = "correct the config or the flag; run --help lists the flags, the README has a config"
	if loaded == nil {
		loaded = cfg.Validate()
	}
	if loaded != nil {
		for _, err := range parts(loaded) {
			c.fail("config", err, next)
		}
		return false
	}
	if len(cfg.Source.Databases) > 0 {
		cfg = cfg.Database("*")
	}
	u, err := config.ParseSourceURL(cfg.Source.URL)
	tables := []config.Config{cfg}
	into := cfg.Table.URL
	if len(cfg.Tables) > 0 {
		tables, _ = cfg.Several() // Validate has looked at its error
		into = fmt.Sprintf("%d tables (%s) by %s", len(tables), strings.Join(entryNames(cfg), ", "), cfg.Route.Field)
	}
	for i := 0; i < len(tables) && err == nil; i++ {
		_, err = newNormalizer(tables[i], or(tables[i].Table.Name, "table"))
	}
	if err != nil {
		c.fail("config", err, next)
		return false
	}
	c.ok("config", "%s into %s, a commit every %s", u, into, cfg.Commit.Interval)
	if flagged && u.Password != "" {
		c.warn("config.password", "write ${COUCHDB_PASSWORD} into source.url of a config file, or set COUCH2HUDI_USER and COUCH2HUDI_PASSWORD",
			"the password is on the command line, where every user of this machine sees it")
	}
	c.selector(cfg)
	if u.Kind == config.KindCouchDB && strings.HasPrefix(u.Server, "http://") && u.Password != "" && !loopback(u.Server) {
		c.warn("config.tls", "use couchdbs:// or https://", "the password goes to %s without TLS", u.Server)
	}
	return true
}

// parts are the errors that errors.Join put together.
func parts(err error) []error {
	joined, ok := err.(interface{ Unwrap() []error })
	if _, whole := err.(*config.FieldError); !ok || whole { //nolint:errorlint // what Join made, not what wraps it
		return []error{err}
	}
	var all []error
	for _, e := range joined.Unwrap() {
		all = append(all, parts(e)...)
	}
	return all
}

// loopback says whether a server's URL leads to this machine.
func loopback(server string) bool {
	_, host, _ := strings.Cut(server, "://")
	host, _, _ = strings.Cut(host, "/")
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	ip := net.ParseIP(strings.Trim(host, "[]"))
	return host == "localhost" || (ip != nil && ip.IsLoopback())
}
