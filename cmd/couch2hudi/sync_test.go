package main

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/couch2hudi/couch2hudi/catalog/catalogtest"
	"github.com/couch2hudi/couch2hudi/internal/couchfake"
)

// glueServer is a stand-in for AWS Glue, and the URL of a table there.
func glueServer(t *testing.T) (*catalogtest.GlueServer, func(name string) string) {
	t.Helper()
	for name, value := range map[string]string{"AWS_ACCESS_KEY_ID": "x", "AWS_SECRET_ACCESS_KEY": "y", "AWS_EC2_METADATA_DISABLED": "true",
		"AWS_CONFIG_FILE": os.DevNull, "AWS_SHARED_CREDENTIALS_FILE": os.DevNull, "AWS_REGION": "eu-west-1", "AWS_PROFILE": ""} {
		t.Setenv(name, value)
	}
	g := &catalogtest.GlueServer{}
	s := httptest.NewServer(g)
	t.Cleanup(s.Close)
	return g, func(name string) string { return "glue:///" + name + "?endpoint=" + s.URL }
}

// sync tells a metastore of a table, and says what is new; a name of another table is
// refused.
func TestSync(t *testing.T) {
	_, _, url := shop(t, couchfake.Options{}, 12)
	dir := t.TempDir()
	table := filepath.Join(dir, "shop")
	_, to := glueServer(t)
	want(t, exitDone, nil, "run", "--once", "--source", url, "--table", table, "--state-dir", "off")
	want(t, exitUsage, []string{"--to is missing"}, "sync", "--table", table)
	want(t, exitUsage, []string{"catalog.targets"}, "sync", "--table", table, "--to", "http://x/y.z")
	want(t, exitDone, []string{"dry run", "orders_ro created"}, "sync", "--table", table, "--to", to("shop.orders"), "--dry-run")
	want(t, exitDone, []string{"database created", "orders_ro created", "orders_live created"}, "sync", "--table", table, "--to", to("shop.orders"))
	out := want(t, exitDone, nil, "sync", "--table", table, "--to", to("shop.orders"), "--to", to("shop.again"), "--format", "jsonl")
	var lines [2]syncLine
	d := json.NewDecoder(strings.NewReader(out))
	for i := range lines {
		if err := d.Decode(&lines[i]); err != nil {
			t.Fatal(err)
		}
	}
	if lines[0].Tables[2].Step != "unchanged" || lines[1].Tables[2].Step != "created" || lines[1].Target != "glue:///shop.again" || lines[0].Instant == "" {
		t.Errorf("%+v", lines)
	}
	other := filepath.Join(dir, "other")
	want(t, exitDone, nil, "run", "--once", "--source", url, "--table", other, "--state-dir", "off")
	want(t, exitFailed, []string{"somebody else's", "--adopt"}, "sync", "--table", other, "--to", to("shop.orders"))
	want(t, exitDone, []string{"orders adopted"}, "sync", "--table", other, "--to", to("shop.orders"), "--adopt")
}

// run tells the metastores of its config after commits, and goes on when it cannot.
func TestRunSyncs(t *testing.T) {
	_, db, url := shop(t, couchfake.Options{}, 12)
	g, to := glueServer(t)
	dir := t.TempDir()
	file := filepath.Join(dir, "c.yaml")
	config := "source: {url: '" + url + "'}\ntable: {url: '" + filepath.Join(dir, "shop") + "'}\nstate_dir: 'off'\ncommit: {interval: 200ms}\n" +
		"catalog: {interval: 0s, targets: ['" + to("shop.orders") + "', 'hms://127.0.0.1:1/shop.orders']}\n"
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	want(t, exitDone, []string{"glue:///shop.orders answers; it is told of the table after its first commit", "hms://127.0.0.1:1/shop.orders cannot be asked"}, "check", "-c", file, "--timeout", "5s")
	ctx, stop := context.WithCancel(t.Context())
	var said sharedText
	ended := make(chan int, 1)
	go func() {
		ended <- execute(ctx, streams{out: io.Discard, err: &said}, []string{"run", "-c", file, "--listen", "127.0.0.1:0"})
	}()
	page := awaited(t, "address", func() string {
		m := regexp.MustCompile(`"url":"(http://[^"]+)"`).FindStringSubmatch(said.String())
		if m == nil {
			return ""
		}
		return m[1]
	})
	has := func(path string, words ...string) {
		t.Helper()
		awaited(t, strings.Join(words, ", "), func() string {
			r, err := http.Get(page + path)
			if err != nil {
				return ""
			}
			defer func() { _ = r.Body.Close() }()
			body, _ := io.ReadAll(r.Body)
			for _, w := range words {
				if !strings.Contains(string(body), w) {
					return ""
				}
			}
			return string(body)
		})
	}
	has("", "metastore glue:///shop.orders: knows 2", "metastore hms://127.0.0.1:1/shop.orders: not told yet; could not tell it, trying again")
	has("metrics", `couch2hudi_catalog_up{table="shop",target="glue:///shop.orders"} 1`, `couch2hudi_catalog_up{table="shop",target="hms://127.0.0.1:1/shop.orders"} 0`)
	g.Requests()
	if _, err := db.Put("one more", []byte(`{"later": 1.5}`)); err != nil {
		t.Fatal(err)
	}
	awaited(t, "another sync", func() string {
		all := strings.Join(g.Requests(), " ")
		if strings.Contains(all, "UpdateTable") {
			return all
		}
		return ""
	})
	stop()
	if code := <-ended; code != exitDone {
		t.Errorf("exit %d: %s", code, &said)
	}
	if !strings.Contains(said.String(), "could not sync a metastore, trying again") {
		t.Errorf("%s", &said)
	}
	want(t, exitDone, []string{"glue:///shop.orders knows the table"}, "sync", "-c", file, "--to", to("shop.orders"))
	want(t, exitDone, []string{"glue:///shop.orders knows the table's columns and partitions"}, "check", "-c", file, "--timeout", "5s")
	want(t, exitFailed, []string{"glue:///shop.orders knows the table as of", "sync hms://127.0.0.1:1/shop.orders"}, "sync", "-c", file)
}

// One table of many databases has one name; a database that comes later, and the columns
// that it brings, are told of as well.
func TestOneTableSyncs(t *testing.T) {
	g, to := glueServer(t)
	s, file, table := usersInOne(t, 3, "")
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, append(text, "catalog: {targets: ['"+to("lake.{db}")+"']}\n"...), 0o600); err != nil {
		t.Fatal(err)
	}
	want(t, exitUsage, []string{"catalog.targets"}, "run", "-c", file, "--once")
	file = rewrite(t, file, "{db}", "all")
	want(t, exitDone, []string{"metastore synced", "all_ro created"}, "run", "-c", file, "--once")
	user(t, s, "user-new", 2)
	db, _ := s.Database("user-new")
	if _, err := db.Put("d", []byte(`{"fresh":1}`)); err != nil {
		t.Fatal(err)
	}
	g.Requests()
	want(t, exitDone, []string{"metastore synced", "all_rt altered"}, "run", "-c", file, "--once")
	if all := strings.Join(g.Requests(), " "); strings.Contains(all, "Create") {
		t.Errorf("%s", all)
	}
	want(t, exitDone, []string{"all unchanged"}, "sync", "--table", table, "--to", to("lake.all"))
}
