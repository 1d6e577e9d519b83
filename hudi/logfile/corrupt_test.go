package logfile_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"reflect"
	"strings"
	"testing"

	"github.com/couch2hudi/couch2hudi/hudi"
	"github.com/couch2hudi/couch2hudi/hudi/logfile"
	"github.com/couch2hudi/couch2hudi/internal/avro"
)

func smallSchema(t testing.TB) *hudi.Schema {
	t.Helper()
	s, err := hudi.NewSchema("docs", hudi.Column{Name: "_id", Kind: hudi.KindString}, hudi.Column{Name: "_rev_order", Kind: hudi.KindLong})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func smallFile(t testing.TB) []byte {
	t.Helper()
	return write(t, smallSchema(t), options(),
		hudi.Record{Key: hudi.Key{Record: "a", Partition: "p"}, Row: hudi.Row{hudi.String("a"), hudi.Long(300)}},
		hudi.Record{Key: hudi.Key{Record: "b", Partition: "p"}, Row: hudi.Row{hudi.String("b"), {}}},
		hudi.Record{Key: hudi.Key{Record: "c", Partition: "p"}, Delete: true, Order: 7})
}

// blocks are the places of a file's blocks.
func blocks(t testing.TB, data []byte) (bs []*logfile.Block) {
	t.Helper()
	s := logfile.NewScanner(bytes.NewReader(data), int64(len(data)))
	for {
		b, err := s.Next()
		if errors.Is(err, io.EOF) {
			return bs
		}
		if err != nil {
			t.Fatal(err)
		}
		bs = append(bs, b)
	}
}

// TestEveryFlippedByte: what a damaged byte does. The format has no checksum.
// A change of the frame (magic, size, trailer, lengths, counts, versions,
// type) is always noticed; so is nearly any change of an Avro length or
// branch, since each row must end where its length says. A change within the
// text of a string, the digits of a number, a header's text or a header's key
// yields another value: no reader can know.
func TestEveryFlippedByte(t *testing.T) {
	data, s := smallFile(t), smallSchema(t)
	want, _, err := readAll(data, s, "_rev_order")
	if err != nil {
		t.Fatal(err)
	}
	free := freeBytes(t, data)
	silent := 0
	for i := range data {
		for _, flip := range []byte{0x01, 0x80, 0xff} {
			broken := bytes.Clone(data)
			broken[i] ^= flip
			got, _, err := readAll(broken, s, "_rev_order")
			if err == nil && !reflect.DeepEqual(got, want) {
				if silent++; !free[i] {
					t.Errorf("byte %d of %d, flipped by %#x: read as %+v", i, len(data), flip, got)
				}
			}
		}
	}
	if silent == 0 {
		t.Error("no change of a value went unnoticed: the test does not do what it says")
	}
}

// freeBytes are those that hold nothing but values: text and numbers.
func freeBytes(t *testing.T, data []byte) map[int]bool {
	free := map[int]bool{}
	mark := func(text string, from, to int64) {
		for i := from; ; {
			n := bytes.Index(data[i:to], []byte(text))
			if n < 0 {
				return
			}
			for j := range len(text) {
				free[int(i)+n+j] = true
			}
			i += int64(n) + 1
		}
	}
	bs := blocks(t, data)
	if len(bs) != 2 {
		t.Fatalf("%d blocks", len(bs))
	}
	for _, b := range bs {
		from, to := b.ContentOffset, b.ContentOffset+b.ContentLength
		for _, text := range []string{instant, fileID, "_7_0", "_7_1", "a", "b", "c", "p"} {
			mark(text, from, to)
		}
		// 300 and 7 as zigzag; a flipped first byte may make 300 another number.
		mark("\xd8\x04", from, to)
		mark("\x06\x0e", from, to)
		mark(b.Schema, b.Offset, from)
		mark(instant, b.Offset, from)
	}
	// Branches of unions: 0 and 2 of a column at the end of a row could stand
	// for each other only with other lengths, which are noticed.
	return free
}

// TestTorn: a file cut anywhere gives its whole blocks, and a corrupt one for
// the rest.
func TestTorn(t *testing.T) {
	data := smallFile(t)
	bs := blocks(t, data)
	for n := range data {
		s := logfile.NewScanner(bytes.NewReader(data[:n]), int64(n))
		for _, whole := range bs {
			b, err := s.Next()
			if int64(n) == whole.Offset {
				if !errors.Is(err, io.EOF) {
					t.Fatalf("cut at %d: %v", n, err)
				}
				break
			}
			if err != nil {
				t.Fatalf("cut at %d: %v", n, err)
			}
			if int64(n) < whole.Offset+whole.Length {
				if b.Type != logfile.Corrupt || b.Offset != whole.Offset || b.Length != int64(n)-whole.Offset {
					t.Fatalf("cut at %d: %+v", n, b)
				}
				if err := firstError(b, smallSchema(t)); !errors.Is(err, logfile.ErrCorrupt) {
					t.Fatal(err)
				}
				break
			}
			if b.Type != whole.Type {
				t.Fatalf("cut at %d: %v", n, b.Type)
			}
		}
	}
}

// TestGarbageBetween: what is between two blocks is one corrupt block.
func TestGarbageBetween(t *testing.T) {
	data := smallFile(t)
	first := blocks(t, data)[0]
	for _, size := range []int{1, 5, 40, 70_000, 1 << 17} {
		garbage := strings.Repeat("#HUD.", size/5+1)[:size]
		mixed := string(data[:first.Length]) + garbage + string(data[first.Length:])
		var types []logfile.Type
		for _, b := range blocks(t, []byte(mixed)) {
			types = append(types, b.Type)
			if b.Type == logfile.Corrupt && b.Content().Size() != 0 {
				t.Fatal("content of a corrupt block")
			}
		}
		// The first block is not followed by a magic: it is taken for corrupt,
		// with the garbage, as Hudi does.
		if !reflect.DeepEqual(types, []logfile.Type{logfile.Corrupt, logfile.Delete}) {
			t.Fatalf("%d bytes between: %v", size, types)
		}
		types = nil
		for _, b := range blocks(t, []byte(garbage+string(data))) {
			types = append(types, b.Type)
		}
		if !reflect.DeepEqual(types, []logfile.Type{logfile.Corrupt, logfile.AvroData, logfile.Delete}) {
			t.Fatalf("%d bytes in front: %v", size, types)
		}
	}
}

// patch changes a big-endian integer.
func patch(data []byte, off int64, v uint32) []byte {
	p := bytes.Clone(data)
	binary.BigEndian.PutUint32(p[off:], v)
	return p
}

func TestRefused(t *testing.T) {
	data := smallFile(t)
	bs := blocks(t, data)
	rows, deletes := bs[0], bs[1]
	for name, c := range map[string]struct {
		data []byte
		want error
	}{
		"log format version":  {patch(data, 14, 0), logfile.ErrUnsupported},
		"block type":          {patch(data, 18, 9), logfile.ErrUnsupported},
		"type corrupt":        {patch(data, 18, 2), logfile.ErrUnsupported},
		"hfile":               {patch(data, 18, 4), logfile.ErrUnsupported},
		"parquet":             {patch(data, 18, 5), logfile.ErrUnsupported},
		"many header entries": {patch(data, 22, 1<<30), logfile.ErrCorrupt},
		"unknown header key":  {patch(data, 26, 99), logfile.ErrUnsupported},
		"header key twice":    {patch(data, 26, 2), logfile.ErrCorrupt},
		"long header value":   {patch(data, 30, 1<<31-1), logfile.ErrCorrupt},
		"negative header":     {patch(data, 30, 1<<31), logfile.ErrCorrupt},
		"long content":        {patch(data, rows.ContentOffset-4, 1<<30), logfile.ErrCorrupt},
		"short content":       {patch(data, rows.ContentOffset-4, 3), logfile.ErrCorrupt},
		"content version":     {patch(data, rows.ContentOffset, 4), logfile.ErrUnsupported},
		"content version 0":   {patch(data, rows.ContentOffset, 0), logfile.ErrUnsupported},
		"many rows":           {patch(data, rows.ContentOffset+4, 1<<30), logfile.ErrCorrupt},
		"few rows":            {patch(data, rows.ContentOffset+4, 1), logfile.ErrCorrupt},
		"one row more":        {patch(data, rows.ContentOffset+4, 3), logfile.ErrCorrupt},
		"long row":            {patch(data, rows.ContentOffset+8, 1<<30), logfile.ErrCorrupt},
		"negative row":        {patch(data, rows.ContentOffset+8, 1<<31), logfile.ErrCorrupt},
		"old deletes":         {patch(data, deletes.ContentOffset, 2), logfile.ErrUnsupported},
		"new deletes":         {patch(data, deletes.ContentOffset, 4), logfile.ErrUnsupported},
		"length of deletes":   {patch(data, deletes.ContentOffset+4, 5), logfile.ErrCorrupt},
		"negative deletes":    {patch(data, deletes.ContentOffset+4, 1<<31), logfile.ErrCorrupt},
		"many deletes":        {patch(data, deletes.ContentOffset+8, 0xffffff0f), logfile.ErrCorrupt},
		"footer not empty":    {patch(data, rows.Offset+rows.Length-12, 1), logfile.ErrCorrupt},
		"command with rows":   {patch(data, 18, 0), logfile.ErrCorrupt},
	} {
		_, _, err := readAll(c.data, smallSchema(t), "")
		if !errors.Is(err, c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestSchemasThatDoNotFit(t *testing.T) {
	data := smallFile(t)
	for name, c := range map[string]struct {
		column hudi.Column
		order  string
		want   error
	}{
		"long as int":     {hudi.Column{Name: "_rev_order", Kind: hudi.KindInt}, "", avro.ErrSchema},
		"text as long":    {hudi.Column{Name: "_id", Kind: hudi.KindLong}, "", avro.ErrSchema},
		"text as list":    {hudi.Column{Name: "_id", Kind: hudi.KindNested, Type: tagType}, "", avro.ErrSchema},
		"text orders":     {hudi.Column{Name: "_id", Kind: hudi.KindString}, "_id", logfile.ErrOrder},
		"other timestamp": {hudi.Column{Name: "x", Kind: hudi.KindLong, Type: `{"type":"long","logicalType":"timestamp-micros"}`}, "", nil},
	} {
		target, err := hudi.NewSchema("docs", c.column)
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := readAll(data, target, c.order); !errors.Is(err, c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := firstError(&logfile.Block{Type: logfile.AvroData}, smallSchema(t)); !errors.Is(err, logfile.ErrCorrupt) {
		t.Errorf("no schema: %v", err)
	}
}

// failingReader fails after some reads.
type failingReader struct {
	io.ReaderAt
	left int
}

func (f *failingReader) ReadAt(p []byte, off int64) (int, error) {
	if f.left--; f.left < 0 {
		return 0, io.ErrNoProgress
	}
	return f.ReaderAt.ReadAt(p, off)
}

// TestReadErrorIsNoCorruption: a failed read is an error that says so, and
// stays.
func TestReadErrorIsNoCorruption(t *testing.T) {
	data := smallFile(t)
	for left := range 100 {
		r := &failingReader{bytes.NewReader(data), left}
		s := logfile.NewScanner(r, int64(len(data)))
		var err error
		for err == nil {
			var b *logfile.Block
			if b, err = s.Next(); err == nil {
				if b.Type == logfile.Corrupt {
					t.Fatalf("after %d reads: corrupt", left)
				}
				err = firstError(b, smallSchema(t))
			}
		}
		if errors.Is(err, io.EOF) {
			if left < 10 {
				t.Fatalf("done after %d reads", left)
			}
			return
		}
		if !errors.Is(err, io.ErrNoProgress) {
			t.Fatalf("after %d reads: %v", left, err)
		}
	}
	t.Fatal("never done")
}

// TestLeaving: a consumer may stop at any record.
func TestLeaving(t *testing.T) {
	for _, b := range blocks(t, smallFile(t)) {
		n := 0
		for range b.Records(smallSchema(t), "") {
			n++
			break
		}
		if n != 1 {
			t.Fatalf("%d records", n)
		}
	}
}

func FuzzScan(f *testing.F) {
	f.Add(smallFile(f))
	f.Add(write(f, wideSchema(f), options()))
	for _, name := range []string{"logblock_avro_data.hex", "logblock_delete_v3_types.hex", "logblock_cdc_data_before_after.hex", "logblock_command_rollback.hex"} {
		f.Add(vector(f, name))
	}
	small, wide := smallSchema(f), wideSchema(f)
	f.Fuzz(func(t *testing.T, data []byte) {
		s := logfile.NewScanner(bytes.NewReader(data), int64(len(data)))
		end := int64(0)
		for {
			b, err := s.Next()
			if err != nil {
				break
			}
			if b.Offset != end || b.Length <= 0 {
				t.Fatalf("block at %d of %d bytes, the last ended at %d", b.Offset, b.Length, end)
			}
			end += b.Length
			for _, target := range []*hudi.Schema{small, wide} {
				for r, err := range b.Records(target, "_rev_order") {
					if err == nil && r.Size() > 200*(len(data)+100) {
						t.Fatalf("a record of %d bytes from a file of %d", r.Size(), len(data))
					}
				}
			}
		}
	})
}
