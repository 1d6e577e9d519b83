//go:build oracle

package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestSidecarKilledInContainers runs the sidecar beside a database in containers,
// kills it again and again while documents are written, and compares the table
// with the database at the end. Nothing but the table survives a kill: the
// container is removed and made anew each time.
func TestSidecarKilledInContainers(t *testing.T) {
	s := startStack(t)
	const rounds, perRound = 4, 250
	written := 0
	for round := range rounds {
		s.compose("up", "-d", "--no-deps", "couch2hudi")
		for range perRound / 50 {
			s.write(written, 50)
			written += 50
		}
		if round == 0 {
			s.await("a first commit", func() string { return s.commits(1) })
		}
		s.edit(round, written)
		s.compose("kill", "-s", "KILL", "couch2hudi")
		s.compose("rm", "-f", "couch2hudi")
	}
	s.compose("up", "-d", "--no-deps", "couch2hudi")
	s.await("the table to equal the database", func() string { return s.difference(hudiRs) })
	// Hudi's own reader is asked once, when nothing moves any more.
	if d := s.difference(spark015); d != "" {
		t.Errorf("spark-0.15: %s", d)
	}
}

// stack is the pair of containers.
type stack struct {
	t       *testing.T
	env     []string
	project string
	table   string // the table's folder on this machine
	url     string // of the database, through the published port
}

func startStack(t *testing.T) *stack {
	t.Helper()
	dir := os.Getenv("DOCKER_DIR")
	if dir == "" {
		dir = "../.cache/docker"
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		t.Fatal(err)
	}
	mount := t.TempDir()
	s := &stack{t: t, project: fmt.Sprintf("couch2hudi-e2e-%d", os.Getpid()), table: filepath.Join(mount, "docs")}
	s.env = append(os.Environ(), "DOCKER_HOST=unix://"+filepath.Join(dir, "d.sock"), "DOCKER_BUILDKIT=0", "TABLE_DIR="+mount)
	if out, err := s.try("docker", "version"); err != nil {
		t.Fatalf("no Docker engine in %s: %v\n%s\nstart one with: make docker", dir, err, out)
	}
	s.image("couch2hudi-e2e/couchfaked", "./couchfaked")
	s.image("couch2hudi-e2e/couch2hudi", "../cmd/couch2hudi")
	t.Cleanup(func() {
		if t.Failed() {
			out, _ := s.try("docker-compose", s.args("logs", "--tail", "60")...)
			t.Logf("what the containers said:\n%s", out)
		}
		s.compose("down", "-v", "--remove-orphans", "-t", "1")
	})
	s.compose("up", "-d", "couchdb")
	s.url = "http://" + strings.TrimSpace(s.compose("port", "couchdb", "5984")) + "/docs"
	s.await("the database server", func() string {
		code, body, err := s.request(http.MethodPut, s.url, nil)
		if err != nil || code != http.StatusCreated {
			return fmt.Sprintf("create database: %d %s %v", code, body, err)
		}
		return ""
	})
	return s
}

// image builds a static binary of the package and an image with nothing else in it.
func (s *stack) image(tag, pkg string) {
	s.t.Helper()
	dir := s.t.TempDir()
	build := exec.Command("go", "build", "-trimpath", "-o", filepath.Join(dir, "binary"), pkg)
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		s.t.Fatalf("build %s: %v\n%s", pkg, err, out)
	}
	if out, err := s.try("docker", "build", "-q", "-t", tag, "-f", "compose/Dockerfile", "--build-arg", "BINARY=binary", dir); err != nil {
		s.t.Fatalf("build image %s: %v\n%s", tag, err, out)
	}
}

// try runs a command against our engine.
func (s *stack) try(name string, args ...string) (string, error) {
	cmd := exec.Command(name, args...)
	cmd.Env = s.env
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	if err != nil {
		return out.String() + errs.String(), err
	}
	return out.String(), nil
}

func (s *stack) args(args ...string) []string {
	return append([]string{"-p", s.project, "-f", "compose/docker-compose.yml"}, args...)
}

// compose runs docker-compose and fails the test when that does.
func (s *stack) compose(args ...string) string {
	s.t.Helper()
	out, err := s.try("docker-compose", s.args(args...)...)
	if err != nil {
		s.t.Fatalf("docker-compose %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return out
}

// await asks until the answer is empty. Containers need their time; three minutes are
// far more than they need.
func (s *stack) await(what string, ask func() string) {
	s.t.Helper()
	deadline := time.Now().Add(3 * time.Minute)
	for {
		missing := ask()
		if missing == "" {
			return
		}
		if time.Now().After(deadline) {
			s.t.Fatalf("waited in vain for %s: %s", what, missing)
		}
		time.Sleep(300 * time.Millisecond)
	}
}

func (s *stack) request(method, url string, body []byte) (int, string, error) {
	req, err := http.NewRequestWithContext(s.t.Context(), method, url, bytes.NewReader(body))
	if err != nil {
		return 0, "", err
	}
	req.Header.Set("Content-Type", "application/json")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, "", err
	}
	defer res.Body.Close()
	data, err := io.ReadAll(res.Body)
	return res.StatusCode, string(data), err
}

// write adds n documents, from number first on.
func (s *stack) write(first, n int) {
	s.t.Helper()
	docs := make([]map[string]any, 0, n)
	for i := first; i < first+n; i++ {
		docs = append(docs, map[string]any{
			"_id": fmt.Sprintf("doc-%05d", i), "n": i, "price": float64(i) + 0.25, "name": fmt.Sprintf("名前 %d 😀", i),
			"tags": []string{"a", "b"}, "createdAt": fmt.Sprintf("2024-01-%02dT10:00:00Z", 1+i%3),
		})
	}
	s.bulk(docs)
}

// edit changes every seventh of the documents so far, deletes every thirteenth,
// and moves every fiftieth to another day.
func (s *stack) edit(round, written int) {
	s.t.Helper()
	var docs []map[string]any
	for _, d := range s.changes() {
		var body map[string]any
		if err := decodeNumbers(d.Body, &body); err != nil {
			s.t.Fatal(err)
		}
		var i int
		if _, err := fmt.Sscanf(d.ID, "doc-%d", &i); err != nil || d.Deleted || i >= written {
			continue
		}
		switch {
		case i%13 == round:
			body = map[string]any{"_id": d.ID, "_rev": d.Leaves[0], "_deleted": true}
		case i%50 == round:
			body["createdAt"] = "2024-02-01T00:00:00Z"
		case i%7 == round:
			body["n"] = -i
		default:
			continue
		}
		docs = append(docs, body)
	}
	s.bulk(docs)
}

func (s *stack) bulk(docs []map[string]any) {
	s.t.Helper()
	data, err := json.Marshal(map[string]any{"docs": docs})
	if err != nil {
		s.t.Fatal(err)
	}
	code, body, err := s.request(http.MethodPost, s.url+"/_bulk_docs", data)
	if err != nil || code != http.StatusCreated || strings.Contains(body, `"error"`) {
		s.t.Fatalf("write documents: %d %.300s %v", code, body, err)
	}
}

// changes is the whole feed: each document's newest state.
func (s *stack) changes() []document {
	s.t.Helper()
	code, body, err := s.request(http.MethodGet, s.url+"/_changes?include_docs=true&style=all_docs", nil)
	var feed struct {
		Results []struct {
			ID      string
			Changes []struct{ Rev string }
			Deleted bool
			Doc     json.RawMessage
		}
	}
	if err == nil {
		err = json.Unmarshal([]byte(body), &feed)
	}
	if err != nil || code != http.StatusOK {
		s.t.Fatalf("read the feed: %d %.300s %v", code, body, err)
	}
	var out []document
	for _, r := range feed.Results {
		d := document{ID: r.ID, Deleted: r.Deleted, Body: r.Doc}
		for _, c := range r.Changes {
			d.Leaves = append(d.Leaves, c.Rev)
		}
		out = append(out, d)
	}
	return out
}

// commits says whether the table has n completed commits, empty when it has.
func (s *stack) commits(n int) string {
	done, err := filepath.Glob(filepath.Join(s.table, ".hoodie", "*.deltacommit"))
	if err != nil || len(done) < n {
		return fmt.Sprintf("%d commits, %v", len(done), err)
	}
	return ""
}

// difference compares the table, as the engine reads it, with the database. In
// which commit a row came, and where a document was when it was deleted, depends
// on when the sidecar was killed: neither is compared for deleted documents.
func (s *stack) difference(start func() (*engine, error)) string {
	s.t.Helper()
	got, err := mustEngine(s.t, start).rows(question{Op: "snapshot", Table: s.table})
	if err != nil {
		return err.Error()
	}
	m := newModel(modelOptions{partition: "createdAt", layout: "20060102"})
	if err := m.apply("0", s.changes()); err != nil {
		s.t.Fatal(err)
	}
	want := m.snapshot()
	for _, rows := range [][]row{want, got} {
		for _, r := range rows {
			if r["_deleted"] == true {
				r["pt"], r[colPartition] = "where it was", "where it was"
			}
		}
	}
	return diff(want, got, colCommitTime)
}
