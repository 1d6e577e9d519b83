package glue_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/couch2hudi/couch2hudi/catalog"
	"github.com/couch2hudi/couch2hudi/catalog/catalogtest"
	"github.com/couch2hudi/couch2hudi/catalog/glue"
)

// account is an environment in which AWS's tools find credentials, and no server of
// AWS's that would have others.
func account(t *testing.T) {
	t.Helper()
	for name, value := range map[string]string{"AWS_ACCESS_KEY_ID": "x", "AWS_SECRET_ACCESS_KEY": "y", "AWS_EC2_METADATA_DISABLED": "true",
		"AWS_CONFIG_FILE": "/dev/null", "AWS_SHARED_CREDENTIALS_FILE": "/dev/null", "AWS_REGION": "", "AWS_PROFILE": ""} {
		t.Setenv(name, value)
	}
}

func TestSuite(t *testing.T) {
	account(t)
	server := httptest.NewServer(&catalogtest.GlueServer{})
	defer server.Close()
	catalogtest.Run(t, "s3://bucket/data", catalogtest.Many, func(t *testing.T) catalog.Metastore {
		s, err := glue.Open(t.Context(), glue.Options{Region: "eu-west-1", Endpoint: server.URL})
		if err != nil {
			t.Fatal(err)
		}
		return s
	})
}

// Partitions have columns of their own, which grow with the table's; and what only
// notes a commit leaves them alone.
func TestCascade(t *testing.T) {
	account(t)
	fake := &catalogtest.GlueServer{}
	server := httptest.NewServer(fake)
	defer server.Close()
	s, err := glue.Open(t.Context(), glue.Options{Region: "eu-west-1", Endpoint: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	table := catalogtest.Sample("grown", "s3://bucket")
	for _, err := range []error{s.CreateDatabase(t.Context(), "db"), s.Create(t.Context(), "db", table),
		s.AddPartitions(t.Context(), "db", table, []catalog.Partition{{Value: "a", Location: "s3://bucket/a"}})} {
		if err != nil {
			t.Fatal(err)
		}
	}
	requests := func() string {
		fake.Requests()
		if err := s.Alter(t.Context(), "db", table); err != nil {
			t.Fatal(err)
		}
		return strings.Join(fake.Requests(), " ")
	}
	table.Parameters["last_commit_time_sync"] = "1"
	if got := requests(); got != "GetTable UpdateTable" {
		t.Errorf("a note: %s", got)
	}
	table.Columns = append(table.Columns, catalog.Column{Name: "more", Type: "double"})
	if got := requests(); got != "GetTable GetPartitions BatchUpdatePartition UpdateTable" {
		t.Errorf("a new column: %s", got)
	}
}

// A server that fails is asked again, as AWS's tools do.
func TestRetries(t *testing.T) {
	account(t)
	fake := &catalogtest.GlueServer{}
	server := httptest.NewServer(fake)
	defer server.Close()
	s, err := glue.Open(t.Context(), glue.Options{Region: "eu-west-1", Endpoint: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	fake.Spoil(1)
	if err := s.CreateDatabase(t.Context(), "db"); err != nil {
		t.Error(err)
	}
	fake.Spoil(100)
	if _, err := s.HasDatabase(t.Context(), "db"); err == nil || !strings.Contains(err.Error(), "spoiled") {
		t.Errorf("%v", err)
	}
}

// A server that hangs is given up, asked again, and answers then.
func TestHangs(t *testing.T) {
	account(t)
	fake := &catalogtest.GlueServer{}
	free := make(chan struct{})
	var asking atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if asking.Add(1) == 1 {
			<-free
			return
		}
		fake.ServeHTTP(w, r)
	}))
	defer server.Close()
	defer close(free)
	s, err := glue.Open(t.Context(), glue.Options{Region: "eu-west-1", Endpoint: server.URL, Timeout: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	if has, err := s.HasDatabase(t.Context(), "db"); has || err != nil {
		t.Errorf("%v, %v", has, err)
	}
	if n := asking.Load(); n < 2 {
		t.Errorf("asked %d times", n)
	}
}

func TestNoRegion(t *testing.T) {
	account(t)
	if _, err := glue.Open(t.Context(), glue.Options{}); err == nil || !strings.Contains(err.Error(), "AWS_REGION") {
		t.Errorf("%v", err)
	}
}
