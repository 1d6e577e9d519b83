//go:build oracle

package e2e

import (
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// TestSparkAndWeShareBuckets lets Spark's own bucket index and ours write into the
// same table in turn, before and after it was given another number of buckets, and
// lets us go on in a table that Spark made: each puts a key where the other looks
// for it, into the file groups that are there.
func TestSparkAndWeShareBuckets(t *testing.T) {
	for _, start := range []func() (*engine, error){spark015, spark12} {
		e := mustEngine(t, start)
		t.Run(e.name, func(t *testing.T) {
			t.Parallel()
			w := newTableWriter(t, modelOptions{partition: "createdAt", layout: "20060102", buckets: 3})
			w.step(100)
			s := &bucketTurns{turns: turns{tableWriter: w, e: e, options: bucketOptions(3), edits: map[string]row{}}}
			s.sparkWrites("first")
			s.weWrite("first")
			if _, err := e.ask(question{Op: "compact", Table: w.table}); err != nil {
				t.Fatal(err)
			}
			s.commands()
			s.rebucket(5)
			s.sparkWrites("second")
			s.weWrite("second")
			s.inTableOfSpark(4)
		})
	}
}

// bucketOptions are those of Spark's writer for a bucket index.
func bucketOptions(buckets int) map[string]string {
	return map[string]string{"hoodie.index.type": "BUCKET", "hoodie.index.bucket.engine": "SIMPLE",
		"hoodie.bucket.index.num.buckets": strconv.Itoa(buckets), "hoodie.bucket.index.hash.field": "_id"}
}

// bucketTurns is a table of the bucket index that Spark and we write in turn.
type bucketTurns struct {
	turns
	replaced []string // file groups that a rebucketing left behind
}

// born is the id of a document that Spark is the first to write.
func born(series string, n int) string { return fmt.Sprintf("born %s %d", series, n) }

const births = 20

// sparkWrites is an upsert of Spark's: newer states of rows in each bucket, and new
// keys. Hudi 0.15 has another bucket for keys with a colon (docs/format/bucket.md).
func (s *bucketTurns) sparkWrites(series string) {
	s.t.Helper()
	groups := s.groups()
	all := mustRows(s.t, s.e, question{Op: "snapshot", Table: s.table})
	all = slices.DeleteFunc(all, func(r row) bool { return strings.Contains(r["_id"].(string), ":") })
	edits := sparkEdits(all)
	fresh := make([]row, births)
	for n := range fresh {
		fresh[n] = maps.Clone(edits[n%len(edits)])
		fresh[n]["_id"], fresh[n]["_rev"], fresh[n]["_rev_order"] = born(series, n), "0-spark", int64(0)
	}
	instant := s.write("upsert", slices.Concat(edits, fresh))
	for _, r := range edits {
		s.keep(r, instant)
	}
	for _, r := range fresh {
		s.keep(r, instant)
		s.model.rows[r["_id"].(string)] = r
		delete(s.edits, r["_id"].(string))
	}
	s.readAll("after Spark's upsert, " + series)
	s.sameGroups(groups, "Spark's upsert, "+series)
}

// weWrite is a commit of ours: changes of all kinds, and of every third document
// that Spark was the first to write.
func (s *bucketTurns) weWrite(series string) {
	s.t.Helper()
	groups := s.groups()
	for n := 0; n < births; n += 3 {
		s.put("2024-01-02", born(series, n))
	}
	s.step(30)
	s.readAll("after our commit, " + series)
	s.sameGroups(groups, "our commit, "+series)
}

// rebucket gives the table another number of buckets; nothing else changes.
func (s *bucketTurns) rebucket(buckets int) {
	s.t.Helper()
	s.replaced = s.groups()
	couch2hudi(s.t, "rebucket", "--table", s.table, "--buckets", strconv.Itoa(buckets))
	s.readAll("after rebucket")
	s.use(buckets)
	s.options = nil // Spark finds the number in the table's properties
	s.checkIDs()
}

// use makes both writers use a number of buckets.
func (s *bucketTurns) use(buckets int) {
	s.model.options.buckets, s.options = buckets, bucketOptions(buckets)
	s.args = []string{"run", "--once", "--config", s.config()}
}

// inTableOfSpark lets Spark make a table of the rows, and us follow the database
// in there. We read all documents again, and write what has changed.
func (s *bucketTurns) inTableOfSpark(buckets int) {
	s.t.Helper()
	to := filepath.Join(s.t.TempDir(), "of-spark")
	a, err := s.e.ask(question{Op: "copy", Table: s.table, To: to, Options: bucketOptions(buckets)})
	if err != nil {
		s.t.Fatal(err)
	}
	s.table, s.replaced = to, nil
	s.use(buckets)
	s.checkIDs()
	groups := s.groups()
	made := a.Timeline[len(a.Timeline)-1].Requested
	s.known = []string{made}
	s.step(30)
	want := s.want()
	for _, r := range want {
		if r[colCommitTime] != s.known[1] {
			r[colCommitTime] = made
		}
	}
	var others []string
	if s.e.name == "spark-0.15" {
		// Its table does not say which field a column is made from, nor that a text
		// is JSON (docs/format/reading.md): these come to other columns.
		others = []string{"odd_name", "odd_name_2", "pt_2", "pt_3", "tags", "address", "any", "_rescued"}
	}
	s.readBy("after our commit in a table of Spark's", want, others...)
	s.sameGroups(groups, "our commit in a table of Spark's")
}

// groups are the file groups on disk, with their partitions.
func (s *bucketTurns) groups() []string {
	s.t.Helper()
	var out []string
	err := fs.WalkDir(os.DirFS(s.table), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if name == ".hoodie" {
			return fs.SkipDir
		}
		id, _, ok := strings.Cut(strings.TrimLeft(d.Name(), "."), "_") // a log file has a dot in front, a checksum one more
		group := path.Join(path.Dir(name), id)
		if ok && strings.HasSuffix(id, "-0") && !slices.Contains(out, group) && !slices.Contains(s.replaced, group) {
			out = append(out, group)
		}
		return nil
	})
	if err != nil {
		s.t.Fatal(err)
	}
	slices.Sort(out)
	return out
}

// checkIDs checks that each partition has one group a bucket, named by it.
func (s *bucketTurns) checkIDs() {
	s.t.Helper()
	seen := map[string]bool{} // partition and bucket
	for _, g := range s.groups() {
		at := path.Join(path.Dir(g), path.Base(g)[:8])
		n, err := strconv.Atoi(path.Base(at))
		if err != nil || n >= s.model.options.buckets || seen[at] {
			s.t.Errorf("file group %s is of none of %d buckets, or the second of one", g, s.model.options.buckets)
		}
		seen[at] = true
	}
	if len(seen) == 0 {
		s.t.Error("there are no file groups")
	}
}

// sameGroups checks that no bucket has got a second group; one that had none may
// have one now.
func (s *bucketTurns) sameGroups(before []string, who string) {
	s.t.Helper()
	now := s.groups()
	for _, g := range before {
		if !slices.Contains(now, g) {
			s.t.Errorf("%s took %s away", who, g)
		}
	}
	s.checkIDs()
}
