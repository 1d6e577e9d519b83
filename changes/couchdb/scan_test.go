package couchdb

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
	"unicode/utf8"
)

func TestScanKeyOrders(t *testing.T) {
	members := []string{`"seq":"5-x"`, `"id":"a\u00e9\uD83D\uDE00"`, `"changes":[{"rev":"2-b"},{"rev":"1-a"}]`, `"deleted":true`, `"doc":{"_id":"a","}":"{\"]"}`, `"other":[{"x":[1]}]`}
	for i := range members {
		order := append(append([]string(nil), members[i:]...), members[:i]...)
		for _, between := range []string{",", " ,\n\t"} {
			text := "{" + strings.Join(order, between) + "}"
			var e envelope
			n, err := e.scan([]byte(text + ",rest"))
			if err != nil || n != len(text) {
				t.Fatalf("%s: %d, %v", text, n, err)
			}
			id, err := unescape(nil, e.id)
			if err != nil || string(id) != "aé😀" || string(e.seq) != "5-x" || !e.deleted || len(e.revs) != 2 ||
				string(e.revs[0]) != "2-b" || string(e.doc) != `{"_id":"a","}":"{\"]"}` {
				t.Errorf("%s: %q %+v", text, id, e)
			}
		}
	}
}

func TestScanTokens(t *testing.T) {
	for text, want := range map[string]string{
		`{"seq":12}`:                    "12",
		`{"seq":null}`:                  "",
		`{"seq":"a","seq":"b"}`:         "b",
		`{"seq":[5,"g1AA"]}`:            `[5,"g1AA"]`,
		`{"\u0073eq":"x"}`:              "x",
		`{"Seq":"x"}`:                   "",
		`{"doc":{"seq":"1"},"seq":"2"}`: "2",
	} {
		var e envelope
		if _, err := e.scan([]byte(text)); err != nil || string(e.seq) != want {
			t.Errorf("%s: %q, %v", text, e.seq, err)
		}
	}
}

// TestScanEveryPrefix: a row that breaks off is short or wrong, never whole,
// wherever that is, and no byte behind it is looked at.
func TestScanEveryPrefix(t *testing.T) {
	row := `{"seq":"1-a","id":"x\"\\\u00e9","changes":[{"rev":"1-a"}, {"no":1,"rev":"1-b"}],"deleted":false,"doc":{"a":["\\\"",{}],"b":-1.5e+3},"x":null}`
	for n := range len(row) {
		var e envelope
		if _, err := e.scan([]byte(row)[:n:n]); err == nil {
			t.Errorf("%q is taken for a row", row[:n])
		}
	}
	var e envelope
	if n, err := e.scan([]byte(row)); n != len(row) || err != nil {
		t.Errorf("%d of %d, %v", n, len(row), err)
	}
}

func TestUnescape(t *testing.T) {
	for in, want := range map[string]string{
		``: "", `a`: "a", `\"\\\/\b\f\n\r\t`: "\"\\/\b\f\n\r\t", `\u0000`: "\x00", `\uD83D\uDE00`: "😀", `\u00E9é`: "éé",
	} {
		if got, err := unescape(nil, []byte(in)); err != nil || string(got) != want {
			t.Errorf("%s: %q, %v", in, got, err)
		}
	}
	for _, in := range []string{`\`, `\x`, `\u`, `\u12`, `\u12g4`, `\uD83D`, `\uD83Dx`, `\uD83D\u0041`, `\uDE00`, `"`, "\x1f", "\xff", "\xed\xa0\x80"} {
		if got, err := unescape(nil, []byte(in)); err == nil {
			t.Errorf("%q: %q, no error", in, got)
		}
	}
}

// TestLines: whatever the reads are cut into, the lines are the same, and
// pieces handed out before stay as they were.
func TestLines(t *testing.T) {
	var text bytes.Buffer
	var want []string
	for i := range 300 {
		line := strings.Repeat(string(rune('a'+i%26)), i*i%5000)
		want = append(want, line)
		text.WriteString(line + "\n")
	}
	text.WriteString("no break")
	want = append(want, "no break")
	for name, src := range map[string]io.Reader{
		"whole":  bytes.NewReader(text.Bytes()),
		"halves": iotest.HalfReader(bytes.NewReader(text.Bytes())),
		"bytes":  iotest.OneByteReader(bytes.NewReader(text.Bytes())),
		"eof":    iotest.DataErrReader(bytes.NewReader(text.Bytes())),
	} {
		l := newLines(src, 1<<20)
		var got [][]byte
		for {
			line, err := l.next()
			if err != nil {
				if !errors.Is(err, io.EOF) {
					t.Errorf("%s: %v", name, err)
				}
				break
			}
			got = append(got, line)
		}
		if len(got) != len(want) {
			t.Fatalf("%s: %d lines, want %d", name, len(got), len(want))
		}
		for i := range got {
			if string(got[i]) != want[i] {
				t.Errorf("%s: line %d differs", name, i)
			}
		}
	}
}

func TestLinesBound(t *testing.T) {
	l := newLines(strings.NewReader(strings.Repeat("x", 1000)+"\n"), 999)
	if _, err := l.next(); !errors.Is(err, ErrRowTooLarge) {
		t.Errorf("got %v", err)
	}
	l = newLines(iotest.ErrReader(io.ErrClosedPipe), 10)
	if _, err := l.next(); !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("got %v", err)
	}
	l = newLines(stuck{}, 10)
	if _, err := l.next(); !errors.Is(err, io.ErrNoProgress) {
		t.Errorf("got %v", err)
	}
}

type stuck struct{}

func (stuck) Read([]byte) (int, error) { return 0, nil }

// TestPackedRows: a feed without line breaks, in reads of any size.
func TestPackedRows(t *testing.T) {
	var b strings.Builder
	b.WriteString(`{"results":[`)
	for i := range 50 {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(`{"id":"a","changes":[{"rev":"1-a"}],"doc":{"n":"` + strings.Repeat("x", i*20) + `"},"seq":7}`)
	}
	b.WriteString(`],"last_seq":50}` + "\n")
	for name, src := range map[string]io.Reader{
		"whole": strings.NewReader(b.String()),
		"bytes": iotest.OneByteReader(strings.NewReader(b.String())),
	} {
		r := &rows{lines: newLines(src, 1<<20)}
		n := 0
		var err error
		for {
			if _, _, err = r.next(); err != nil {
				break
			}
			n++
		}
		if !errors.Is(err, io.EOF) || n != 50 || string(r.last) != "50" {
			t.Errorf("%s: %d rows, last %q, %v", name, n, r.last, err)
		}
	}
}

func TestSeqs(t *testing.T) {
	for text, want := range map[string]string{
		`{"seq":"a\u002fb"}`: "a/b", `{"seq":"a\ud800"}`: "", `{"seq":7}`: "7", `{"seq":null}`: "", `{"seq":[1,"a"]}`: `[1,"a"]`,
	} {
		var e envelope
		p := parser{}
		raw := []byte(text)
		_, err := e.scan(raw)
		if c, _ := p.change(&e, raw, err); c.Seq != want {
			t.Errorf("%s: %q, want %q", text, c.Seq, want)
		}
	}
}

// FuzzScan: never a panic, never past the end, and what JSON says.
func FuzzScan(f *testing.F) {
	for _, seed := range []string{
		`{"seq":"1-a","id":"x","changes":[{"rev":"1-a"}],"doc":{"a":[1,"\"",{}]}}`,
		`{"id":"\uD83D\uDE00","changes":[{"x":1,"rev":"1-a"},{}],"seq":1,"deleted":true}`,
		`{"last_seq":"9-x","pending":0}`, `{"id":"a","id":null}`, `{"doc":null}`, ` { } `, `{"a":{"b":[[[]]]},"id":"\\"}`,
		`{"changes":[],"changes":{"rev":"1-a"}}`, "{\"i\\u0064\":\"x\"}", `{"id":"x"`, `[`, `{"a":"` + strings.Repeat(`\\`, 40) + `"}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var e envelope
		n, err := e.scan(b[:len(b):len(b)])
		if n > len(b) {
			t.Fatalf("%d bytes of %d", n, len(b))
		}
		p := parser{}
		_, _ = p.change(&e, b, err)
		var want map[string]json.RawMessage
		if !utf8.Valid(b) || json.Unmarshal(b, &want) != nil || want == nil {
			return
		}
		if err != nil || n != len(bytes.TrimRight(b, " \t\r\n")) {
			t.Fatalf("valid JSON: %d bytes, %v", n, err)
		}
		agree(t, "doc", e.doc, want["doc"], "null")
		var id string
		if raw, ok := want["id"]; ok && raw[0] == '"' && json.Unmarshal(raw, &id) == nil {
			got, err := unescape(nil, e.id)
			if err == nil && string(got) != id || err != nil && !strings.Contains(id, "\uFFFD") {
				t.Fatalf("id %q, want %q, %v", got, id, err)
			}
		} else if e.id != nil {
			t.Fatalf("id %q, want none", e.id)
		}
		var leaves []map[string]json.RawMessage
		if json.Unmarshal(want["changes"], &leaves) == nil && len(leaves) != len(e.revs) {
			t.Fatalf("%d revisions, want %d", len(e.revs), len(leaves))
		}
		for i, leaf := range leaves {
			if raw := leaf["rev"]; len(raw) > 0 && raw[0] == '"' && len(leaf) == 1 {
				agree(t, "rev", e.revs[i], raw[1:len(raw)-1], "")
			}
		}
	})
}

func agree(t *testing.T, what string, got, want []byte, none string) {
	t.Helper()
	if string(want) == none {
		want = nil
	}
	if !bytes.Equal(got, want) {
		t.Fatalf("%s %q, want %q", what, got, want)
	}
}

// FuzzRows: a response of any bytes ends, without a panic.
func FuzzRows(f *testing.F) {
	f.Add([]byte("{\"results\":[\n{\"id\":\"a\"},\r\n{}\n],\n\"last_seq\":\"1\",\"pending\":0}\n\n"), false)
	f.Add([]byte(`{"results":[{"id":"a"},{"id":"b"}],"last_seq":1}`), false)
	f.Add([]byte("\n{\"id\":\"a\"}\n\n{\"last_seq\":\"1\"}\n"), true)
	f.Add([]byte("{\"results\":["), false)
	f.Fuzz(func(t *testing.T, b []byte, live bool) {
		r := &rows{lines: newLines(iotest.HalfReader(bytes.NewReader(b)), 1<<10), live: live}
		p := parser{}
		for n := 0; ; n++ {
			raw, bad, err := r.next()
			if err != nil {
				break
			}
			_, _ = p.change(&r.envelope, raw, bad)
			if n > len(b) {
				t.Fatal("more rows than bytes")
			}
		}
	})
}
