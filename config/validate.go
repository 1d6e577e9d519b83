package config

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"time"
)

// Validate checks every field and returns all that is wrong, each as a
// *FieldError. It reads nothing but time zones.
func (c *Config) Validate() error {
	shared := []error{c.Source.validate(), c.Commit.validate(), c.Log.validate(), c.Quarantine.validate(), c.memory(), c.listen(), c.severalDatabases()}
	switch {
	case len(c.Tables) > 0:
		return errors.Join(append(shared, c.severally())...)
	case c.Route.Field != "":
		shared = append(shared, &FieldError{Field: "tables", Err: ErrRequired})
	}
	return errors.Join(append(shared, c.Table.validate(), c.tableSections())...)
}

func (c *Config) listen() error {
	if c.Listen == ListenOff {
		return nil
	}
	if _, port, err := net.SplitHostPort(c.Listen); err != nil || port == "" {
		return wrong("listen", "%q: write host:port, :port for all addresses, or %s", c.Listen, ListenOff)
	}
	return nil
}

func (s *Source) validate() error {
	var errs []error
	var url SourceURL
	if s.URL == "" {
		errs = append(errs, &FieldError{Field: fieldSource, Err: ErrRequired})
	} else {
		var err error
		text := s.URL
		if len(s.Databases) > 0 {
			text = Secret(databaseURL(text.Reveal(), "x"))
		}
		url, err = ParseSourceURL(text)
		if len(s.Databases) > 0 && err == nil && url.Kind != KindCouchDB {
			err = wrong("source.databases", "they are those of a CouchDB server, and source.url is of kind %s", url.Kind)
		}
		errs = append(errs, err)
	}
	if url.Kind == KindCouchDB || url.Kind == "" {
		errs = append(errs, s.Auth.validate(url), s.TLS.validate(url))
	}
	if strings.TrimSpace(s.Since) == "" {
		errs = append(errs, wrong("source.since", "empty; write 0, now or a sequence"))
	}
	if s.Selector != "" && !jsonObject(s.Selector) {
		errs = append(errs, wrong("source.selector", "not a JSON object; write one in quotes, such as '{\"type\": \"order\"}'"))
	}
	const least, most = 100 * time.Millisecond, 5 * time.Minute
	errs = append(errs, between("source.heartbeat", s.Heartbeat, Duration(least), Duration(most)),
		between("source.batch_rows", s.BatchRows, 1, 1_000_000),
		between("source.parallel", s.Parallel, 1, 64),
		between("source.max_rows_per_second", s.MaxRowsPerSecond, 0, 10_000_000),
		between("source.seq_interval", s.SeqInterval, 1, 1_000_000),
		between("source.max_row_bytes", s.MaxRowBytes, 1<<16, 1<<30),
		between("source.timeout", s.Timeout, Duration(time.Second), Duration(time.Hour)))
	return errors.Join(errs...)
}

func (t *Table) validate() error {
	u, err := ParseTableURL(t.URL)
	if err == nil {
		_, _, err = u.Split()
	}
	errs := []error{err, oneOf("table.deletes", t.Deletes, DeletesTombstone, DeletesHard),
		oneOf("table.index", t.Index, IndexBloom, IndexBucket), between("table.buckets", t.Buckets, 1, MaxBuckets),
		between("table.file_size", t.FileSize, 1<<16, 1<<34), oneOf("table.cdc", t.CDC, CDCOff, CDCOpKeyOnly, CDCDataBefore, CDCDataBeforeAfter)}
	errs = append(errs, oneOf("table.ordering", t.Ordering, OrderingLeafSum, OrderingGeneration))
	if t.Name != "" && !nameText(t.Name, "-.") {
		errs = append(errs, wrong("table.name", "%q: letters, digits, underscores, dots and hyphens", t.Name))
	}
	return errors.Join(append(errs, t.Partition.validate())...)
}

func (p *Partition) validate() error {
	var errs []error
	if p.Format != "" && p.Field == "" {
		errs = append(errs, wrong("table.partition.format", "there is no table.partition.field to format"))
	}
	if !nameText(p.Name, "") || !letter(p.Name[0]) {
		errs = append(errs, wrong("table.partition.name", "%q: letters, digits and underscores, beginning with a letter", p.Name))
	}
	if _, err := time.LoadLocation(p.Timezone); err != nil || p.Timezone == "Local" || p.Timezone == "" {
		errs = append(errs, wrong("table.partition.timezone", "%q is not known; write a name such as UTC or Europe/Paris", p.Timezone))
	}
	return errors.Join(append(errs, oneOf("table.partition.moves", p.Moves, MovesMove, MovesStay))...)
}

func (i *Index) validate() error {
	return oneOf("index.scope", i.Scope, ScopeGlobal, ScopePartition)
}

func (c *Commit) validate() error {
	const shortest, longest = 100 * time.Millisecond, 24 * time.Hour
	return errors.Join(between("commit.interval", c.Interval, Duration(shortest), Duration(longest)),
		between("commit.max_rows", c.MaxRows, 1, 10_000_000),
		between("commit.max_bytes", c.MaxBytes, 1<<16, 1<<36))
}

// ValidateRetain is Validate for the one field.
func (c *Config) ValidateRetain() error {
	const shortest, longest = time.Second, 10 * 365 * 24 * time.Hour
	return between("retain", c.Retain, Duration(shortest), Duration(longest))
}

// Validate is Config.Validate for this part.
func (c *Clean) Validate() error {
	return errors.Join(oneOf("clean.policy", c.Policy, CleanHours, CleanCommits, CleanVersions, CleanOff),
		between("clean.keep", c.Keep, 0, 1_000_000))
}

// Validate is Config.Validate for this part.
func (t *Timeline) Validate() error {
	// Spark's compaction counts the delta commits on the active timeline.
	const least = 20
	if t.KeepMin == 0 && t.KeepMax == 0 {
		return nil
	}
	err := between("timeline.keep_min", t.KeepMin, least, 1_000_000)
	if err == nil && t.KeepMax <= t.KeepMin {
		err = wrong("timeline.keep_max", "%d is not more than timeline.keep_min, %d", t.KeepMax, t.KeepMin)
	}
	return err
}

func (c *Compaction) validate() error {
	const youngest, oldest = time.Second, 7 * 24 * time.Hour
	return errors.Join(oneOf("compaction.mode", c.Mode, CompactionAsync, CompactionInline, CompactionScheduleOnly, CompactionOff),
		between("compaction.max_delta_commits", c.MaxDeltaCommits, 1, 100_000),
		between("compaction.max_age", c.MaxAge, Duration(youngest), Duration(oldest)),
		between("compaction.memory", c.Memory, 16<<20, 1<<40))
}

func (q *Quarantine) validate() error {
	const least, most = 0.001, 1 // a row of the window
	return between("quarantine.max_share", q.MaxShare, least, most)
}

func (c *Columns) validate() error {
	errs := []error{between("columns.max_columns", c.MaxColumns, 1, 10_000), between("columns.sample", c.Sample, 1, 100_000_000),
		oneOf("columns.nested", c.Nested, NestedJSON, NestedStruct), between("columns.nested_depth", c.NestedDepth, 1, 15),
		between("columns.nested_width", c.NestedWidth, 1, 1000), oneOf("columns.others", c.Others, OthersInferred, OthersRescued, OthersDropped),
		oneOf("columns.on_conflict", c.OnConflict, ConflictRescue, ConflictString, ConflictNewColumn, ConflictFail)}
	for i := range c.Declare {
		errs = append(errs, c.Declare[i].validate(fmt.Sprintf("columns.declare[%d].", i), c))
	}
	return errors.Join(errs...)
}

// validate checks what needs no reading of paths and types: whoever makes the
// columns does that.
func (d *Declare) validate(field string, c *Columns) error {
	errs := []error{oneOf(field+"mask", d.Mask, "", "none", "drop", "hash", "redact"),
		oneOf(field+"on_conflict", d.OnConflict, "", ConflictRescue, ConflictString, ConflictNewColumn, ConflictFail)}
	conflict := d.OnConflict
	if conflict == "" {
		conflict = c.OnConflict
	}
	switch {
	case d.Name == "" && d.Path == "":
		errs = append(errs, &FieldError{Field: field + "name", Err: ErrRequired})
	case d.Type == "" && d.Mask == "":
		errs = append(errs, &FieldError{Field: field + "type", Err: ErrRequired})
	case d.Mask == "hash" && c.Salt == "":
		errs = append(errs, &FieldError{Field: "columns.salt", Err: ErrRequired})
	case d.Nullable != nil && !*d.Nullable && conflict != ConflictFail:
		errs = append(errs, wrong(field+"nullable", "false goes with on_conflict fail: no row is held back otherwise"))
	}
	return errors.Join(errs...)
}

func (l *Log) validate() error {
	return errors.Join(oneOf("log.format", l.Format, "", "text", "json"), oneOf("log.level", l.Level, "debug", "info", "warn", "error"))
}

func (c *Config) memory() error {
	const least = 64 << 20
	if c.Memory < least {
		return wrong("memory", "%s is less than %s", c.Memory, Size(least))
	}
	return nil
}

func jsonObject(s string) bool {
	var o map[string]any
	return json.Unmarshal([]byte(s), &o) == nil && o != nil
}

func oneOf(field, value string, allowed ...string) error {
	if slices.Contains(allowed, value) {
		return nil
	}
	words := strings.TrimPrefix(strings.Join(allowed, ", "), ", ")
	return wrong(field, "%q is none of %s", value, words)
}

func between[T int | float64 | Duration | Size](field string, value, least, most T) error {
	if value >= least && value <= most {
		return nil
	}
	return wrong(field, "%v is not between %v and %v", value, least, most)
}

// nameText says whether s is made of letters, digits, underscores and some
// more characters.
func nameText(s, more string) bool {
	for i := range len(s) {
		if c := s[i]; !letter(c) && (c < '0' || c > '9') && c != '_' && strings.IndexByte(more, c) < 0 {
			return false
		}
	}
	return s != ""
}

func letter(c byte) bool { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') }
