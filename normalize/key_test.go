package normalize_test

import (
	"strings"
	"testing"

	"github.com/couch2hudi/couch2hudi/changes"
	"github.com/couch2hudi/couch2hudi/hudi"
	"github.com/couch2hudi/couch2hudi/normalize"
)

// No two documents have one key, and each key gives its document back, also with
// names that CouchDB refuses.
func TestKey(t *testing.T) {
	names := []string{"", "a", "a/b", "a//b", "a/", "/", "%", "a%2Fb", "a%2fb", "a%252Fb", "b", "%2F", "%25", "user-1$(x)+", "ä/ö"}
	ids := []string{"", "x", "b/x", "/x", "a/b/x", "%2Fx", "_design/d", "a,b:c", "😀/1"}
	seen := map[string][2]string{}
	for _, db := range names {
		for _, id := range ids {
			key := normalize.Key(db, id)
			if other, twice := seen[key]; twice {
				t.Errorf("%q is the key of %q and of %q", key, other, []string{db, id})
			}
			seen[key] = [2]string{db, id}
			if d, i, ok := normalize.SplitKey(key); !ok || d != db || i != id {
				t.Errorf("%q of %q and %q gives %q and %q", key, db, id, d, i)
			}
			for _, other := range names {
				if strings.HasPrefix(key, normalize.KeyPrefix(other)) != (other == db) {
					t.Errorf("%q, of %q, and the prefix of %q", key, db, other)
				}
			}
		}
	}
	if key := normalize.Key("shop", "a/b"); key != "shop/a/b" {
		t.Errorf("a plain name: %q", key)
	}
	if _, _, ok := normalize.SplitKey("x"); ok {
		t.Error("a text without a slash is a key")
	}
}

// Rows of equal ids of several databases are rows of their own.
func TestNormalizeDatabases(t *testing.T) {
	for _, deletes := range []string{normalize.Tombstone, normalize.Hard} {
		n, err := normalize.New(normalize.Options{Table: "t", Databases: true, Deletes: deletes})
		if err != nil {
			t.Fatal(err)
		}
		rev := func(g int64) changes.Change {
			r := changes.Rev{Generation: g, Hash: "a"}
			return changes.Change{ID: "x", Rev: r, Leaves: []changes.Rev{r}, Body: []byte(`{"_id":"x","n":1}`)}
		}
		in := func(db string, c changes.Change) changes.Change { c.Database = db; return c }
		gone := rev(3)
		gone.Deleted, gone.Body = true, nil
		out, err := n.Normalize(changes.Batch{Changes: []changes.Change{in("a", rev(1)), in("a/b", rev(2)), in("a", gone), in("", rev(1)), in("b", rev(1))}}, nil)
		if err != nil {
			t.Fatal(err)
		}
		if len(out.Records) != 3 || len(out.Rejects) != 1 || out.Stats.Collapsed != 1 {
			t.Fatalf("%d records, rejects %+v, %+v", len(out.Records), out.Rejects, out.Stats)
		}
		for i, want := range [][2]string{{"a%2Fb", "a/b"}, {"a", "a"}, {"b", "b"}} {
			r := &out.Records[i]
			if r.Key.Record != want[0]+"/x" {
				t.Errorf("key %q, want that of %q", r.Key.Record, want[0])
			}
			if r.Delete {
				continue
			}
			for column, text := range map[string]string{hudi.ColumnKey: want[0] + "/x", hudi.ColumnDB: want[1], hudi.ColumnID: "x"} {
				if got := out.Schema.At(r.Row, column).Text(); got != text {
					t.Errorf("%s is %q, want %q", column, got, text)
				}
			}
		}
		one, err := normalize.New(normalize.Options{Table: "t"})
		if err != nil {
			t.Fatal(err)
		}
		if made, _ := one.Normalize(changes.Batch{}, nil); n.Check(made.Schema) == nil {
			t.Error("the columns of a table of one database do for many")
		}
	}
}
