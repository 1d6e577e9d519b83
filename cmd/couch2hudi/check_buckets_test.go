package main

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/couch2hudi/couch2hudi/internal/couchfake"
)

func TestMergeLoad(t *testing.T) {
	for _, c := range []struct {
		groups   int
		interval time.Duration
		want     mergeVerdict
	}{
		{16, time.Minute, mergeVerdict{LogsADay: 23_040, Merge: 1600 * time.Millisecond, Window: 10 * time.Minute, Fits: true, FitInterval: time.Second, FitGroups: 3000}},
		{2048, time.Minute, mergeVerdict{LogsADay: 2_949_120, Merge: 204_800 * time.Millisecond, Window: 10 * time.Minute, Fits: true, FitInterval: 41 * time.Second, FitGroups: 3000}},
		{256, time.Second, mergeVerdict{LogsADay: 22_118_400, Merge: 25_600 * time.Millisecond, Window: 10 * time.Second, FitInterval: 6 * time.Second, FitGroups: 50}},
		{50, time.Second, mergeVerdict{LogsADay: 4_320_000, Merge: 5 * time.Second, Window: 10 * time.Second, Fits: true, FitInterval: time.Second, FitGroups: 50}},
		{51, time.Second, mergeVerdict{LogsADay: 4_406_400, Merge: 5100 * time.Millisecond, Window: 10 * time.Second, FitInterval: 2 * time.Second, FitGroups: 50}},
		{1, 10 * time.Millisecond, mergeVerdict{LogsADay: 8_640_000, Merge: 100 * time.Millisecond, Window: 100 * time.Millisecond, FitInterval: time.Second}},
		{4, 0, mergeVerdict{LogsADay: 345_600_000, Merge: 400 * time.Millisecond, Window: 10 * time.Millisecond, FitInterval: time.Second}},
	} {
		l := mergeLoad{Groups: c.groups, Interval: c.interval}
		got := l.judge()
		if got != c.want {
			t.Errorf("%+v:\n got %+v\nwant %+v", l, got, c.want)
		}
		// What is advised fits.
		if advised := (mergeLoad{Groups: c.groups, Interval: got.FitInterval}).judge(); !advised.Fits {
			t.Errorf("%+v: an interval of %s does not fit", l, got.FitInterval)
		}
		if advised := (mergeLoad{Groups: got.FitGroups, Interval: c.interval}).judge(); !advised.Fits {
			t.Errorf("%+v: %d groups do not fit", l, got.FitGroups)
		}
	}
}

// What a bucket table will meet is said before it is made, and of what is in it.
func TestCheckBuckets(t *testing.T) {
	_, db, url := shop(t, couchfake.Options{}, 3)
	dir := filepath.Join(t.TempDir(), "table")
	flags := []string{"--source", url, "--table", dir}
	bucket := func(n string, more ...string) []string {
		return append([]string{"--source", url, "--table", dir, "--index", "bucket", "--buckets", n}, more...)
	}
	hasNot(t, findings(t, 0, flags...), "ok table.ids")
	plain := findings(t, 0, bucket("8")...)
	has(t, plain, "ok table.ids", "3 ids")
	has(t, plain, "ok table.merges", "8 file groups")
	has(t, findings(t, 0, bucket("256", "--commit-interval", "1s")...), "warn table.merges", "set commit.interval to 6s or more, or have 50 buckets or fewer")
	for _, id := range []string{"urn:isbn:1", "a,b", "a:b:c,d"} {
		if _, err := db.Put(id, []byte(`{"n":1}`)); err != nil {
			t.Fatal(err)
		}
	}
	before := findings(t, 0, bucket("8")...)
	has(t, before, "warn table.ids", "2 of 6 ids looked at hold a colon")
	has(t, before, "warn table.ids", "1 of 6 ids looked at hold a comma and colons")
	want(t, 0, nil, append([]string{"run", "--once"}, bucket("8")...)...)
	after := findings(t, 0, bucket("8", "--commit-interval", "1s")...)
	has(t, after, "warn table.ids", "urn:isbn:1")
	// The commit wrote fewer groups than there are buckets.
	has(t, after, "ok table.merges", "every 1s")
}
