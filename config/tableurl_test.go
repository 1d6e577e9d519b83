package config_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/couch2hudi/couch2hudi/config"
)

func TestParseTableURL(t *testing.T) {
	type want struct{ scheme, host, path, location, text string }
	for text, w := range map[string]want{
		"/data/t":              {"file", "", "/data/t", "/data/t", "/data/t"},
		"t":                    {"file", "", "t", "t", "t"},
		"./a/../b/":            {"file", "", "b", "b", "b"},
		"file:///data/t":       {"file", "", "/data/t", "/data/t", "/data/t"},
		"file://localhost/t/":  {"file", "", "/t", "/t", "/t"},
		"file:///a%20b":        {"file", "", "/a b", "/a b", "/a b"},
		"C:t":                  {"file", "", "C:t", "C:t", "C:t"},
		"s3://bucket/a/t":      {"s3", "bucket", "a/t", "s3a://bucket/a/t", "s3://bucket/a/t"},
		"s3://bucket/t/?x=y&a": {"s3", "bucket", "t", "s3a://bucket/t", "s3://bucket/t"},
		"s3://bucket":          {"s3", "bucket", "", "s3a://bucket", "s3://bucket/"},
		"gs://bucket/a%20b":    {"gs", "bucket", "a b", "gs://bucket/a b", "gs://bucket/a%20b"},
		"azblob://box/t":       {"azblob", "box", "t", "", "azblob://box/t"},
		"hdfs://nn:8020/lake":  {"hdfs", "nn:8020", "lake", "hdfs://nn:8020/lake", "hdfs://nn:8020/lake"},
		"hdfs:///lake/t":       {"hdfs", "", "lake/t", "hdfs:///lake/t", "hdfs:///lake/t"},
		"hdfs://me@a:1,b:2/t":  {"hdfs", "a:1,b:2", "t", "hdfs://a:1,b:2/t", "hdfs://a:1,b:2/t"},
	} {
		u, err := config.ParseTableURL(text)
		if got := (want{u.Scheme, u.Host, u.Path, u.Location(), u.String()}); err != nil || got != w || u.Local() != (w.scheme == "file") {
			t.Errorf("%s: %+v, %v", text, got, err)
		}
	}
	u, err := config.ParseTableURL("s3://b/t?region=eu-1&endpoint=http%3A%2F%2Fh%3A1")
	if q := u.Query(); err != nil || q.Get("endpoint") != "http://h:1" || q.Get("region") != "eu-1" {
		t.Errorf("%v, %v", q, err)
	}
	if u, err := config.ParseTableURL("hdfs://me@nn/t"); err != nil || u.User != "me" {
		t.Errorf("user %q, %v", u.User, err)
	}
	for _, text := range []string{"", "hdfs://me:hunter2@nn/t", "s4://bucket/t", "file://host/t", "file:///", "file://", "file:///t?x=1", "file:///t#x", "file:///%zz",
		"s3:///t", "s3://b/t#x", "s3://b/a/../t", "s3://b/a//t", "s3://b/t?a=1&a=2", "s3://b/t?%zz", "s3://b/%zz?secret=hunter2", "s3://key:hunter2@b/t"} {
		if got, err := config.ParseTableURL(text); !errors.Is(err, config.ErrConfig) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %+v, %v", text, got, err)
		}
	}
}

func TestSplitTableURL(t *testing.T) {
	u, err := config.ParseTableURL("s3://b/t?region=x&timeout=5s&patience=2m&lease=90s&trust_single_writer=true")
	if err != nil {
		t.Fatal(err)
	}
	got, rest, err := u.Split()
	if err != nil || got != (config.Tuning{Trusted: true, Timeout: 5 * time.Second, Patience: 2 * time.Minute, Lease: 90 * time.Second}) || rest.Encode() != "region=x" {
		t.Errorf("%+v, %v, %v", got, rest, err)
	}
	for _, text := range []string{"s3://b/t?timeout=5", "s3://b/t?patience=-1s", "s3://b/t?lease=10ms", "s3://b/t?lease=long", "s3://b/t?trust_single_writer=perhaps"} {
		c := config.Default()
		c.Source.URL, c.Table.URL = "http://h/db", text
		if err := c.Validate(); !errors.Is(err, config.ErrConfig) {
			t.Errorf("%s: %v", text, err)
		}
	}
	for text, want := range map[string]string{
		"s3://b/t": "s3://b/t?trust_single_writer=true", "s3://b/t?region=x": "s3://b/t?region=x&trust_single_writer=true",
		"s3://b/t?trust_single_writer=false": "s3://b/t?trust_single_writer=false", "/data/t": "/data/t",
	} {
		one := config.Table{URL: text, TrustSingleWriter: true}
		if got := one.Address(); got != want {
			t.Errorf("%s: %s", text, got)
		}
		if one.TrustSingleWriter = false; one.Address() != text {
			t.Errorf("%s: %s", text, one.Address())
		}
	}
}
