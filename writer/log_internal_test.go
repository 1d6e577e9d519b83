package writer

import (
	"fmt"
	"strings"
	"testing"

	"github.com/couch2hudi/couch2hudi/hudi"
)

// TestLogStat: the name of a group's next log file, and what the commit says of
// the slice, by the rules of table version 6.
func TestLogStat(t *testing.T) {
	at := hudi.Location{Partition: "pt=a", File: "g-0"}
	base := hudi.File{Name: "g-0_0-1-1_20260101000000000.parquet"}
	log := func(instant string, version int) hudi.File {
		return hudi.File{Name: fmt.Sprintf(".g-0_%s.log.%d_1-2-3", instant, version)}
	}
	const t1, t2, c = "20260101000000000", "20260102000000000", "20260103000000000"
	for _, k := range []struct {
		name  string
		slice hudi.Slice
		want  string
	}{
		{"first log", hudi.Slice{Location: at, Instant: t1, Base: base},
			"pt=a/.g-0_" + t1 + ".log.1_7-0-0 prev " + t1 + " base " + base.Name + " logs 1"},
		{"next log", hudi.Slice{Location: at, Instant: t1, Base: base, Logs: []hudi.File{log(t1, 1), log(t1, 2)}},
			"pt=a/.g-0_" + t1 + ".log.3_7-0-0 prev " + t1 + " base " + base.Name + " logs 3"},
		{"above the largest, whoever wrote it", hudi.Slice{Location: at, Instant: t1, Base: base, Logs: []hudi.File{log(t1, 1), log(t1, 12)}},
			"pt=a/.g-0_" + t1 + ".log.13_7-0-0 prev " + t1 + " base " + base.Name + " logs 3"},
		{"group of logs alone", hudi.Slice{Location: at, Instant: t2, Logs: []hudi.File{log(t2, 1)}},
			"pt=a/.g-0_" + t2 + ".log.2_7-0-0 prev " + t2 + " base  logs 2"},
		{"first after a compaction was planned", hudi.Slice{Location: at, Instant: t1, Base: base, Logs: []hudi.File{log(t1, 1), log(t1, 2)}, Compacting: c},
			"pt=a/.g-0_" + c + ".log.1_7-0-0 prev " + c + " base  logs 1"},
		{"first after a compaction was planned, for changes", hudi.Slice{Location: at, Instant: t1, Base: base, Logs: []hudi.File{log(t1, 1), log(t1, 2)}, Compacting: c},
			"pt=a/.g-0_" + c + ".log.1_7-0-0 prev " + c + " base " + base.Name + " logs 3"},
		{"second after a compaction was planned", hudi.Slice{Location: at, Instant: t1, Base: base, Logs: []hudi.File{log(t1, 1), log(c, 1)}, Compacting: c},
			"pt=a/.g-0_" + c + ".log.2_7-0-0 prev " + c + " base  logs 2"},
	} {
		t.Run(k.name, func(t *testing.T) {
			s, name, err := logStat(k.slice, "7-0-0", strings.HasSuffix(k.name, "for changes"))
			if err != nil {
				t.Fatal(err)
			}
			got := fmt.Sprintf("%s prev %s base %s logs %d", s.Path, s.PrevCommit, s.Log.BaseFile, len(s.Log.LogFiles))
			if got != k.want {
				t.Errorf("got  %s\nwant %s", got, k.want)
			}
			if !strings.HasSuffix(s.Path, "/"+name) || s.Log.LogFiles[len(s.Log.LogFiles)-1] != name || s.File != at.File {
				t.Errorf("%q %+v", name, s)
			}
		})
	}
	bad := hudi.Slice{Location: at, Instant: t1, Logs: []hudi.File{{Name: "no log"}}}
	if _, _, err := logStat(bad, "7-0-0", false); err == nil {
		t.Error("a name that is no log file's was taken")
	}
}
