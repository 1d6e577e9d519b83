package reader_test

import (
	"fmt"
	"iter"
	"slices"
	"strings"
	"testing"

	"github.com/couch2hudi/couch2hudi/hudi"
	"github.com/couch2hudi/couch2hudi/reader"
)

// values are predicates that a row of a table meets: each on one column, with the
// row's own value.
func values(s *hudi.Schema, r *hudi.Record) []string {
	quote := func(text string) string { return "'" + strings.ReplaceAll(text, "'", "''") + "'" }
	list := []string{"_hoodie_record_key = " + quote(r.Key.Record), "_hoodie_record_key <= " + quote(r.Key.Record),
		"_hoodie_partition_path = " + quote(r.Key.Partition), "_hoodie_commit_time >= " + quote(string(r.CommitTime))}
	for i, c := range s.Columns() {
		switch v := r.Row[i]; v.Kind() {
		case hudi.KindString:
			list = append(list, c.Name+" = "+quote(v.Text()), c.Name+" >= "+quote(v.Text()))
		case hudi.KindInt, hudi.KindLong:
			list = append(list, fmt.Sprintf("%s = %d", c.Name, v.Long()), fmt.Sprintf("%s < %d", c.Name, v.Long()))
		case hudi.KindDouble:
			list = append(list, fmt.Sprintf("%s <= %v", c.Name, v.Double()))
		case hudi.KindBoolean:
			list = append(list, fmt.Sprintf("%s = %t", c.Name, v.Boolean()))
		case hudi.KindNull:
			list = append(list, c.Name+" is null")
		default:
			list = append(list, c.Name+" is not null")
		}
	}
	return list
}

// TestGoldenWhere: statistics, key ranges and filters that other engines wrote leave
// out no row that meets a predicate, in any way of reading.
func TestGoldenWhere(t *testing.T) {
	for _, name := range goldenNames(t) {
		t.Run(name, func(t *testing.T) {
			bucket, _ := golden(t, name)
			v := openView(t, bucket)
			s, err := v.Schema(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			ways := []func(reader.Options) iter.Seq2[*hudi.Record, error]{
				func(o reader.Options) iter.Seq2[*hudi.Record, error] { return reader.Snapshot(t.Context(), v, o) },
				func(o reader.Options) iter.Seq2[*hudi.Record, error] { return reader.ReadOptimized(t.Context(), v, o) },
				func(o reader.Options) iter.Seq2[*hudi.Record, error] {
					return reader.Incremental(t.Context(), v, v.Writes()[len(v.Writes())-2].Time, "", o)
				},
			}
			for way, read := range ways {
				var all []hudi.Record
				for r, err := range read(reader.Options{}) {
					if err != nil {
						t.Fatal(err)
					}
					all = append(all, r.Clone())
				}
				for i := way; i < len(all); i += len(all) {
					for _, where := range values(s, &all[i]) {
						wherePushed(t, s, all, where, read)
					}
				}
			}
		})
	}
}

// wherePushed compares what a predicate reads with what it leaves of all rows.
func wherePushed(t *testing.T, s *hudi.Schema, all []hudi.Record, where string, read func(reader.Options) iter.Seq2[*hudi.Record, error]) {
	t.Helper()
	w := parsed(t, where)
	f, err := w.Bind(s)
	if err != nil {
		t.Fatal(err)
	}
	var want, got []string
	for i := range all {
		if f.Keeps(&all[i]) {
			want = append(want, all[i].Key.Partition+"/"+all[i].Key.Record+" "+all[i].CommitSeqno)
		}
	}
	for r, err := range read(reader.Options{Where: w}) {
		if err != nil {
			t.Fatalf("%s: %v", where, err)
		}
		got = append(got, r.Key.Partition+"/"+r.Key.Record+" "+r.CommitSeqno)
	}
	if slices.Sort(want); !slices.Equal(slices.Sorted(slices.Values(got)), want) {
		t.Errorf("%s:\n got %q\nwant %q", where, got, want)
	}
}
