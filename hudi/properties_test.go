package hudi_test

import (
	"encoding/json"
	"errors"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/couch2hudi/couch2hudi/hudi"
)

func TestParseProperties(t *testing.T) {
	for _, c := range []struct {
		text string
		want map[string]string
	}{
		{"", map[string]string{}},
		{"#Properties saved on 2026-11-30T01:03:54.482817945Z\n! old style\n\n  # indented\na=1\n", map[string]string{"a": "1"}},
		{"a=1\r\nb=2\rc=3", map[string]string{"a": "1", "b": "2", "c": "3"}},
		{"a : 1\nb 2\nc\t=\t3 \nd:=4\ne==5\nf\ng=\n", map[string]string{"a": "1", "b": "2", "c": "3 ", "d": "=4", "e": "=5", "f": "", "g": ""}},
		{`a\ b\:c\=d=1`, map[string]string{"a b:c=d": "1"}},
		{`k={"type":"record","a=b":1}`, map[string]string{"k": `{"type":"record","a=b":1}`}},
		{`k=\u0442\u0430\tx\\y\q\  `, map[string]string{"k": "та\tx\\yq  "}},
		{`k=\ud83d\uDE00 and \uD83D alone`, map[string]string{"k": "😀 and \uFFFD alone"}},
		{"k=caf\xe9", map[string]string{"k": "café"}},
		{"k=one \\\n   two\\\n\n#no\nl=a\\\\\nm=b", map[string]string{"k": "one two", "l": `a\`, "m": "b"}},
		{"k=cut\\", map[string]string{"k": "cut"}},
		{"k=1\nk=2", map[string]string{"k": "2"}},
		{"=no key", map[string]string{"": "no key"}},
	} {
		p, err := hudi.ParseProperties([]byte(c.text))
		if err != nil {
			t.Errorf("%q: %v", c.text, err)
			continue
		}
		got := map[string]string{}
		for _, k := range p.Keys() {
			got[k] = p.Get(k)
		}
		if !maps.Equal(got, c.want) {
			t.Errorf("%q:\n got %q\nwant %q", c.text, got, c.want)
		}
	}
	for _, text := range []string{`k=\u12`, `k=\u12g4`, `k\u=`, "a=1\nk=\\u+123"} {
		_, err := hudi.ParseProperties([]byte(text))
		if !errors.Is(err, hudi.ErrProperties) {
			t.Errorf("%q: %v", text, err)
		}
	}
	if _, err := hudi.ParseProperties([]byte("a=1\n\nk=\\uX")); err == nil || !strings.Contains(err.Error(), "line 3") {
		t.Errorf("the error does not say where: %v", err)
	}
}

// What Java's Properties.store writes, byte for byte.
func TestEncodeProperties(t *testing.T) {
	p := hudi.MakeProperties(map[string]string{
		"b":               " leading, inner and trailing ",
		"a key:with=all#": "\t\n\r\f\\:=#!",
		"z":               "é😀\x7f\x01",
		"empty":           "",
	})
	const want = `#Properties saved on 2026-01-02T03:04:05.000000006Z
#Fri Jan 02 03:04:05 UTC 2026
a\ key\:with\=all\#=\t\n\r\f\\\:\=\#\!
b=\ leading, inner and trailing ` + `
empty=
z=\u00E9\uD83D\uDE00\u007F\u0001
`
	got := p.Encode(time.Date(2026, 1, 2, 4, 4, 5, 6, time.FixedZone("", 3600)))
	if string(got) != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestChecksumVectors(t *testing.T) {
	data, err := os.ReadFile("../testdata/vectors/checksum.json")
	if err != nil {
		t.Fatal(err)
	}
	var v struct {
		Cases []struct {
			Database *string
			Table    string
			Checksum string
		}
	}
	if err := json.Unmarshal(data, &v); err != nil || len(v.Cases) == 0 {
		t.Fatal(err)
	}
	for _, c := range v.Cases {
		p := hudi.MakeProperties(map[string]string{hudi.PropName: c.Table})
		if c.Database != nil {
			p = p.With(hudi.PropDatabase, *c.Database)
		}
		if got := p.Checksum(); got != c.Checksum {
			t.Errorf("%v: %s, want %s", c, got, c.Checksum)
		}
		if err := p.CheckSum(); !errors.Is(err, hudi.ErrProperties) {
			t.Errorf("%v: no checksum, and %v", c, err)
		}
		if err := p.With(hudi.PropChecksum, c.Checksum).CheckSum(); err != nil {
			t.Error(err)
		}
		if err := p.With(hudi.PropChecksum, "1"+c.Checksum).CheckSum(); !errors.Is(err, hudi.ErrProperties) {
			t.Errorf("%v: a wrong checksum, and %v", c, err)
		}
	}
}

func TestPropertyValues(t *testing.T) {
	p := hudi.MakeProperties(map[string]string{"yes": " TRUE ", "no": "yes", "blank": " ", "list": " a, b ,,c,", hudi.PropVersion: " 6 "})
	for key, want := range map[string][2]bool{"yes": {true, true}, "no": {false, false}, "blank": {true, false}, "none": {true, false}} {
		if p.Flag(key, true) != want[0] || p.Flag(key, false) != want[1] {
			t.Errorf("flag %s", key)
		}
	}
	if got := p.List("list"); !slices.Equal(got, []string{"a", "b", "c"}) || len(p.List("none")) > 0 {
		t.Errorf("list %q", got)
	}
	for text, want := range map[string]hudi.Version{"6": 6, "9": 9} {
		if v, err := p.With(hudi.PropVersion, text).Version(); v != want || err != nil {
			t.Errorf("version %s: %v, %v", text, v, err)
		}
	}
	for _, text := range []string{"", "six", "-1", "6.0"} {
		if _, err := p.With(hudi.PropVersion, text).Version(); !errors.Is(err, hudi.ErrProperties) {
			t.Errorf("version %q: %v", text, err)
		}
	}
	if v, err := (hudi.Properties{}).Version(); v != 0 || err != nil {
		t.Errorf("no version: %v, %v", v, err)
	}
	old := hudi.MakeProperties(map[string]string{hudi.PropPrecombine: "ts"})
	if got := old.OrderingFields(); !slices.Equal(got, []string{"ts"}) {
		t.Errorf("ordering %q", got)
	}
	if got := old.With(hudi.PropOrdering, "a,b").OrderingFields(); !slices.Equal(got, []string{"a", "b"}) {
		t.Errorf("ordering %q", got)
	}
	if old.Get(hudi.PropOrdering) != "" || old.Len() != 1 {
		t.Error("With changed what it was called on")
	}
}

func FuzzProperties(f *testing.F) {
	f.Add([]byte("#c\na=1\nb\\ c:\\u0041\\\n d\n"))
	f.Add([]byte("k=\\ud83d\\ude00\r\n!x\nl\\\\=\\"))
	f.Fuzz(func(t *testing.T, data []byte) {
		p, err := hudi.ParseProperties(data)
		if err != nil {
			if !errors.Is(err, hudi.ErrProperties) {
				t.Fatal(err)
			}
			return
		}
		text := p.Encode(time.Unix(0, 0))
		again, err := hudi.ParseProperties(text)
		if err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
		if !slices.Equal(p.Keys(), again.Keys()) {
			t.Fatalf("%q, %q", p.Keys(), again.Keys())
		}
		for _, k := range p.Keys() {
			if p.Get(k) != again.Get(k) {
				t.Fatalf("%q: %q, then %q", k, p.Get(k), again.Get(k))
			}
		}
	})
}
