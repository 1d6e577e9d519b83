package hudi_test

import (
	"encoding/json"
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/couch2hudi/couch2hudi/hudi"
)

func TestPartitionVectors(t *testing.T) {
	data, err := os.ReadFile("../testdata/vectors/partition_escape.json")
	if err != nil {
		t.Fatal(err)
	}
	var v struct{ Cases []struct{ In, Out string } }
	if err := json.Unmarshal(data, &v); err != nil || len(v.Cases) == 0 {
		t.Fatal(err)
	}
	for _, c := range v.Cases {
		if got := hudi.PartitionPath("pt", c.In, false); got != "pt="+c.Out {
			t.Errorf("%q: %q, want %q", c.In, got, "pt="+c.Out)
		}
		bare := hudi.Partitioning{Field: "pt", Escape: true}
		if got := bare.Path(c.In, false); got != c.Out {
			t.Errorf("%q: %q, want %q", c.In, got, c.Out)
		}
		value, null, err := hudi.PartitionValue("pt=" + c.Out)
		if err != nil || value != c.In || null != (c.In == "") {
			t.Errorf("%q back: %q, %v, %v", c.Out, value, null, err)
		}
	}
}

func TestPartitioning(t *testing.T) {
	all := string([]byte{0x01, 0x1f, 0x7f}) + `"#%'*/:=?\{[]^`
	for _, c := range []struct {
		p     hudi.Partitioning
		value string
		null  bool
		path  string
	}{
		{hudi.Partitioning{}, "x", false, ""},
		{hudi.Partitioning{Field: "pt", Hive: true}, "20260101", false, "pt=20260101"},
		{hudi.Partitioning{Field: "pt", Hive: true}, "a=b%", false, "pt=a=b%"},
		{hudi.Partitioning{Field: "pt"}, "20260101", false, "20260101"},
		{hudi.Partitioning{Field: "pt"}, "a/b", false, "a/b"},
		{hudi.Partitioning{Field: "pt"}, "", true, hudi.DefaultPartition},
		{hudi.OurPartitioning("pt"), "ignored", true, "pt=" + hudi.DefaultPartition},
		{hudi.OurPartitioning("pt"), "", false, "pt=" + hudi.DefaultPartition},
		{hudi.OurPartitioning("pt"), all, false, "pt=%01%1F%7F%22%23%25%27%2A%2F%3A%3D%3F%5C%7B%5B%5D%5E"},
		{hudi.OurPartitioning("pt"), "..", false, "pt=.."},
		{hudi.OurPartitioning("pt"), "a\x00b", false, "pt=a%00b"},
		{hudi.OurPartitioning(""), "x", false, ""},
	} {
		path := c.p.Path(c.value, c.null)
		if path != c.path {
			t.Errorf("%+v %q: %q, want %q", c.p, c.value, path, c.path)
		}
		value, null, err := c.p.Value(path)
		wantNull := c.null || c.value == "" || c.p.Field == ""
		if err != nil || null != wantNull || (!null && value != c.value) {
			t.Errorf("%+v %q back: %q %v %v", c.p, path, value, null, err)
		}
	}
	for _, path := range []string{"", "pt", "pt=", "other=1"} {
		if _, _, err := hudi.OurPartitioning("pt").Value(path); !errors.Is(err, hudi.ErrName) {
			t.Errorf("%q: %v", path, err)
		}
	}
	if _, _, err := hudi.PartitionValue("20260101"); !errors.Is(err, hudi.ErrName) {
		t.Errorf("no field: %v", err)
	}
	if _, _, err := (hudi.Partitioning{}).Value("x"); !errors.Is(err, hudi.ErrName) {
		t.Errorf("a folder of a table without partitions: %v", err)
	}
	if v, _, err := hudi.PartitionValue("pt=50%"); v != "50%" || err != nil {
		t.Errorf("a lone %%: %q, %v", v, err)
	}
}

func TestPropertiesPartitioning(t *testing.T) {
	p := hudi.MakeProperties(map[string]string{hudi.PropPartitionFields: "dt", hudi.PropHiveStyle: "true"})
	if got, err := p.Partitioning(); err != nil || got != (hudi.Partitioning{Field: "dt", Hive: true}) {
		t.Errorf("%+v, %v", got, err)
	}
	if got, err := (hudi.Properties{}).Partitioning(); err != nil || got != (hudi.Partitioning{}) {
		t.Errorf("%+v, %v", got, err)
	}
	if _, err := p.With(hudi.PropPartitionFields, "a,b").Partitioning(); !errors.Is(err, hudi.ErrProperties) {
		t.Error(err)
	}
}

func FuzzPartition(f *testing.F) {
	f.Add("a/b=c%41")
	f.Add("\x00\x7f{}日本")
	f.Fuzz(func(t *testing.T, value string) {
		path := hudi.PartitionPath("pt", value, false)
		if strings.ContainsAny(path, "/\x00\n") || len(path) > 3*len(value)+len("pt="+hudi.DefaultPartition) {
			t.Fatalf("%q: %q", value, path)
		}
		back, null, err := hudi.PartitionValue(path)
		if err != nil || (null != (value == "" || value == hudi.DefaultPartition)) || (!null && back != value) {
			t.Fatalf("%q: %q, back %q %v %v", value, path, back, null, err)
		}
	})
}

// TestPartitioningHolds: a value with a folder of its own comes back from it.
func TestPartitioningHolds(t *testing.T) {
	hive, bare := hudi.Partitioning{Field: "pt", Hive: true}, hudi.Partitioning{Field: "pt"}
	hiveEscaped, bareEscaped := hudi.OurPartitioning("pt"), hudi.Partitioning{Field: "pt", Escape: true}
	for _, c := range []struct {
		value                                string
		hive, bare, hiveEscaped, bareEscaped bool
	}{
		{"20260101", true, true, true, true},
		{"é \U0001F600", true, true, true, true},
		{"a/b", false, false, true, true},
		{"50%", false, false, true, true},
		{"a=b", false, false, true, true},
		{"..", true, false, true, false},
		{".hoodie", true, false, true, false},
		{"_x", true, false, true, false},
		{"", false, false, false, false},
		{"a\x00b", false, false, false, false},
		{hudi.DefaultPartition, false, false, false, false},
		{strings.Repeat("x", 252), true, true, true, true},
		{strings.Repeat("x", 253), false, true, false, true},
		{strings.Repeat("/", 84), false, false, true, true},
		{strings.Repeat("/", 86), false, false, false, false},
	} {
		for _, k := range []struct {
			p    hudi.Partitioning
			want bool
		}{{hive, c.hive}, {bare, c.bare}, {hiveEscaped, c.hiveEscaped}, {bareEscaped, c.bareEscaped}} {
			if got := k.p.Holds(c.value); got != k.want {
				t.Errorf("%+v %.20q: %t, want %t", k.p, c.value, got, k.want)
			}
			if !k.want {
				continue
			}
			path := k.p.Path(c.value, false)
			if value, null, err := k.p.Value(path); err != nil || null || value != c.value || strings.Contains(path, "/") {
				t.Errorf("%+v %.20q comes back as %q, %t, %v", k.p, c.value, value, null, err)
			}
		}
	}
}
