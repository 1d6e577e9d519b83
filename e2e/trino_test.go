//go:build oracle

package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// trino is a running Trino that finds tables by the names of metastores: its Hudi
// connector as hudi_NAME.DATABASE.TABLE, its Hive connector as hive_NAME.DATABASE.TABLE.
type trino struct{ url string }

// startTrino starts one and does not wait for it: answers does. It is stopped before
// its folder goes.
func startTrino(t *testing.T, metastores ...string) (_ *trino, answers func(t *testing.T)) {
	t.Helper()
	home, err := filepath.Abs(oracleDir())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(home, "trino", ".installed")); err != nil {
		t.Fatalf("no Trino: %v\ninstall it with: make oracle", err)
	}
	data, address := t.TempDir(), freeAddress(t)
	_, port, _ := strings.Cut(address, ":")
	log, err := os.Create(filepath.Join(home, "trino.log"))
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("oracle/trino/start.sh", append([]string{home, data, port}, metastores...)...)
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() { _ = cmd.Wait(); close(ended) }()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-ended
		_ = log.Close()
	})
	s := &trino{url: "http://" + address}
	return s, func(t *testing.T) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), engineStart)
		defer cancel()
		for {
			_, err := s.ask(ctx, "SELECT 1")
			if err == nil {
				return
			}
			select {
			case <-ended:
				t.Fatalf("Trino ended (log: %s)", log.Name())
			case <-ctx.Done():
				t.Fatalf("Trino does not answer within %s: %v (log: %s)", engineStart, err, log.Name())
			case <-time.After(100 * time.Millisecond):
			}
		}
	}
}

// trinoAnswer is one page of what Trino answers.
type trinoAnswer struct {
	NextURI string `json:"nextUri"`
	Columns []struct{ Name, Type string }
	Data    [][]any
	Stats   struct{ ProcessedRows int }
	Error   *struct{ ErrorName, Message string }
}

// ask is a statement and all that is answered, the statistics of its end too.
func (s *trino) ask(ctx context.Context, sql string) (all trinoAnswer, err error) {
	page := trinoAnswer{NextURI: s.url + "/v1/statement"}
	method, body := http.MethodPost, io.Reader(strings.NewReader(sql))
	for page.NextURI != "" {
		r, err := http.NewRequestWithContext(ctx, method, page.NextURI, body)
		if err != nil {
			return all, err
		}
		r.Header.Set("X-Trino-User", "test")
		r.Header.Set("X-Trino-Time-Zone", "UTC")
		if page, err = trinoPage(r); err != nil {
			return all, err
		}
		if page.Columns != nil {
			all.Columns = page.Columns
		}
		all.Data, all.Stats = append(all.Data, page.Data...), page.Stats
		method, body = http.MethodGet, nil
	}
	return all, nil
}

func trinoPage(r *http.Request) (page trinoAnswer, err error) {
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return page, err
	}
	defer func() { _ = answer.Body.Close() }()
	d := json.NewDecoder(answer.Body)
	d.UseNumber()
	if err := d.Decode(&page); err != nil {
		return page, fmt.Errorf("%s: %w", answer.Status, err)
	}
	if page.Error != nil {
		return page, errors.New(page.Error.ErrorName + ": " + page.Error.Message)
	}
	return page, nil
}

// rows are a statement's, with values as the other engines' rows have them.
func (s *trino) rows(t *testing.T, sql string) []row {
	t.Helper()
	all, err := s.ask(t.Context(), sql)
	if err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	a := answer{Rows: all.Data}
	kinds := map[string]string{"bigint": "long", "varchar": "string"}
	for _, c := range all.Columns {
		kind := c.Type
		if k := kinds[kind]; k != "" {
			kind = k
		}
		a.Columns = append(a.Columns, [2]string{c.Name, kind})
	}
	rows, err := a.typedRows()
	if err != nil {
		t.Fatal(err)
	}
	return rows
}

// trinoReadsNames lets Trino find a table by name: by each name it reads the base files
// alone, as it does of a partition that is asked for, without looking at others; and
// after a compaction all that the database has.
func trinoReadsNames(t *testing.T, s *trino, old, young string) {
	w := newTableWriter(t, modelOptions{partition: "place"})
	w.args = append(w.args, "--compaction", "off")
	tell := func() {
		couch2hudi(t, "sync", "--table", w.table, "--to", "hms://"+old+"/trino.docs", "--to", "hms://"+young+"/trino.docs")
	}
	put := func(id, body string) {
		t.Helper()
		if _, err := w.db.Put(id, []byte(body)); err != nil {
			t.Fatal(err)
		}
	}
	put("still", `{"place":"no new ones","n":1}`)
	w.step(20)
	tell()
	base := w.model.readOptimized()
	s.agree(t, "at first", base, "hudi_old.trino.docs_ro", "hive_old.trino.docs_ro", "hudi_young.trino.docs_ro")
	put("still", `{"place":"no new ones","n":2}`) // into a log file
	put("grown", `{"place":"a/b=c%d","newColumn":{"x":1},"n":1.5}`)
	w.step(20)
	tell()
	base = w.model.readOptimized()
	if diff(base, w.model.snapshot()) == "" {
		t.Fatal("all rows are in base files: the table shows nothing")
	}
	s.agree(t, "grown", base, "hudi_old.trino.docs_ro", "hudi_old.trino.docs_rt", "hive_old.trino.docs", "hive_young.trino.docs")
	couch2hudi(t, "compact", "--table", w.table)
	all := w.model.snapshot()
	s.agree(t, "compacted", all, "hudi_old.trino.docs_ro")
	s.agree(t, "compacted", slices.DeleteFunc(slices.Clone(all), func(r row) bool { return r["_deleted"] == true }), "hive_old.trino.docs_live", "hive_young.trino.docs_live")
	for where, want := range map[string]func(row) bool{
		"pt = 'a/b=c%d'": func(r row) bool { return r["pt"] == "a/b=c%d" },
		"pt IS NULL":     func(r row) bool { return r["pt"] == nil },
	} {
		a, err := s.ask(t.Context(), "SELECT _id FROM hudi_old.trino.docs_ro WHERE "+where)
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		for _, r := range all {
			if want(r) {
				n++
			}
		}
		if n == 0 || len(a.Data) != n || a.Stats.ProcessedRows != n {
			t.Errorf("where %s: %d rows of %d that were looked at, want %d of as many", where, len(a.Data), a.Stats.ProcessedRows, n)
		}
	}
}

// agree compares what Trino reads by names with rows. Its names of columns are in lower
// case, and what has no partition it shows as if it had one of Hive's text for null.
func (s *trino) agree(t *testing.T, when string, want []row, names ...string) {
	t.Helper()
	for _, name := range names {
		got := s.rows(t, "SELECT * FROM "+name)
		if len(got) == 0 {
			t.Fatalf("%s: %s has no rows", when, name)
		}
		columns := map[string]bool{}
		for c := range got[0] {
			columns[c] = true
		}
		nulls := 0
		for _, r := range got {
			if r["pt"] == `\N` {
				r["pt"] = nil
				nulls++
			}
		}
		if nulls == 0 {
			t.Errorf("%s: %s: rows without a partition are shown as they are: docs/metastores.md says otherwise", when, name)
		}
		lower := lowered(want, columns)
		if d := diff(inSchemaOf(got, lower), got, "_hoodie_commit_seqno", "_hoodie_file_name"); d != "" {
			t.Errorf("%s: %s: %s", when, name, d)
		}
	}
}
