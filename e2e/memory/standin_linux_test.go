package memory

import (
	"bufio"
	"context"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"io"
	"iter"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"github.com/couch2hudi/couch2hudi/hudi"
	"github.com/couch2hudi/couch2hudi/internal/couchfake"
	"github.com/couch2hudi/couch2hudi/reader"
	"github.com/couch2hudi/couch2hudi/storage"
	"github.com/couch2hudi/couch2hudi/storage/file"
	"github.com/couch2hudi/couch2hudi/table"
)

// standInEnv makes the test binary be the stand-in for CouchDB, so that its
// documents, and the comparison of the table with them, take the memory of a
// process of their own: what the kernel says of the binary counts in what the
// process had that started it.
const standInEnv = "COUCH2HUDI_TEST_STANDIN"

// largeBytes is how long the text of a large document is.
const largeBytes = 8_000_000

// standIn serves one database until its input ends. Commands: "load SMALL
// LARGE", "update SMALL LARGE" (a tenth of the documents get a new version, a
// tenth are deleted), "compare TABLE", "fill MEGABYTES TABLE". Each answers a line: "ok N", N being how many
// documents it was about, or what is wrong.
func standIn() error {
	s, err := couchfake.Start(couchfake.Options{})
	if err != nil {
		return err
	}
	db, err := s.Create("docs")
	if err != nil {
		return err
	}
	fmt.Println(s.URL() + "/docs")
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		n, err := obey(db, in.Text())
		if err != nil {
			fmt.Println(err)
			continue
		}
		fmt.Println("ok", n)
	}
	return s.Close()
}

func obey(db *couchfake.Database, command string) (n int, err error) {
	var small, large int
	verb, rest, _ := strings.Cut(command, " ")
	if verb == "compare" {
		return compare(db, rest)
	}
	if verb == "fill" {
		megabytes, dir, _ := strings.Cut(rest, " ")
		n, err := strconv.ParseInt(megabytes, 10, 64)
		if err != nil {
			return 0, err
		}
		return fillSlice(dir, n)
	}
	if _, err := fmt.Sscan(rest, &small, &large); err != nil {
		return 0, err
	}
	write := func(docs iter.Seq2[string, []byte]) error {
		return db.Load(func(yield func(string, []byte) bool) {
			for id, body := range docs {
				n++
				if !yield(id, body) {
					return
				}
			}
		})
	}
	switch verb {
	case "load":
		return n, write(documents(small, large, 1))
	case "update":
		return n, write(updates(small, large))
	}
	return 0, fmt.Errorf("no such command: %q", verb)
}

// documents are the small ones with the large ones spread among them.
func documents(small, large, version int) iter.Seq2[string, []byte] {
	return func(yield func(string, []byte) bool) {
		between := small / large
		for i := range small {
			if !yield(fmt.Sprintf("order-%08d", i), smallBody(i, version)) {
				return
			}
			if n := i / between; i%between == 0 && n < large && !yield(fmt.Sprintf("scan-%04d", n), largeBody(n, version)) {
				return
			}
		}
	}
}

// updates are new versions of a tenth of the documents, and the deletions of
// another tenth.
func updates(small, large int) iter.Seq2[string, []byte] {
	return func(yield func(string, []byte) bool) {
		i := 0
		for id, body := range documents(small, large, 2) {
			switch i++; {
			case i%10 == 3:
				body = []byte(`{"_deleted":true}`)
			case i%10 != 0:
				continue
			}
			if !yield(id, body) {
				return
			}
		}
	}
}

// smallBody is a document of about 500 bytes.
func smallBody(i, version int) []byte {
	return fmt.Appendf(nil, `{"type":"order","createdAt":"2024-01-%02dT10:%02d:00Z","customer":"customer-%05d","status":"paid","total":%d.%02d,"items":%d,`+
		`"paid":%t,"version":%d,"address":{"street":"Rua das Flores %d","city":"Porto","zip":"4050-%03d"},"tags":["gift","express"],`+
		`"note":"%s"}`, 1+i%28, i%60, i%10_000, i%500, i%100, i%9, i%3 == 0, version, i%200, i%1000, strings.Repeat("lorem ipsum dolor ", 8))
}

// largeBody is a document of 8 MB of text that does not compress well.
func largeBody(i, version int) []byte {
	var seed [32]byte
	binary.LittleEndian.PutUint64(seed[:], uint64(i))
	binary.LittleEndian.PutUint64(seed[8:], uint64(version))
	noise := make([]byte, largeBytes/2)
	_, _ = rand.NewChaCha8(seed).Read(noise) // it never fails
	return fmt.Appendf(nil, `{"type":"scan","createdAt":"2024-02-01T00:00:00Z","version":%d,"image":"%s"}`, version, hex.EncodeToString(noise))
}

// compare reads the table a row at a time and holds it against the database.
func compare(db *couchfake.Database, dir string) (n int, err error) {
	ctx := context.Background()
	d, err := file.New(dir, nil)
	if err != nil {
		return 0, err
	}
	t, err := table.Open(ctx, storage.New(d, nil), table.Options{ReadOnly: true})
	if err != nil {
		return 0, err
	}
	v, err := t.View(ctx)
	if err != nil {
		return 0, err
	}
	schema, err := v.Schema(ctx)
	if err != nil {
		return 0, err
	}
	seen := map[string]bool{}
	for r, err := range reader.Snapshot(ctx, v, reader.Options{}) {
		if err != nil {
			return 0, err
		}
		id := strings.Clone(r.Key.Record)
		d, ok := db.Doc(id)
		switch {
		case !ok || d.Deleted():
			return 0, fmt.Errorf("%q is in the table, not in the database", id)
		case seen[id]:
			return 0, fmt.Errorf("%q is in the table twice", id)
		case schema.At(r.Row, hudi.ColumnRev).Text() != d.Winner().Rev.String():
			return 0, fmt.Errorf("%q has another revision than %s in the table", id, d.Winner().Rev)
		case schema.At(r.Row, hudi.ColumnDoc).Text() != string(d.Winner().Body):
			return 0, fmt.Errorf("%q has another body in the table", id)
		}
		seen[id] = true
	}
	for d := range db.Docs() {
		if !d.Deleted() && !seen[d.ID] {
			return 0, fmt.Errorf("%q is not in the table", d.ID)
		}
	}
	return len(seen), nil
}

// server is the stand-in in its process.
type server struct {
	t   *testing.T
	in  io.Writer
	out *bufio.Reader
	url string
}

func startServer(t *testing.T) *server {
	t.Helper()
	c := exec.Command(os.Args[0])
	c.Env = append(os.Environ(), standInEnv+"=1")
	c.Stderr = os.Stderr
	in, err := c.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = in.Close()
		if err := c.Wait(); err != nil {
			t.Errorf("the stand-in: %v", err)
		}
	})
	s := &server{t: t, in: in, out: bufio.NewReader(out)}
	s.url = s.line()
	return s
}

func (s *server) line() string {
	s.t.Helper()
	l, err := s.out.ReadString('\n')
	if err != nil {
		s.t.Fatalf("the stand-in: %v", err)
	}
	return strings.TrimSpace(l)
}

// ask gives the number of documents that a command was about.
func (s *server) ask(format string, a ...any) (n int) {
	s.t.Helper()
	if _, err := fmt.Fprintf(s.in, format+"\n", a...); err != nil {
		s.t.Fatalf("the stand-in: %v", err)
	}
	answer := s.line()
	if _, err := fmt.Sscanf(answer, "ok %d", &n); err != nil {
		s.t.Fatalf("%s: %s", fmt.Sprintf(format, a...), answer)
	}
	return n
}
