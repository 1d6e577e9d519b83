package config_test

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/couch2hudi/couch2hudi/config"
)

const full = `# everything that there is
source:
  url: couchdb://user:${TEST_PASSWORD}@db.example:5984/shop
  name: orders
  since: 0
  heartbeat: 5s
  batch_rows: 500
  include_design: true
  seq_interval: 50
  max_row_bytes: 1MiB
  timeout: 20s
  auth:
    kind: cookie
    user: ann
    password: ${TEST_PASSWORD}
table:
  url: file:///data/${TEST_NAME}
  name: orders
  partition:
    field: createdAt
    format: yyyyMMdd
    timezone: Europe/Paris
    name: day
    moves: stay
    hive_style: false
    url_encode: false
  ordering: generation
  deletes: hard
  index: bucket
  buckets: 64
  file_size: 32MiB
  cdc: data_before
  changelog: true
index:
  scope: partition
  prune_by_ranges: false
writer:
  max_rewrite: 4MiB
compaction:
  mode: inline
  max_delta_commits: 5
  max_age: 1h
  memory: 64MiB
state_dir: /var/cache/orders
listen: :9401
commit:
  interval: 1m30s
  max_rows: 5
  max_bytes: 64MiB
columns:
  keep_doc: false
  seq: true
  max_columns: 20
  nested: struct
  nested_depth: 3
  nested_width: 9
  others: rescued
  sample: 7
  on_conflict: new_column
  salt: ${TEST_PASSWORD}
  declare:
    - name: zip
      path: address.zip
      type: string
    - {name: at, type: timestamp, format: epoch-seconds, nullable: false, on_conflict: fail}
    - {path: "[\"a b\"].c", mask: hash}
log:
  format: json
  level: debug
memory: 1.5GiB
`

func TestParse(t *testing.T) {
	t.Setenv("TEST_PASSWORD", "p@ss/w:rd%")
	t.Setenv("TEST_NAME", "a")
	c, err := config.Parse([]byte(full))
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Validate(); err != nil {
		t.Fatal(err)
	}
	if got := c.Source.URL.Reveal(); got != "couchdb://user:p%40ss%2Fw%3Ard%25@db.example:5984/shop" {
		t.Error(got)
	}
	want := config.Default()
	want.Source = c.Source // holds what Reread needs
	want.Table = config.Table{URL: "file:///data/a", Name: "orders", Deletes: "hard", Ordering: "generation", Index: "bucket", Buckets: 64, FileSize: 32 << 20, CDC: "data_before", Changelog: true,
		Partition: config.Partition{Field: "createdAt", Format: "yyyyMMdd", Timezone: "Europe/Paris", Name: "day", Moves: "stay"}}
	want.Index, want.Writer, want.StateDir, want.Listen = config.Index{Scope: "partition"}, config.Writer{MaxRewrite: 4 << 20}, "/var/cache/orders", ":9401"
	want.Commit = config.Commit{Interval: config.Duration(90 * time.Second), MaxRows: 5, MaxBytes: 64 << 20}
	want.Columns = config.Columns{Seq: true, MaxColumns: 20, Nested: "struct", NestedDepth: 3, NestedWidth: 9, Sample: 7, Others: "rescued", OnConflict: "new_column", Salt: "p@ss/w:rd%", Declare: []config.Declare{
		{Name: "zip", Path: "address.zip", Type: "string"},
		{Name: "at", Type: "timestamp", Format: "epoch-seconds", Nullable: new(bool), OnConflict: "fail"},
		{Path: `["a b"].c`, Mask: "hash"}}}
	want.Log = config.Log{Format: "json", Level: "debug"}
	want.Compaction = config.Compaction{Mode: "inline", MaxDeltaCommits: 5, MaxAge: config.Duration(time.Hour), Memory: 64 << 20}
	want.Memory = 3 << 29
	if !reflect.DeepEqual(c, want) {
		t.Errorf("got\n%+v\nwant\n%+v", c, want)
	}
	if a := c.Source.Auth; a.Kind != "cookie" || a.User != "ann" || a.Password.Reveal() != "p@ss/w:rd%" {
		t.Errorf("%+v", a)
	}
	s := c.Source
	if s.SeqInterval != 50 || s.MaxRowBytes != 1<<20 || s.Timeout != config.Duration(20*time.Second) {
		t.Errorf("%+v", s)
	}
	if s.Name != "orders" || s.Since != "0" || s.Heartbeat != config.Duration(5*time.Second) || s.BatchRows != 500 || !s.IncludeDesign {
		t.Errorf("%+v", s)
	}
}

func TestDefaults(t *testing.T) {
	for _, text := range []string{"", "# nothing\n", "source:\n  url: http://h/db\n", "---\n", "commit:\ntable:\n  name:\nlog:\n  level:\n",
		"commit:\n  interval:\n  max_rows:\n  max_bytes:\nmemory:\n"} {
		c, err := config.Parse([]byte(text))
		if err != nil {
			t.Fatalf("%q: %v", text, err)
		}
		d := config.Default()
		if c.Table != d.Table || c.Commit != d.Commit || !reflect.DeepEqual(c.Columns, d.Columns) || c.Log != d.Log || c.Source.Heartbeat != d.Source.Heartbeat || c.Source.Since != "0" {
			t.Errorf("%q: %+v", text, c)
		}
	}
	d := config.Default()
	d.Source.URL, d.Table.URL = "couchdb://h/db", "t"
	if err := d.Validate(); err != nil {
		t.Error(err)
	}
	if d.Commit.Interval.String() != "1m0s" || d.Commit.MaxBytes.String() != "128MiB" || d.Commit.MaxRows != 100_000 || d.Table.Deletes != "tombstone" ||
		d.Table.Partition.Name != "pt" || d.Source.BatchRows != 10_000 || d.Source.Heartbeat.String() != "10s" || !d.Columns.KeepDoc || d.Columns.MaxColumns != 500 {
		t.Errorf("%+v", d)
	}
}

// Every fault of the file comes with its key's path and line, and without the
// text around it.
func TestParseErrors(t *testing.T) {
	const secret = "hunter2"
	for _, c := range []struct {
		text, field string
		line        int
		cause       error
	}{
		{"sauce:\n  url: x\n", "sauce", 1, config.ErrUnknownKey},
		{"source:\n  url: couchdb://u:hunter2@h/d\n  batch_row: 5\n", "source.batch_row", 3, config.ErrUnknownKey},
		{"table:\n  partition:\n    move: stay\nsource:\n  url: hunter2\n", "table.partition.move", 3, config.ErrUnknownKey},
		{"commit:\n  interval: 60\n", "commit.interval", 2, config.ErrValue},
		{"commit:\n  interval: 0\n", "commit.interval", 2, config.ErrValue},
		{"commit:\n  interval: hunter2\n", "commit.interval", 2, config.ErrValue},
		{"commit:\n  max_bytes: many\n", "commit.max_bytes", 2, config.ErrValue},
		{"commit:\n  max_rows: few\n", "commit.max_rows", 2, config.ErrValue},
		{"commit:\n  max_rows: [1]\n", "commit.max_rows", 2, config.ErrValue},
		{"columns:\n  keep_doc: perhaps\n", "columns.keep_doc", 2, config.ErrValue},
		{"columns: 5\n", "columns", 1, config.ErrValue},
		{"source:\n  url: hunter2\n  url: y\n", "", 3, config.ErrSyntax},
		{"source:\n  url: hunter2\n a: b\n", "", 3, config.ErrSyntax},
		{"source: {url: hunter2\n", "", 1, config.ErrSyntax},
		{"sauce:\n", "sauce", 1, config.ErrUnknownKey},
		{"log:\n  level: info\n---\nlog:\n  level: info\n", "", 4, config.ErrSyntax},
		{"- a\n", "", 1, config.ErrValue},
		{"source:\n  auth:\n    pass: hunter2\n", "source.auth.pass", 3, config.ErrUnknownKey},
		{"source:\n  auth:\n    password:\n      - hunter2\n", "", 4, config.ErrValue},
		{"source:\n  tls:\n    insecure_skip_verify: hunter2\n", "source.tls.insecure_skip_verify", 3, config.ErrValue},
	} {
		_, err := config.Parse([]byte(c.text))
		var fe *config.FieldError
		if !errors.As(err, &fe) {
			t.Errorf("%q: %v", c.text, err)
			continue
		}
		if !errors.Is(err, c.cause) || !errors.Is(err, config.ErrConfig) || (c.field != "" && fe.Field != c.field) || fe.Line != c.line {
			t.Errorf("%q: field %q line %d: %v", c.text, fe.Field, fe.Line, err)
		}
		if strings.Contains(err.Error(), secret) && !strings.Contains(c.text, "interval") {
			t.Errorf("%q: the error tells the secret: %v", c.text, err)
		}
	}
}

func TestReferences(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	password, url := file("password", "s3/cr@t\n"), file("url", "couchdb://u:p@h/db\r\n")
	t.Setenv("TEST_USER", "ann@example")
	t.Setenv("TEST_HOST", "h:5984")
	t.Setenv("TEST_DOLLAR", "${TEST_USER}")
	for _, c := range []struct{ text, want string }{
		{"couchdb://${TEST_USER}:${file:" + password + "}@${TEST_HOST}/db", "couchdb://ann%40example:s3%2Fcr%40t@h:5984/db"},
		{"couchdb://u:${TEST_DOLLAR}@h/db", "couchdb://u:%24%7BTEST_USER%7D@h/db"},
		{"couchdb://h/${TEST_USER}", "couchdb://h/ann@example"},
		{"file:" + url, "couchdb://u:p@h/db"},
		{"${file:" + url + "}", "couchdb://u:p@h/db"},
	} {
		got, err := config.Parse([]byte("source:\n  url: " + c.text + "\n"))
		if err != nil || got.Source.URL.Reveal() != c.want {
			t.Errorf("%s: %s, %v", c.text, got.Source.URL.Reveal(), err)
		}
	}
	empty := file("empty", "\n")
	for _, text := range []string{"${TEST_NOT_SET_ANYWHERE}", "${file:" + dir + "/none}", "file:" + dir + "/none", "file:" + empty, "a${TEST_USER"} {
		for _, section := range []string{"source", "table"} {
			_, err := config.Parse([]byte(section + ":\n  url: \"" + text + "\"\n"))
			if section == "table" && strings.HasPrefix(text, "file:") {
				continue // a URL
			}
			var fe *config.FieldError
			if !errors.Is(err, config.ErrReference) || !errors.As(err, &fe) || fe.Field != section+".url" {
				t.Errorf("%s: %v", text, err)
			}
		}
	}
}

func TestReread(t *testing.T) {
	t.Setenv("TEST_PASSWORD", "old")
	c, err := config.Parse([]byte("source:\n  url: couchdb://u:${TEST_PASSWORD}@h/db\n"))
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("TEST_PASSWORD", "new")
	if got, err := c.Source.Reread(); err != nil || got.Reveal() != "couchdb://u:new@h/db" {
		t.Error(got.Reveal(), err)
	}
	if err := os.Unsetenv("TEST_PASSWORD"); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Source.Reread(); !errors.Is(err, config.ErrReference) {
		t.Error(err)
	}
	c.Source.URL = "couchdb://h/other" // by a flag
	if got, err := c.Source.Reread(); err != nil || got != c.Source.URL {
		t.Error(got.Reveal(), err)
	}
}

// The secrets of source.auth are references too, and are read again.
func TestRereadAuth(t *testing.T) {
	file := filepath.Join(t.TempDir(), "secret")
	write := func(text string) {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("old\n")
	t.Setenv("TEST_TOKEN", "first")
	c, err := config.Parse([]byte("source:\n  auth:\n    user: ${TEST_TOKEN}\n    secret: file:" + file + "\n    token: ${TEST_TOKEN}\n    roles: [a, b]\n"))
	if err != nil {
		t.Fatal(err)
	}
	a := c.Source.Auth
	if a.User != "first" || a.Secret.Reveal() != "old" || a.Token.Reveal() != "first" || len(a.Roles) != 2 || a.Kind != "basic" {
		t.Errorf("%+v", a)
	}
	write("new")
	t.Setenv("TEST_TOKEN", "second")
	if a, err = c.Source.RereadAuth(); err != nil || a.User != "second" || a.Secret.Reveal() != "new" || a.Token.Reveal() != "second" || len(a.Roles) != 2 {
		t.Errorf("%+v, %v", a, err)
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	var fe *config.FieldError
	if _, err = c.Source.RereadAuth(); !errors.Is(err, config.ErrReference) || !errors.As(err, &fe) || fe.Field != "source.auth.secret" {
		t.Error(err)
	}
	none := config.Default()
	if a, err := none.Source.RereadAuth(); err != nil || a.Kind != "basic" {
		t.Error(a, err)
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(full))
	f.Add([]byte("commit: {interval: 1s, max_rows: 0x10}\n"))
	f.Add([]byte("a: &a [*a]\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		if strings.Contains(string(data), "file:") {
			return // no reading of the machine's files
		}
		c, err := config.Parse(data)
		if err != nil {
			if !errors.Is(err, config.ErrConfig) {
				t.Errorf("%q: %v", data, err)
			}
			return
		}
		_ = c.Validate()
	})
}
