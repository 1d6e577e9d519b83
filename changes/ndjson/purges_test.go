package ndjson_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"

	"github.com/couch2hudi/couch2hudi/changes"
	"github.com/couch2hudi/couch2hudi/changes/ndjson"
)

// purging is a memory with a list of purges. What was purged whole is absent.
type purging struct {
	*memory
	// list are the ids of purges, in their order; gone are those of which nothing is left.
	list []string
	gone map[string]bool
	// fails, when set, is what Read returns.
	fails error
	reads int
}

func (p *purging) Identify(ctx context.Context) (changes.Identity, error) {
	id, err := p.memory.Identify(ctx)
	id.PurgeSeq = p.seq()
	return id, err
}

func (p *purging) seq() string { return strconv.Itoa(len(p.list)) + "-p" }

func (p *purging) purge(id string) {
	p.list = append(p.list, id)
	p.gone[id] = true
}

func (p *purging) Next(ctx context.Context, after changes.Position, l changes.Limit) (changes.Batch, error) {
	b, err := p.memory.Next(ctx, after, l)
	b.Changes = slices.DeleteFunc(b.Changes, func(c changes.Change) bool { return p.gone[c.ID] })
	return b, err
}

func (p *purging) Purged(_ context.Context, after string) ([]string, string, error) {
	from := 0
	if after != "" {
		if _, err := fmt.Sscanf(after, "%d-p", &from); err != nil {
			return nil, "", err
		}
	}
	return p.list[from:], p.seq(), nil
}

func (p *purging) Read(_ context.Context, ids []string) (all []changes.Change, err error) {
	p.reads++
	if p.fails != nil && p.reads > 1 {
		return nil, p.fails
	}
	for _, id := range ids {
		i := slices.IndexFunc(p.rows, func(c changes.Change) bool { return c.ID == id })
		if i < 0 || p.gone[id] {
			all = append(all, changes.Change{ID: id, Deleted: true, Absent: true})
			continue
		}
		c := p.rows[i]
		c.Seq = ""
		all = append(all, c)
	}
	return all, nil
}

// said are the marks of the rows that a folder holds, in their order.
func said(t *testing.T, folder string) (marks []string) {
	t.Helper()
	s := open(t, ndjson.Options{Folder: folder})
	b, err := s.Next(t.Context(), "", changes.Limit{Rows: 1 << 20, Bytes: 1 << 30})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range b.Changes {
		mark := c.ID
		if c.Purged {
			mark += " purged"
		}
		if c.Absent {
			mark += " absent"
		}
		marks = append(marks, mark)
	}
	return marks
}

// Purged documents cross as they are now, once; what was purged before a chain began
// has no row in it; a document that is written again after its purge is so too.
func TestPurgesCross(t *testing.T) {
	p, folder := &purging{memory: newMemory(), gone: map[string]bool{}}, t.TempDir()
	for _, id := range []string{"a", "b", "c"} {
		p.put(id, `{}`, false)
	}
	p.put("before", `{}`, false)
	p.purge("before")
	o := ndjson.ExportOptions{Folder: folder}
	first := export(t, p, o)
	if m := first[len(first)-1]; m.PurgeSeq != "1-p" {
		t.Errorf("the first manifest's purge sequence is %q", m.PurgeSeq)
	}
	p.purge("a")
	p.list = append(p.list, "b") // one of its leaves
	next := export(t, p, o)
	if len(next) != 1 || next[0].PurgeSeq != "3-p" || next[0].Rows != 2 || next[0].FirstSeq != next[0].LastSeq {
		t.Errorf("the purges' bundle is %+v", next)
	}
	if again := export(t, p, o); len(again) > 0 {
		t.Errorf("nothing new made %+v", again)
	}
	p.put("b", `{"n":2}`, false)
	export(t, p, o)
	want := []string{"a", "b", "c", "a purged absent", "b purged", "b"}
	if got := said(t, folder); !slices.Equal(got, want) {
		t.Errorf("rows are %q, want %q", got, want)
	}
}

// A purge sequence is in a manifest only when all that it names is: an export that
// fails in between begins anew.
func TestPurgesAreWhole(t *testing.T) {
	p, folder := &purging{memory: newMemory(), gone: map[string]bool{}}, t.TempDir()
	n := changes.ReadAtOnce + 5
	for i := range n {
		p.put(fmt.Sprintf("d%05d", i), `{}`, false)
	}
	o := ndjson.ExportOptions{Folder: folder, Bytes: 20_000}
	export(t, p, o)
	for i := range n {
		p.purge(fmt.Sprintf("d%05d", i))
	}
	p.reads, p.fails = 0, errors.New("the server is away")
	e, err := ndjson.NewExporter(t.Context(), p, o)
	if err != nil {
		t.Fatal(err)
	}
	if err := e.Run(t.Context()); !errors.Is(err, p.fails) {
		t.Errorf("it ended with %v", err)
	}
	if m := e.Last(); m.PurgeSeq != "0-p" {
		t.Errorf("with half of the purges the purge sequence is %q", m.PurgeSeq)
	}
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	p.fails = nil
	all := export(t, p, o)
	if m := all[len(all)-1]; m.PurgeSeq != p.seq() {
		t.Errorf("in the end the purge sequence is %q", m.PurgeSeq)
	}
	absent := map[string]bool{}
	for _, mark := range said(t, folder) {
		absent[mark] = true
	}
	for i := range n {
		if mark := fmt.Sprintf("d%05d purged absent", i); !absent[mark] {
			t.Fatalf("%q did not cross", mark)
		}
	}
	left, err := filepath.Glob(filepath.Join(folder, ".*.tmp"))
	if err != nil || len(left) > 0 {
		t.Errorf("left over: %v, %v", left, err)
	}
	if _, err := os.Stat(filepath.Join(folder, "chain.json")); err != nil {
		t.Error(err)
	}
}
