package normalize_test

import (
	"testing"

	"github.com/couch2hudi/couch2hudi/changes"
	"github.com/couch2hudi/couch2hudi/normalize"
)

// TestPurgedInBatch: what arrives after a purge beats what came before it,
// whatever the sums, and is of a new era.
func TestPurgedInBatch(t *testing.T) {
	live := func(gen string) changes.Change { return change(t, "a", `{"n":1}`, gen+"-a") }
	gone := changes.Change{ID: "a", Deleted: true, Absent: true, Purged: true}
	bad := change(t, "a", `{"n":`, "3-a")
	for name, c := range map[string]struct {
		batch   []changes.Change
		order   int64
		era     bool
		rejects int
	}{
		"gone":                       {[]changes.Change{live("7"), gone}, 0, true, 0},
		"born again":                 {[]changes.Change{live("7"), gone, live("1")}, 1, true, 0},
		"and lived on":               {[]changes.Change{live("7"), gone, live("2"), live("1")}, 2, true, 0},
		"gone twice":                 {[]changes.Change{live("7"), gone, live("2"), gone, live("1")}, 1, true, 0},
		"born broken":                {[]changes.Change{live("7"), gone, bad}, 0, true, 1},
		"born broken after all":      {[]changes.Change{live("7"), gone, live("2"), bad}, 2, true, 1},
		"broken before":              {[]changes.Change{bad, gone, live("1")}, 1, true, 0},
		"no purge":                   {[]changes.Change{live("7"), live("1")}, 7, false, 0},
		"read again with its leaves": {[]changes.Change{live("7"), func() changes.Change { c := live("3"); c.Purged = true; return c }()}, 3, true, 0},
	} {
		got, err := normalizer(t, normalize.Options{}).Normalize(batch(c.batch...), nil)
		if err != nil || len(got.Records) != 1 || len(got.Rejects) != c.rejects {
			t.Errorf("%s: %d records, %d rejects, %v", name, len(got.Records), len(got.Rejects), err)
			continue
		}
		if r := got.Records[0]; r.Order != c.order || r.NewEra != c.era {
			t.Errorf("%s: order %d, new era %t", name, r.Order, r.NewEra)
		}
	}
}
