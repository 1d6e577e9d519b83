package basefile_test

import (
	"archive/zip"
	"encoding/json"
	"io"
	"path"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/couch2hudi/couch2hudi/hudi"
	"github.com/couch2hudi/couch2hudi/hudi/basefile"
	"github.com/couch2hudi/couch2hudi/internal/avro"
)

const golden = "../../testdata/golden/*.zip"

// goldenTable is a table that Spark wrote: its files by path, and what Spark
// read from it.
type goldenTable struct {
	files    map[string][]byte
	expected struct {
		ReadOptimized []map[string]any `json:"read_optimized"`
	}
}

func loadGolden(t *testing.T, name string) goldenTable {
	t.Helper()
	z, err := zip.OpenReader(name)
	if err != nil {
		t.Fatal(err)
	}
	defer z.Close()
	g := goldenTable{files: map[string][]byte{}}
	for _, f := range z.File {
		r, err := f.Open()
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		if f.Name == "expected.json" {
			if err := json.Unmarshal(data, &g.expected); err != nil {
				t.Fatal(err)
			}
		} else if rest, ok := strings.CutPrefix(f.Name, "table/"); ok && !strings.HasPrefix(rest, ".hoodie/") {
			g.files[rest] = data
		}
	}
	return g
}

// rowJSON is a row as JSON decoded into a map.
func rowJSON(t *testing.T, s *hudi.Schema, r *hudi.Record) map[string]any {
	t.Helper()
	var datum []byte
	for i, v := range r.Row {
		c := &s.Columns()[i]
		if v.IsNull() {
			datum = append(datum, 0)
			continue
		}
		if !c.Required {
			datum = append(datum, 2)
		}
		switch v.Kind() {
		case hudi.KindString:
			datum = avro.AppendText(datum, v.Text())
		case hudi.KindLong, hudi.KindInt:
			datum = avro.AppendLong(datum, v.Long())
		case hudi.KindDouble:
			datum = avro.AppendDouble(datum, v.Double())
		case hudi.KindNested:
			datum = append(datum, v.Text()...)
		case hudi.KindBoolean:
			datum = append(datum, map[bool]byte{true: 1}[v.Boolean()])
		default:
			t.Fatalf("column %s of kind %s", c.Name, v.Kind())
		}
	}
	schema, err := avro.Parse(s.Avro())
	if err != nil {
		t.Fatal(err)
	}
	text, err := avro.ToJSON(schema, datum)
	if err != nil {
		t.Fatal(err)
	}
	var m map[string]any
	if err := json.Unmarshal(text, &m); err != nil {
		t.Fatal(err)
	}
	m[hudi.MetaCommitTime], m[hudi.MetaRecordKey], m[hudi.MetaPartitionPath] = string(r.CommitTime), r.Key.Record, r.Key.Partition
	return m
}

// goldenSchema is the schema of the golden tables' documents, for the files
// that hold none.
const goldenSchema = `{"type":"record","name":"docs_record","namespace":"hoodie.docs","fields":[
	{"name":"_id","type":["null","string"]},{"name":"_rev","type":["null","string"]},{"name":"_deleted","type":["null","boolean"]},
	{"name":"_hoodie_is_deleted","type":["null","boolean"]},{"name":"_seq_order","type":["null","long"]},{"name":"dt","type":["null","string"]},
	{"name":"name","type":["null","string"]},{"name":"qty","type":["null","long"]},{"name":"price","type":["null","double"]},{"name":"active","type":["null","boolean"]},
	{"name":"tags","type":["null",{"type":"array","items":["null","string"]}]},
	{"name":"address","type":["null",{"type":"record","name":"address","fields":[{"name":"city","type":["null","string"]},{"name":"zip","type":["null","long"]}]}]}]}`

// TestGolden: every row that Spark found in base files is in one of them as we
// read them, nested columns included, and the footers say what is in the files.
func TestGolden(t *testing.T) {
	names, err := filepath.Glob(golden)
	if err != nil || len(names) < 10 {
		t.Fatalf("%d golden tables: %v", len(names), err)
	}
	target, err := hudi.ParseSchema(goldenSchema)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		t.Run(path.Base(name), func(t *testing.T) {
			g := loadGolden(t, name)
			have := map[[2]string]map[string]any{}
			for file, data := range g.files {
				if strings.HasSuffix(file, ".parquet") {
					readGolden(t, file, data, target, have)
				}
			}
			if len(g.expected.ReadOptimized) == 0 {
				t.Fatal("nothing expected")
			}
			for _, want := range g.expected.ReadOptimized {
				got := have[[2]string{want[hudi.MetaRecordKey].(string), want[hudi.MetaCommitTime].(string)}]
				if !reflect.DeepEqual(got, want) {
					t.Fatalf("got %v, want %v", got, want)
				}
			}
		})
	}
}

func readGolden(t *testing.T, file string, data []byte, target *hudi.Schema, have map[[2]string]map[string]any) {
	t.Helper()
	f := open(t, data)
	filter, err := f.Bloom()
	if err != nil || filter == nil {
		t.Fatalf("%s: bloom filter %v, %v", file, filter, err)
	}
	if schema := f.Footer().Schema; schema != "" {
		if _, err := hudi.ParseSchema(schema); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
	}
	n := int64(0)
	for r, err := range f.Records(target, "_seq_order") {
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		kept := r.Clone() // r's memory is the file's next row soon
		r, k := &kept, kept.Key.Record
		if k < f.Footer().MinKey || k > f.Footer().MaxKey || !filter.Contains(k) || r.Key.Partition != strings.TrimPrefix(path.Dir(file), ".") {
			t.Fatalf("%s: key %q is not what the footer says: %+v", file, k, f.Footer())
		}
		if r.Order != r.Row[4].Long() || r.Delete {
			t.Fatalf("%s: %+v", file, r)
		}
		have[[2]string{k, string(r.CommitTime)}] = rowJSON(t, target, r)
		for same, err := range f.FindSparse(basefile.NewKeySet([]string{k, k + "x"}), target, "_seq_order") {
			if err != nil || !reflect.DeepEqual(rowJSON(t, target, same), rowJSON(t, target, r)) {
				t.Fatalf("%s: key %q sought: %+v, %v, want %+v", file, k, same, err, r)
			}
			n++
		}
	}
	if n != f.Footer().Rows {
		t.Fatalf("%s: %d rows, the footer says %d", file, n, f.Footer().Rows)
	}
}
