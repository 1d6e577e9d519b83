package config_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/goccy/go-yaml"

	"github.com/couch2hudi/couch2hudi/config"
)

// fine is a config that is valid.
func fine() config.Config {
	c := config.Default()
	c.Source.URL, c.Table.URL = "couchdb://u:p@h/db", "/data/t"
	return c
}

func TestValidate(t *testing.T) {
	for _, c := range []struct {
		field string
		spoil func(*config.Config)
	}{
		{"source.url", func(c *config.Config) { c.Source.URL = "" }},
		{"source.url", func(c *config.Config) { c.Source.URL = "ftp://h/d" }},
		{"source.since", func(c *config.Config) { c.Source.Since = " " }},
		{"source.heartbeat", func(c *config.Config) { c.Source.Heartbeat = 0 }},
		{"source.heartbeat", func(c *config.Config) { c.Source.Heartbeat = config.Duration(time.Hour) }},
		{"source.batch_rows", func(c *config.Config) { c.Source.BatchRows = 0 }},
		{"listen", func(c *config.Config) { c.Listen = "9400" }},
		{"source.parallel", func(c *config.Config) { c.Source.Parallel = 0 }},
		{"source.max_rows_per_second", func(c *config.Config) { c.Source.MaxRowsPerSecond = -1 }},
		{"source.seq_interval", func(c *config.Config) { c.Source.SeqInterval = 0 }},
		{"source.max_row_bytes", func(c *config.Config) { c.Source.MaxRowBytes = 5 }},
		{"source.timeout", func(c *config.Config) { c.Source.Timeout = 1 }},
		{"source.auth.kind", func(c *config.Config) { c.Source.Auth.Kind = "digest" }},
		{"source.auth.user", func(c *config.Config) { c.Source.URL, c.Source.Auth.Password = "http://h/db", "x" }},
		{"source.auth.password_file", func(c *config.Config) { c.Source.Auth.Password, c.Source.Auth.PasswordFile = "x", "y" }},
		{"source.auth.secret", func(c *config.Config) { c.Source.Auth.Secret = "x" }},
		{"source.auth.token", func(c *config.Config) { c.Source.Auth.Token = "x" }},
		{"source.auth.token_file", func(c *config.Config) { c.Source.Auth.TokenFile = "x" }},
		{"source.auth.roles", func(c *config.Config) { c.Source.Auth.Roles = []string{"x"} }},
		{"source.auth.hash", func(c *config.Config) { c.Source.Auth.Hash = "sha1" }},
		{"source.auth.user", func(c *config.Config) { c.Source.URL, c.Source.Auth.Kind = "http://h/db", "proxy" }},
		{"source.url", func(c *config.Config) { c.Source.Auth.Kind = "proxy" }},
		{"source.auth.hash", func(c *config.Config) {
			c.Source.URL, c.Source.Auth = "http://u@h/db", config.Auth{Kind: "proxy", Hash: "md5"}
		}},
		{"source.auth.roles[1]", func(c *config.Config) {
			c.Source.URL, c.Source.Auth = "http://u@h/db", config.Auth{Kind: "proxy", Roles: []string{"a", "b,c"}}
		}},
		{"source.auth.password", func(c *config.Config) {
			c.Source.URL, c.Source.Auth = "http://u@h/db", config.Auth{Kind: "proxy", Password: "x"}
		}},
		{"source.url", func(c *config.Config) { c.Source.Auth = config.Auth{Kind: "jwt", Token: "x"} }},
		{"source.auth.token_file", func(c *config.Config) { c.Source.URL, c.Source.Auth = "http://h/db", config.Auth{Kind: "iam"} }},
		{"source.auth.token_file", func(c *config.Config) {
			c.Source.URL, c.Source.Auth = "http://h/db", config.Auth{Kind: "iam", Token: "x", TokenFile: "y"}
		}},
		{"source.tls", func(c *config.Config) { c.Source.TLS.CA = "x" }},
		{"source.tls", func(c *config.Config) { c.Source.TLS.InsecureSkipVerify = true }},
		{"source.tls.key", func(c *config.Config) { c.Source.URL, c.Source.TLS.Cert = "https://h/db", "x" }},
		{"source.tls.cert", func(c *config.Config) { c.Source.URL, c.Source.TLS.Key = "https://h/db", "x" }},
		{"source.tls.insecure_skip_verify", func(c *config.Config) {
			c.Source.URL, c.Source.TLS = "https://h/db", config.TLS{CA: "x", InsecureSkipVerify: true}
		}},
		{"table.url", func(c *config.Config) { c.Table.URL = "" }},
		{"table.url", func(c *config.Config) { c.Table.URL = "s4://b/p" }},
		{"table.name", func(c *config.Config) { c.Table.Name = "a b" }},
		{"table.deletes", func(c *config.Config) { c.Table.Deletes = "" }},
		{"table.deletes", func(c *config.Config) { c.Table.Deletes = "soft" }},
		{"table.cdc", func(c *config.Config) { c.Table.CDC = "all" }},
		{"table.partition.format", func(c *config.Config) { c.Table.Partition.Format = "yyyy" }},
		{"table.partition.name", func(c *config.Config) { c.Table.Partition.Name = "" }},
		{"table.partition.name", func(c *config.Config) { c.Table.Partition.Name = "_pt" }},
		{"table.partition.timezone", func(c *config.Config) { c.Table.Partition.Timezone = "Mars" }},
		{"table.partition.timezone", func(c *config.Config) { c.Table.Partition.Timezone = "Local" }},
		{"commit.interval", func(c *config.Config) { c.Commit.Interval = config.Duration(time.Millisecond) }},
		{"commit.max_rows", func(c *config.Config) { c.Commit.MaxRows = -1 }},
		{"commit.max_bytes", func(c *config.Config) { c.Commit.MaxBytes = 1 }},
		{"columns.max_columns", func(c *config.Config) { c.Columns.MaxColumns = 0 }},
		{"columns.nested", func(c *config.Config) { c.Columns.Nested = "avro" }},
		{"columns.nested_depth", func(c *config.Config) { c.Columns.NestedDepth = 16 }},
		{"columns.nested_width", func(c *config.Config) { c.Columns.NestedWidth = 0 }},
		{"columns.sample", func(c *config.Config) { c.Columns.Sample = 0 }},
		{"columns.others", func(c *config.Config) { c.Columns.Others = "kept" }},
		{"columns.on_conflict", func(c *config.Config) { c.Columns.OnConflict = "" }},
		{"columns.declare[0].name", func(c *config.Config) { c.Columns.Declare = []config.Declare{{Type: "long"}} }},
		{"columns.declare[1].type", func(c *config.Config) {
			c.Columns.Declare = []config.Declare{{Name: "a", Type: "long"}, {Name: "b"}}
		}},
		{"columns.declare[0].mask", func(c *config.Config) { c.Columns.Declare = []config.Declare{{Name: "a", Type: "long", Mask: "blur"}} }},
		{"columns.declare[0].on_conflict", func(c *config.Config) {
			c.Columns.Declare = []config.Declare{{Name: "a", Type: "long", OnConflict: "ignore"}}
		}},
		{"columns.salt", func(c *config.Config) { c.Columns.Declare = []config.Declare{{Name: "a", Mask: "hash"}} }},
		{"columns.declare[0].nullable", func(c *config.Config) {
			c.Columns.Declare = []config.Declare{{Name: "a", Type: "long", Nullable: new(bool)}}
		}},
		{"log.format", func(c *config.Config) { c.Log.Format = "xml" }},
		{"log.level", func(c *config.Config) { c.Log.Level = "" }},
		{"table.index", func(c *config.Config) { c.Table.Index = "simple" }},
		{"table.buckets", func(c *config.Config) { c.Table.Buckets = 0 }},
		{"table.buckets", func(c *config.Config) { c.Table.Buckets = 2049 }},
		{"table.file_size", func(c *config.Config) { c.Table.FileSize = 1 }},
		{"table.partition.moves", func(c *config.Config) { c.Table.Partition.Moves = "jump" }},
		{"index.scope", func(c *config.Config) { c.Index.Scope = "" }},
		{"writer.max_rewrite", func(c *config.Config) { c.Writer.MaxRewrite = -1 }},
		{"compaction.mode", func(c *config.Config) { c.Compaction.Mode = "always" }},
		{"compaction.max_delta_commits", func(c *config.Config) { c.Compaction.MaxDeltaCommits = 0 }},
		{"compaction.max_age", func(c *config.Config) { c.Compaction.MaxAge = 1 }},
		{"retain", func(c *config.Config) { c.Retain = 1 }},
		{"clean.policy", func(c *config.Config) { c.Clean.Policy = "all" }},
		{"clean.keep", func(c *config.Config) { c.Clean.Keep = -1 }},
		{"timeline.keep_min", func(c *config.Config) { c.Timeline.KeepMin = 5 }},
		{"timeline.keep_max", func(c *config.Config) { c.Timeline.KeepMax = c.Timeline.KeepMin }},
		{"timeline.keep_min", func(c *config.Config) { c.Timeline.KeepMin = 0 }},
		{"compaction.memory", func(c *config.Config) { c.Compaction.Memory = 1 }},
		{"memory", func(c *config.Config) { c.Memory = 5 }},
	} {
		bad := fine()
		c.spoil(&bad)
		err := bad.Validate()
		var fe *config.FieldError
		if !errors.As(err, &fe) || fe.Field != c.field || !errors.Is(err, config.ErrConfig) {
			t.Errorf("%s: %v", c.field, err)
			continue
		}
		if !errors.Is(err, config.ErrValue) && !errors.Is(err, config.ErrRequired) {
			t.Errorf("%s: no cause: %v", c.field, err)
		}
		if !strings.HasPrefix(err.Error(), c.field+": ") || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v", c.field, err)
		}
	}
	c := fine()
	if err := c.Validate(); err != nil {
		t.Error(err)
	}
}

func TestValidAuth(t *testing.T) {
	for _, s := range []config.Source{
		{URL: "http://h/db", Auth: config.Auth{Kind: "basic"}},
		{URL: "http://u@h/db", Auth: config.Auth{Kind: "basic", PasswordFile: "f"}},
		{URL: "http://h/db", Auth: config.Auth{Kind: "cookie", User: "u", Password: "p"}},
		{URL: "http://h/db", Auth: config.Auth{Kind: "cookie"}}, // the user may come from the environment
		{URL: "http://u@h/db", Auth: config.Auth{Kind: "proxy", Secret: "s", Hash: "sha256", Roles: []string{"a", "b c"}}},
		{URL: "http://h/db", Auth: config.Auth{Kind: "proxy", User: "u"}},
		{URL: "couchdbs://h/db", Auth: config.Auth{Kind: "jwt", Token: "t"}, TLS: config.TLS{CA: "c", Cert: "c", Key: "k", ServerName: "n"}},
		{URL: "https://h/db", Auth: config.Auth{Kind: "iam", TokenFile: "t"}, TLS: config.TLS{InsecureSkipVerify: true}},
	} {
		c := fine()
		c.Source.URL, c.Source.Auth, c.Source.TLS = s.URL, s.Auth, s.TLS
		if err := c.Validate(); err != nil {
			t.Errorf("%+v: %v", s, err)
		}
	}
}

func TestValidateSaysAll(t *testing.T) {
	var c config.Config
	err := c.Validate()
	for _, field := range []string{"source.url", "source.since", "source.heartbeat", "table.url", "table.deletes", "table.partition.name",
		"commit.interval", "columns.max_columns", "log.level"} {
		if !strings.Contains(err.Error(), field+": ") {
			t.Errorf("%s is missing in %v", field, err)
		}
	}
}

func TestSecretIsNeverPrinted(t *testing.T) {
	const secret = config.Secret("hunter2")
	c, err := config.Parse([]byte("source:\n  url: couchdb://u:hunter2@h/db\n  auth: {password: hunter2, secret: hunter2, token: hunter2}\n"))
	if err != nil {
		t.Fatal(err)
	}
	var log strings.Builder
	for _, h := range []slog.Handler{slog.NewTextHandler(&log, nil), slog.NewJSONHandler(&log, nil)} {
		slog.New(h).Info("config", "url", secret, "config", c)
	}
	j, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	y, err := yaml.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	texts := []string{log.String(), string(j), string(y)}
	for _, format := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
		texts = append(texts, fmt.Sprintf(format, secret), fmt.Sprintf(format, c), fmt.Sprintf(format, &c))
	}
	for _, text := range texts {
		if strings.Contains(text, "hunter2") || strings.Contains(text, "68756e746572") {
			t.Errorf("it tells: %s", text)
		}
	}
	if fmt.Sprint(secret) != "****" || fmt.Sprint(config.Secret("")) != "" || secret.Reveal() != "hunter2" {
		t.Error(fmt.Sprint(secret))
	}
}

func TestSize(t *testing.T) {
	for _, c := range []struct {
		text string
		size config.Size
	}{
		{"0", 0}, {"4096", 4096}, {"512B", 512}, {"128MiB", 128 << 20}, {"128 mib", 128 << 20}, {"64kB", 64_000}, {"1.5GB", 1_500_000_000}, {"2TiB", 2 << 40},
	} {
		got, err := config.ParseSize(c.text)
		if err != nil || got != c.size {
			t.Errorf("%s: %d, %v", c.text, got, err)
		}
		if back, err := config.ParseSize(got.String()); err != nil || back != got {
			t.Errorf("%s: %s comes back as %d, %v", c.text, got, back, err)
		}
	}
	for _, text := range []string{"", "MiB", "-1", "1PiB", "0x10", "1e3", "Inf", "NaN", "1_000", "9999999999TiB", "12 apples"} {
		if got, err := config.ParseSize(text); !errors.Is(err, config.ErrValue) {
			t.Errorf("%q: %d, %v", text, got, err)
		}
	}
	var s config.Size
	if err := s.Set("1KiB"); err != nil || s != 1024 || s.Type() != "size" {
		t.Error(s, err)
	}
}

func TestParseSourceURL(t *testing.T) {
	for _, c := range []struct {
		text config.Secret
		want config.SourceURL
	}{
		{"couchdb://u:p%40ss@h:5984/db", config.SourceURL{Server: "http://h:5984", Database: "db", User: "u", Password: "p@ss"}},
		{"couchdb://h/db", config.SourceURL{Server: "http://h:5984", Database: "db"}},
		{"couchdbs://h/db/", config.SourceURL{Server: "https://h:6984", Database: "db"}},
		{"couchdbs://h:443/db", config.SourceURL{Server: "https://h:443", Database: "db"}},
		{"couchdb://[::1]/db", config.SourceURL{Server: "http://[::1]:5984", Database: "db"}},
		{"https://h/couch/a%2Fb", config.SourceURL{Server: "https://h/couch", Database: "a/b"}},
		{"http://u@127.0.0.1:1/d-_$()+", config.SourceURL{Server: "http://127.0.0.1:1", Database: "d-_$()+", User: "u"}},
	} {
		c.want.Kind = "couchdb"
		got, err := config.ParseSourceURL(c.text)
		if err != nil || got != c.want || got.Password.Reveal() != c.want.Password.Reveal() {
			t.Errorf("%s: %+v, %v", c.text.Reveal(), got, err)
		}
	}
	for _, text := range []config.Secret{"h/db", "couchdb://h", "couchdb://h/", "couchdb:///db", "couchdb://h/db?x=hunter2", "couchdb://h/db#hunter2",
		"couchdb://u:hunter2#@h/db", "couchdb://u:hun%ter2@h/db", "couchdb://u:hunter2/x@h/db", "couchdb://u:hunter2@h:port/db", "\x00hunter2"} {
		got, err := config.ParseSourceURL(text)
		if !errors.Is(err, config.ErrValue) || !errors.Is(err, config.ErrConfig) {
			t.Errorf("%s: %+v, %v", text.Reveal(), got, err)
		} else if strings.Contains(err.Error(), "hunter2") {
			t.Errorf("it tells: %v", err)
		}
	}
}

func TestParseSourceURLOfOtherKinds(t *testing.T) {
	for text, want := range map[config.Secret]config.SourceURL{
		"kafka://h/t": {Kind: "kafka", Server: "h:9092", Database: "t"},
		"kafka://a:1,[::1]:2,c/couchdb.binlog?group=g": {Kind: "kafka", Server: "a:1,[::1]:2,c:9092", Database: "couchdb.binlog"},
		"kafka://u:p%40ss@a:1,b:2/t":                   {Kind: "kafka", Server: "a:1,b:2", Database: "t", User: "u", Password: "p@ss"},
		"ndjson:///in/box/":                            {Kind: "ndjson", Path: "/in/box"},
		"ndjson://localhost/a%20b?format=plain":        {Kind: "ndjson", Path: "/a b"},
		"ndjson:///in?consumed=move%3A%2Fdone":         {Kind: "ndjson", Path: "/in"},
	} {
		got, err := config.ParseSourceURL(text)
		if err != nil || got.Kind != want.Kind || got.Server != want.Server || got.Database != want.Database || got.Path != want.Path ||
			got.User != want.User || got.Password.Reveal() != want.Password.Reveal() {
			t.Errorf("%s: %+v, %v", text.Reveal(), got, err)
		}
		if strings.Contains(got.String(), "p@ss") {
			t.Errorf("it tells: %s", got)
		}
	}
	for text, want := range map[config.Secret][2]string{
		"kafka://a/t?group=g":                          {"group", "g"},
		"ndjson:///in?format=plain&consumed=delete":    {"consumed", "delete"},
		"ndjson:///in?consumed=move%3A%2Fdone%20files": {"consumed", "move:/done files"},
		"ndjson:///in?consumed=move:/done":             {"consumed", "move:/done"},
		"ndjson:///in":                                 {"format", ""},
	} {
		if u, err := config.ParseSourceURL(text); err != nil || u.Option(want[0]) != want[1] {
			t.Errorf("%s: %q, %v", text.Reveal(), u.Option(want[0]), err)
		}
	}
	for _, text := range []config.Secret{"kafka://", "kafka:///t", "kafka://a", "kafka://a/", "kafka://a/t/u", "kafka://a,/t", "kafka://a:port/t", "kafka://a/t?x=hunter2",
		"kafka://a/t#x", "kafka://u:hun%ter2@a/t", "kafka://u:hunter2/x@a/t", "kafka://a/t?group=a&group=b",
		"ndjson://h/in", "ndjson:///", "ndjson://", "ndjson:in", "ndjson://u:hunter2@localhost/in", "ndjson:///in?x=1", "ndjson:///in#x", "ndjson:///%zz", "ndjson:///in?format=%zz"} {
		got, err := config.ParseSourceURL(text)
		if !errors.Is(err, config.ErrValue) {
			t.Errorf("%s: %+v, %v", text.Reveal(), got, err)
		} else if strings.Contains(err.Error(), "hunter2") {
			t.Errorf("it tells: %v", err)
		}
	}
}
