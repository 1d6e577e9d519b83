//go:build oracle

package e2e

import (
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/couch2hudi/couch2hudi/catalog"
	"github.com/couch2hudi/couch2hudi/catalog/catalogtest"
	"github.com/couch2hudi/couch2hudi/catalog/glue"
)

// TestGlue registers a table through the binary in two stand-ins for AWS Glue: moto,
// whose answers are not ours, and our own, which keeps Glue's limits.
func TestGlue(t *testing.T) {
	for name, value := range map[string]string{"AWS_ACCESS_KEY_ID": "x", "AWS_SECRET_ACCESS_KEY": "y", "AWS_EC2_METADATA_DISABLED": "true"} {
		t.Setenv(name, value)
	}
	t.Run("ours", func(t *testing.T) {
		s := httptest.NewServer(&catalogtest.GlueServer{})
		defer s.Close()
		glueKnows(t, s.URL)
	})
	t.Run("moto", func(t *testing.T) {
		moto := moto()
		address := "http://" + moto.start(t)
		t.Run("suite", func(t *testing.T) {
			catalogtest.Run(t, "s3://lake/data", 300, func(t *testing.T) catalog.Metastore {
				s, err := glue.Open(t.Context(), glue.Options{Region: "eu-west-1", Endpoint: address})
				if err != nil {
					t.Fatal(err)
				}
				return s
			})
		})
		glueKnows(t, address)
	})
}

// glueKnows syncs a table as it grows: each sync asks for what is new and no more.
func glueKnows(t *testing.T, address string) {
	to, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	var asked []string
	through := httputil.NewSingleHostReverseProxy(to)
	heard := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, what, _ := strings.Cut(r.Header.Get("X-Amz-Target"), ".")
		mu.Lock()
		asked = append(asked, what)
		mu.Unlock()
		through.ServeHTTP(w, r)
	}))
	defer heard.Close()
	w := newTableWriter(t, modelOptions{partition: "place"})
	// tell is what the binary says of a sync, and the requests that write.
	tell := func() (said string, writes []string) {
		said = couch2hudi(t, "sync", "--table", w.table, "--to", "glue://eu-west-1/lake.docs?endpoint="+heard.URL)
		mu.Lock()
		defer mu.Unlock()
		writes = slices.DeleteFunc(asked, func(name string) bool { return strings.HasPrefix(name, "Get") || name == "BatchGetPartition" })
		asked = nil
		slices.Sort(writes)
		return said, slices.Compact(writes)
	}
	step := func(when string, words int, word string, want ...string) {
		t.Helper()
		said, writes := tell()
		if strings.Count(said, word) != words || !slices.Equal(writes, want) {
			t.Errorf("%s: it asked for %v, want %v; it said\n%s", when, writes, want, said)
		}
	}
	w.step(20)
	step("at first", 5, "created", "BatchCreatePartition", "CreateDatabase", "CreateTable", "UpdateTable")
	step("again", 4, "unchanged")
	for _, body := range []string{`{"place":"a new one","n":1}`, `{"place":"a/b=c%d","newColumn":1}`} {
		if _, err := w.db.Put("of "+body, []byte(body)); err != nil {
			t.Fatal(err)
		}
	}
	couch2hudi(t, w.args...)
	step("grown", 3, "partitions added", "BatchCreatePartition", "BatchUpdatePartition", "UpdateTable")
	step("in the end", 4, "unchanged")
	glueGrew(t, address)
}

// glueGrew looks at what is there: a column that came reaches down to the partitions,
// whose values are the rows'.
func glueGrew(t *testing.T, address string) {
	s, err := glue.Open(t.Context(), glue.Options{Region: "eu-west-1", Endpoint: address})
	if err != nil {
		t.Fatal(err)
	}
	table, err := s.Table(t.Context(), "lake", "docs_rt")
	if err != nil {
		t.Fatal(err)
	}
	if !slices.ContainsFunc(table.Columns, func(c catalog.Column) bool { return c.Name == "newcolumn" && c.Type == "bigint" }) {
		t.Errorf("columns %v", table.Columns)
	}
	all, err := s.Partitions(t.Context(), "lake", table)
	if err != nil {
		t.Fatal(err)
	}
	for _, value := range []string{"a new one", "a/b=c%d"} {
		if !slices.ContainsFunc(all, func(p catalog.Partition) bool { return p.Value == value }) {
			t.Errorf("no partition %q in %v", value, all)
		}
	}
}
