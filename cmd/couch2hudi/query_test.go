package main

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/couch2hudi/couch2hudi/hudi"
	"github.com/couch2hudi/couch2hudi/hudi/basefile"
	"github.com/couch2hudi/couch2hudi/internal/couchfake"
)

// shopTable is a partitioned table of two commits: twelve documents, then one
// with new fields and one deleted.
func shopTable(t *testing.T) (dir string, first, second instantLine) {
	t.Helper()
	_, db, url := shop(t, couchfake.Options{}, 12)
	dir = filepath.Join(t.TempDir(), "table")
	run := []string{"run", "--once", "--source", url, "--table", dir, "--partition-field", "at", "--partition-format", "yyyyMMdd", "--compaction", "off"}
	want(t, 0, nil, run...)
	if _, err := db.Put("d004", []byte(`{"n":400,"at":"2024-01-02T00:00:00Z","text":"a \"b\", c\r\nd","none":"","x":2.5,"list":[1,2]}`)); err != nil {
		t.Fatal(err)
	}
	if _, err := db.Delete("d003"); err != nil {
		t.Fatal(err)
	}
	want(t, 0, nil, run...)
	for i, line := range jsonLines(want(t, 0, nil, "timeline", "--table", dir, "--format", "jsonl")) {
		if err := json.Unmarshal(line, []*instantLine{&first, &second}[i]); err != nil {
			t.Fatal(err)
		}
	}
	return dir, first, second
}

// ids are the _id cells of jsonl, sorted.
func ids(t *testing.T, out string) string {
	t.Helper()
	var list []string
	for _, line := range jsonLines(out) {
		var row struct {
			ID string `json:"_id"`
		}
		if err := json.Unmarshal(line, &row); err != nil {
			t.Fatal(err)
		}
		list = append(list, row.ID)
	}
	slices.Sort(list)
	return strings.Join(list, " ")
}

func TestQueryWhere(t *testing.T) {
	dir, first, second := shopTable(t)
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"--where", "_id = 'd004'"}, "d004"},
		{[]string{"--where", "_id in ('d001', 'd003', 'd099')"}, "d001"},
		{[]string{"--where", "_id in ('d001', 'd003', 'd099')", "--include-deleted"}, "d001 d003"},
		{[]string{"--where", "n >= 10"}, "d004 d010 d011"},
		{[]string{"--where", "n >= 10 and x is null"}, "d010 d011"},
		{[]string{"--where", "text is not null", "--columns", "_id"}, "d004"},
		{[]string{"--partition", "20240101"}, "d000 d006 d009"},
		{[]string{"--partition", "pt=20240101", "--partition", "20240103", "--where", "n < 3"}, "d000 d002"},
		{[]string{"--where", "_hoodie_partition_path = 'pt=20240101' and pt = '20240101'"}, "d000 d006 d009"},
		{[]string{"--as-of", first.Instant, "--where", "n = 4"}, "d004"},
		{[]string{"--read-optimized", "--where", "n = 4"}, "d004"},
		{[]string{"--since", first.Instant, "--where", "_deleted = false"}, "d004"},
		{[]string{"--since", first.Instant}, "d003 d004"},
		{[]string{"--since", first.Instant, "--partition", "20240102"}, "d004"},
		{[]string{"--since", second.Instant}, ""},
		{[]string{"--since", second.Instant, "--since-inclusive"}, "d003 d004"},
		{[]string{"--since", first.Instant, "--since-inclusive", "--until", first.Instant, "--where", "n in (3, 4)"}, "d003 d004"},
	} {
		out := want(t, 0, nil, append([]string{"query", "--table", dir}, c.args...)...)
		if got := ids(t, out); got != c.want {
			t.Errorf("%q: %q, want %q", c.args, got, c.want)
		}
		n := len(strings.Fields(c.want))
		if out := want(t, 0, nil, append([]string{"query", "--table", dir, "--count"}, c.args...)...); out != fmt.Sprintln(n) {
			t.Errorf("count of %q: %s", c.args, out)
		}
	}
	if out := want(t, 0, nil, "query", "--table", dir, "--limit", "2"); strings.Count(out, "\n") != 2 {
		t.Errorf("two rows: %s", out)
	}
	for words, args := range map[string][]string{
		`position 9, column "nn"`:   {"--where", "n=1 and nn = 2"},
		`position 7`:                {"--where", "n = 1 or n = 2"},
		"no partition":              {"--partition", "20991231"},
		"no column":                 {"--columns", "_id,nn"},
		"share":                     {"--since", "2024", "--max-increment", "3"},
		"need --since":              {"--since-inclusive"},
		"takes snapshot":            {"--since", "2024", "--fallback", "full"},
		"table or jsonl or csv":     {"--format", "xml"},
		"negative":                  {"--limit", "-1"},
		"--read-optimized":          {"--read-optimized", "--since", "2024"},
		"pt=20240101, pt=20240102,": {"--partition", "x"},
	} {
		want(t, exitUsage, []string{words}, append([]string{"query", "--table", dir}, args...)...)
	}
}

// TestQueryCSV: what a CSV reader gets is what the table holds, nulls and empty
// strings told apart.
func TestQueryCSV(t *testing.T) {
	dir, _, second := shopTable(t)
	out := want(t, 0, nil, "query", "--table", dir, "--format", "csv", "--where", "n in (4, 5, 400)", "--columns", "text,_id,none,x,_hoodie_commit_time,n,list")
	records, err := csv.NewReader(strings.NewReader(out)).ReadAll()
	if err != nil || len(records) != 3 {
		t.Fatalf("%v: %q", err, out)
	}
	slices.SortFunc(records[1:], func(a, b []string) int { return strings.Compare(a[1], b[1]) })
	if !slices.Equal(records[0], []string{"text", "_id", "none", "x", "_hoodie_commit_time", "n", "list"}) ||
		!slices.Equal(records[1][:5], []string{"a \"b\", c\nd", "d004", "", "2.5", second.Instant}) || records[1][5] != "400" || records[2][0] != "" {
		t.Fatalf("%q", records)
	}
	if !strings.Contains(out, `d004,"",2.5`) || !strings.Contains(out, "\r\n,d005,,,") {
		t.Fatalf("null and empty string: %q", out)
	}
	file := filepath.Join(t.TempDir(), "all.csv")
	if out := want(t, 0, nil, "query", "--table", dir, "--out", file); out != "" {
		t.Fatalf("%q on stdout", out)
	}
	data, err := os.ReadFile(file)
	if err != nil || !bytes.HasPrefix(data, []byte("_hoodie_commit_time,_hoodie_commit_seqno,_hoodie_record_key,_hoodie_partition_path,_id,")) || bytes.Count(data, []byte("\r\n")) != 1+11+1 {
		t.Fatalf("%v: %s", err, data)
	}
}

// TestQueryParquet: the file has the columns asked for, in their types, and no
// file is there when the reading fails.
func TestQueryParquet(t *testing.T) {
	dir, _, _ := shopTable(t)
	folder := t.TempDir()
	file := filepath.Join(folder, "rows.parquet")
	want(t, 0, nil, "query", "--table", dir, "--out", file, "--columns", "n,x,_hoodie_record_key,_id,_deleted")
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	f, err := basefile.Open(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		t.Fatal(err)
	}
	s, err := hudi.ParseSchema(f.Footer().Schema)
	if err != nil || s.Len() != 4 || s.Columns()[0].Kind != hudi.KindLong || s.Columns()[1].Kind != hudi.KindDouble || s.Columns()[3].Kind != hudi.KindBoolean {
		t.Fatalf("%v: %s", err, f.Footer().Schema)
	}
	rows := 0
	for r, err := range f.Records(s, "") {
		if err != nil || r.Key.Record != r.Row[2].Text() || (r.Key.Record == "d004") != (r.Row[1].Double() == 2.5) {
			t.Fatalf("%v %v", r, err)
		}
		rows++
	}
	if rows != 11 || f.Footer().HasBloom {
		t.Fatalf("%d rows", rows)
	}
	if out := want(t, 0, nil, "query", "--table", dir, "--format", "parquet", "--where", "n < 0"); !strings.HasPrefix(out, "PAR1") {
		t.Fatalf("%q", out)
	}
	spoil(t, dir)
	broken := filepath.Join(folder, "broken.jsonl")
	want(t, exitFailed, nil, "query", "--table", dir, "--out", broken)
	if list, err := os.ReadDir(folder); err != nil || len(list) != 1 {
		t.Fatalf("what stays: %v %v", list, err)
	}
}

// spoil cuts the log files of a table.
func spoil(t *testing.T, dir string) {
	t.Helper()
	logs, err := filepath.Glob(filepath.Join(dir, "*", ".*.log.*"))
	if err != nil || len(logs) == 0 {
		t.Fatal(err, logs)
	}
	for _, name := range logs {
		if err := os.Truncate(name, 40); err != nil {
			t.Fatal(err)
		}
	}
}

// TestQueryFallback: a range that is too large or cleaned becomes the snapshot,
// and stderr says so.
func TestQueryFallback(t *testing.T) {
	dir, first, second := shopTable(t)
	since := []string{"query", "--table", dir, "--since", first.Instant}
	all := "d000 d001 d002 d003 d004 d005 d006 d007 d008 d009 d010 d011"
	for share, rows := range map[string]string{"0.99": "d003 d004", "0.0001": all} {
		_, out, errs := call(t, append(slices.Clone(since), "--max-increment", share)...)
		if got := ids(t, out); got != rows || !strings.Contains(errs, "--max-increment "+share) || strings.Contains(errs, "hard-deleted") != (rows == all) {
			t.Errorf("%s: %q\n%s", share, got, errs)
		}
	}
	if _, out, errs := call(t, append(slices.Clone(since), "--fallback", "snapshot")...); ids(t, out) != "d003 d004" || errs != "" {
		t.Errorf("nothing is gone: %s%s", out, errs)
	}
	bases, err := filepath.Glob(filepath.Join(dir, "pt=20240103", "*.parquet"))
	if err != nil || len(bases) != 1 {
		t.Fatal(err, bases)
	}
	if err := os.Remove(bases[0]); err != nil {
		t.Fatal(err)
	}
	old := []string{"query", "--table", dir, "--since", "earliest", "--until", second.Instant}
	want(t, exitGone, []string{"cleaned", "begin at"}, old...)
	// Where --until is in the past, the snapshot of it is gone as well.
	want(t, exitGone, []string{"snapshot as of"}, append(slices.Clone(old), "--fallback", "snapshot")...)
	_, out, errs := call(t, "query", "--table", dir, "--since", "earliest", "--fallback", "snapshot")
	if ids(t, out) != "d000 d001 d003 d004 d006 d007 d009 d010" || !strings.Contains(errs, "reading the snapshot as of "+second.Instant) || !strings.Contains(errs, "is gone") {
		t.Errorf("%q\n%s", ids(t, out), errs)
	}
	// What is asked of other partitions alone is all there.
	if got := ids(t, want(t, 0, nil, append(slices.Clone(old), "--partition", "20240101")...)); got != "d000 d003 d006 d009" {
		t.Errorf("%q", got)
	}
}

// TestCSVNumbers: numbers read back the same.
func TestCSVNumbers(t *testing.T) {
	s, err := hudi.MakeSchema("r", "", hudi.Column{Name: "d", Kind: hudi.KindDouble}, hudi.Column{Name: "f", Kind: hudi.KindFloat},
		hudi.Column{Name: "b", Kind: hudi.KindBytes}, hudi.Column{Name: "a", Kind: hudi.KindNested, Type: `{"type":"array","items":"long"}`},
		hudi.Column{Name: "t", Kind: hudi.KindLong, Type: `{"type":"long","logicalType":"timestamp-micros"}`})
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	w, err := newRowWriter(formatCSV, &out, s)
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range []hudi.Row{
		{hudi.Double(0.1), hudi.Float(0.1), hudi.Bytes([]byte{0, 255}), hudi.Nested([]byte{4, 2, 4, 0}), hudi.Long(0)},
		{hudi.Double(math.Inf(-1)), hudi.Float(float32(math.NaN())), {}, {}, {}},
		{hudi.Double(1e300), hudi.Float(-3), hudi.Bytes(nil), {}, {}},
	} {
		if err := w.write(row); err != nil {
			t.Fatal(err)
		}
	}
	if got := out.String(); got != "d,f,b,a,t\r\n0.1,0.1,AP8=,\"[1,2]\",1970-01-01T00:00:00Z\r\n-Infinity,NaN,,,\r\n1e+300,-3,\"\",,\r\n" {
		t.Fatalf("%q", got)
	}
}

// TestQueryBorders walks a table commit by commit on the command line: every way
// to write a border gives each commit once.
func TestQueryBorders(t *testing.T) {
	f := newFollowed(t, 4)
	commits := commitsOf(t, f.dir)
	since := func(more ...string) string {
		t.Helper()
		return want(t, 0, nil, append([]string{"query", "--table", f.dir}, more...)...)
	}
	var all strings.Builder
	begin := earliest
	for i, at := range commits {
		rows := since("--since", begin, "--until", at)
		if n := strings.Count(rows, "\n"); n != map[bool]int{true: 5, false: 2}[i == 0] || strings.Count(rows, `"_hoodie_commit_time":"`+at+`"`) != n {
			t.Errorf("%s: %s", at, rows)
		}
		if inclusive := since("--since", at, "--since-inclusive", "--until", at); inclusive != rows {
			t.Errorf("%s, inclusive: %s", at, inclusive)
		}
		all.WriteString(rows)
		begin = at
	}
	if n := strings.Count(all.String(), "\n"); n != 5+3*2 {
		t.Errorf("%d rows", n)
	}
	newest := ids(t, since())
	if got := ids(t, since("--since", commits[0][:8], "--until", commits[3][:8])); got != newest {
		t.Errorf("the whole day: %q, want %q", got, newest)
	}
	if got := ids(t, since("--since", "-1000h")); got != newest {
		t.Errorf("a duration: %q", got)
	}
	if got := since("--since", "2001", "--until", "2002"); got != "" {
		t.Errorf("before the first commit: %s", got)
	}
	if got := since("--since", commits[3]); got != "" {
		t.Errorf("behind the last commit: %s", got)
	}
}
