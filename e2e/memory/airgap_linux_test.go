package memory

import (
	"path/filepath"
	"testing"
)

// A database goes across an air gap, and is compared with the table on either
// side, within bounds, whatever there is of it.
func TestAirGapIsBounded(t *testing.T) {
	small, large := 20_000, 2
	if *full {
		small, large = 1_000_000, 50
	}
	s := startServer(t)
	root := t.TempDir()
	box, dir := filepath.Join(root, "box"), filepath.Join(root, "table")
	changed := s.ask("load %d %d", small, large)
	for _, args := range [][]string{
		{"export", "--once", "--source", s.url, "--to", "ndjson://" + box},
		{"run", "--once", "--source", "ndjson://" + box},
		{"verify", "--source", s.url},
		{"verify", "--source", "ndjson://" + box},
	} {
		run := execute
		if args[0] == "export" {
			run = start
		}
		took, resident := run(t, dir, args...)
		t.Logf("%s: %d changes in %.1f s (%.0f rows/s), at most %.0f MB resident", args[0], changed, took.Seconds(), float64(changed)/took.Seconds(), float64(resident)/1e6)
		if resident >= mostResident {
			t.Errorf("%s: %d bytes resident, and %d are allowed", args[0], resident, mostResident)
		}
	}
	rows := s.ask("compare %s", dir)
	t.Logf("%d rows, %.0f MB of bundles", rows, float64(size(t, box))/1e6)
}
