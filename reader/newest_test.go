package reader

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"math/rand/v2"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"testing"

	"github.com/couch2hudi/couch2hudi/hudi"
)

func randomValue(r *rand.Rand) hudi.Value {
	text := strings.Repeat("é\x00", r.IntN(40))
	switch hudi.Kind(r.IntN(int(hudi.KindNested) + 1)) {
	case hudi.KindBoolean:
		return hudi.Boolean(r.IntN(2) == 0)
	case hudi.KindInt:
		return hudi.Int(int32(r.Uint32()))
	case hudi.KindLong:
		return hudi.Long(int64(r.Uint64()))
	case hudi.KindFloat:
		return hudi.Float(math.Float32frombits(r.Uint32()))
	case hudi.KindDouble:
		return hudi.Double(math.Float64frombits(r.Uint64()))
	case hudi.KindString:
		return hudi.String(text)
	case hudi.KindBytes:
		return hudi.Bytes([]byte(text))
	case hudi.KindNested:
		return hudi.Nested([]byte(text))
	default:
		return hudi.Value{}
	}
}

func randomRow(r *rand.Rand) hudi.Row {
	row := make(hudi.Row, r.IntN(12))
	for i := range row {
		row[i] = randomValue(r)
	}
	return row
}

func sameRow(a, b hudi.Row) bool {
	return bytes.Equal(appendRow(nil, &hudi.Record{Row: a}), appendRow(nil, &hudi.Record{Row: b}))
}

func TestRowRoundTrip(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	var back hudi.Record
	for range 500 {
		in := hudi.Record{CommitTime: "20260101000000000", CommitSeqno: "20260101000000000_1_2", Row: randomRow(r)}
		if err := readRow(appendRow(nil, &in), &back); err != nil {
			t.Fatal(err)
		}
		if len(back.Row) != len(in.Row) || back.CommitTime != in.CommitTime || back.CommitSeqno != in.CommitSeqno {
			t.Fatalf("%+v\n%+v", in, back)
		}
		for i, v := range in.Row {
			// Kinds, bits and text; NaN payloads too.
			if !reflect.DeepEqual(v, back.Row[i]) && v.Kind() != hudi.KindFloat && v.Kind() != hudi.KindDouble {
				t.Fatalf("cell %d: %v %v", i, v, back.Row[i])
			}
		}
		if !sameRow(in.Row, back.Row) {
			t.Fatalf("%v %v", in.Row, back.Row)
		}
	}
}

func FuzzReadRow(f *testing.F) {
	r := rand.New(rand.NewPCG(3, 4))
	for range 8 {
		f.Add(appendRow(nil, &hudi.Record{CommitTime: "1", Row: randomRow(r)}))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var rec hudi.Record
		if err := readRow(b, &rec); err != nil {
			return
		}
		var again hudi.Record
		if err := readRow(appendRow(nil, &rec), &again); err != nil || !sameRow(rec.Row, again.Row) {
			t.Fatalf("%v: %+v\n%+v", err, rec, again)
		}
	})
}

// TestNewestAgainstModel merges random versions with every budget: the newest
// by hudi.Merge must come out whether rows are in memory or on disk.
func TestNewestAgainstModel(t *testing.T) {
	for _, memory := range []int64{1, 9000, 1 << 20, 0} {
		t.Run(strconv.FormatInt(memory, 10), func(t *testing.T) { testNewest(t, memory) })
	}
}

func testNewest(t *testing.T, memory int64) {
	r := rand.New(rand.NewPCG(5, uint64(memory)))
	dir := t.TempDir()
	n := newNewest(Options{Memory: memory, TempDir: dir})
	model := map[string]hudi.Record{}
	for i := range 1500 {
		in := hudi.Record{Key: hudi.Key{Record: fmt.Sprintf("k%d", r.IntN(200))}, Order: int64(r.IntN(50)),
			CommitTime: hudi.Time(strconv.Itoa(i)), Row: randomRow(r)}
		if r.IntN(5) == 0 {
			in.Row, in.Delete = nil, true
			if r.IntN(3) == 0 {
				in.Order, in.Natural = 0, true
			}
		}
		if old, ok := model[in.Key.Record]; ok {
			model[in.Key.Record] = hudi.Merge(old, in)
		} else {
			model[in.Key.Record] = in
		}
		if err := n.add(&in); err != nil {
			t.Fatal(err)
		}
	}
	if memory == 1 && n.rows.held > largePage {
		t.Fatalf("%d bytes held", n.rows.held)
	}
	var out hudi.Record
	for key, want := range model {
		e := n.find(key)
		if e == nil {
			t.Fatalf("%s is lost", key)
		}
		if err := n.fill(e, "p", &out); err != nil {
			t.Fatal(err)
		}
		if out.Delete != want.Delete || (out.Order != want.Order && !want.Natural) || out.Natural != want.Natural || out.Key.Record != key ||
			out.Key.Partition != "p" || (!want.Delete && (out.CommitTime != want.CommitTime || !sameRow(out.Row, want.Row))) {
			t.Fatalf("%s: got %+v\nwant %+v", key, out, want)
		}
	}
	if len(model) != len(n.entries) || n.find("other") != nil {
		t.Fatalf("%d keys, want %d", len(n.entries), len(model))
	}
	if err := n.close(); err != nil {
		t.Fatal(err)
	}
	if left, _ := filepath.Glob(dir + "/*"); len(left) > 0 {
		t.Fatalf("left on disk: %v", left)
	}
}

func TestPagesSpill(t *testing.T) {
	p := pages{file: Options{TempDir: t.TempDir()}.spill(), budget: 3 * smallPage}
	var at []place
	for i := range 2000 {
		a, err := p.add(fmt.Appendf(nil, "row %d %s", i, strings.Repeat("x", i%300)))
		if err != nil {
			t.Fatal(err)
		}
		at = append(at, a)
	}
	large := bytes.Repeat([]byte("L"), largePage+17)
	a, err := p.add(large)
	if err != nil {
		t.Fatal(err)
	}
	if p.file.size == 0 || p.held > p.budget {
		t.Fatalf("%d bytes on disk, %d in memory", p.file.size, p.held)
	}
	for i, a := range at {
		b, err := p.get(a)
		if err != nil || string(b) != fmt.Sprintf("row %d %s", i, strings.Repeat("x", i%300)) {
			t.Fatalf("row %d: %q %v", i, b, err)
		}
	}
	if b, err := p.get(a); err != nil || !bytes.Equal(b, large) {
		t.Fatalf("large row: %d bytes, %v", len(b), err)
	}
	if err := p.close(); err != nil {
		t.Fatal(err)
	}
	if err := p.close(); err != nil {
		t.Fatalf("second close: %v", err)
	}
}

func TestPagesReportFaults(t *testing.T) {
	p := pages{file: Options{TempDir: filepath.Join(t.TempDir(), "missing")}.spill()}
	if _, err := p.add([]byte("x")); !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("no folder for temporary files: %v", err)
	}
	p = pages{file: Options{TempDir: t.TempDir()}.spill()}
	at, err := p.add([]byte("hello"))
	if err != nil {
		t.Fatal(err)
	}
	if f, ok := p.file.file.(tempFile); !ok || f.Truncate(2) != nil {
		t.Fatal("it cannot be cut short")
	}
	if _, err := p.get(at); err == nil {
		t.Fatal("a file cut short was not noticed")
	}
	if err := p.close(); err != nil {
		t.Fatal(err)
	}
}
