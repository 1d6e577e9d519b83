//go:build oracle

package e2e

import (
	"cmp"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"testing"

	"github.com/couch2hudi/couch2hudi/hudi"
	"github.com/couch2hudi/couch2hudi/hudi/basefile"
)

// readParquet prints the types and the rows that Arrow finds in a Parquet file.
const readParquet = `
import json, sys, pyarrow.parquet as pq
t = pq.read_table(sys.argv[1])
json.dump({"types": [f"{f.name} {f.type}" for f in t.schema], "rows": t.to_pylist()}, sys.stdout, default=str)
`

// TestExportedParquet: a Parquet file of query --format parquet has the types that
// the table's columns mean, for a reader that knows nothing of Hudi.
func TestExportedParquet(t *testing.T) {
	s, err := hudi.NewSchema("docs", hudi.Column{Name: "_hoodie_commit_time", Kind: hudi.KindString}, hudi.Column{Name: "b", Kind: hudi.KindBoolean},
		hudi.Column{Name: "i", Kind: hudi.KindInt}, hudi.Column{Name: "l", Kind: hudi.KindLong}, hudi.Column{Name: "f", Kind: hudi.KindFloat},
		hudi.Column{Name: "d", Kind: hudi.KindDouble}, hudi.Column{Name: "s", Kind: hudi.KindString},
		hudi.Column{Name: "day", Kind: hudi.KindInt, Type: `{"type":"int","logicalType":"date"}`},
		hudi.Column{Name: "at", Kind: hudi.KindLong, Type: `{"type":"long","logicalType":"timestamp-micros"}`},
		hudi.Column{Name: "price", Kind: hudi.KindBytes, Type: `{"type":"bytes","logicalType":"decimal","precision":9,"scale":2}`},
		hudi.Column{Name: "list", Kind: hudi.KindNested, Type: `{"type":"array","items":"long"}`})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "rows.parquet")
	out, err := os.Create(file)
	if err != nil {
		t.Fatal(err)
	}
	w, err := basefile.NewWriter(out, s, basefile.WriterOptions{Bare: true})
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range []hudi.Row{
		{hudi.String("20260101000000000"), hudi.Boolean(true), hudi.Int(-1), hudi.Long(1 << 53), hudi.Float(0.5), hudi.Double(0.1), hudi.String(""),
			hudi.Int(1), hudi.Long(1_000_000), hudi.Bytes([]byte{1, 0}), hudi.Nested([]byte{4, 2, 4, 0})},
		make(hudi.Row, s.Len()),
	} {
		if err := w.Append(&hudi.Record{Row: row}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err := out.Close(); err != nil {
		t.Fatal(err)
	}
	python := filepath.Join(cmp.Or(os.Getenv("ORACLE_DIR"), "../.cache/oracle"), "venv-hudirs", "bin", "python")
	printed, err := exec.CommandContext(t.Context(), python, "-c", readParquet, file).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, printed)
	}
	var got struct {
		Types []string         `json:"types"`
		Rows  []map[string]any `json:"rows"`
	}
	if err := json.Unmarshal(printed, &got); err != nil {
		t.Fatalf("%v: %s", err, printed)
	}
	wantTypes := []string{"_hoodie_commit_time string", "b bool", "i int32", "l int64", "f float", "d double", "s string", "day date32[day]",
		"at timestamp[us, tz=UTC]", "price decimal128(9, 2)", "list list<element: int64 not null>"}
	wantRow := map[string]any{"_hoodie_commit_time": "20260101000000000", "b": true, "i": -1.0, "l": float64(1 << 53), "f": 0.5, "d": 0.1, "s": "",
		"day": "1970-01-02", "at": "1970-01-01 00:00:01+00:00", "price": "2.56", "list": []any{1.0, 2.0}}
	if !reflect.DeepEqual(got.Types, wantTypes) {
		t.Errorf("types %q\nwant %q", got.Types, wantTypes)
	}
	if len(got.Rows) != 2 || !reflect.DeepEqual(got.Rows[0], wantRow) {
		t.Errorf("rows %v\nwant %v", got.Rows, wantRow)
	}
	for name, value := range got.Rows[len(got.Rows)-1] {
		if value != nil {
			t.Errorf("%s is %v, not null", name, value)
		}
	}
}
