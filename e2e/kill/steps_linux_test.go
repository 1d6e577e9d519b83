package kill

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/couch2hudi/couch2hudi/commitmeta"
	"github.com/couch2hudi/couch2hudi/hudi"
	"github.com/couch2hudi/couch2hudi/hudi/timeline"
)

// step is a step in the life of a run, in which it may die.
type step string

const (
	reading   step = "reading: nothing open"
	requested step = "begin: requested"
	inflight  step = "begin: inflight"
	aside     step = "quarantine"
	metafile  step = "partition metadata"
	marker    step = "marker"
	baseFile  step = "data: base file"
	logFile   step = "data: log file"
	completed step = "completed put"
	cleanup   step = "clean-up after it"
	recovery  step = "recovery"

	anyTime step = "any time" // aims at no step
)

// allSteps are the steps in the order of a commit. Reading stands for the time
// before the first write and between two commits.
func allSteps() []step {
	return []step{reading, requested, inflight, aside, metafile, marker, baseFile, logFile, completed, cleanup, recovery}
}

// trigger picks the event at which to strike to hit a step. An event is told a
// moment late, so for each step there are some, from just before it on.
func trigger(s step, r *rand.Rand) func(event) bool {
	early := r.IntN(2) == 0
	hoodie, begun := hoodieFiles(), false
	return func(e event) bool {
		begun = begun || e.dir == ".hoodie" && strings.HasSuffix(e.name, ".deltacommit.inflight")
		inTable := !strings.HasPrefix(e.dir, ".hoodie") && e.name != ".hoodie"
		switch s {
		case requested:
			return hoodie(e, ".deltacommit.requested", early)
		case inflight:
			return hoodie(e, ".deltacommit.inflight", early)
		case aside:
			return e.dir == ".hoodie/couch2hudi/quarantine" && e.hidden() == early
		case metafile:
			return !e.gone && begun && inTable && (e.folder || !early && e.name == ".hoodie_partition_metadata")
		case marker:
			return !e.gone && strings.HasPrefix(e.dir, ".hoodie/.temp") && e.folder == early
		case baseFile:
			return !e.gone && inTable && (early && begun && e.hidden() || strings.HasSuffix(e.name, ".parquet"))
		case logFile:
			return !e.gone && inTable && (early && begun && e.hidden() || strings.Contains(e.name, ".log."))
		case completed:
			return hoodie(e, ".deltacommit", early)
		case cleanup:
			return hoodie(e, ".deltacommit", false) && !early || e.gone && strings.HasPrefix(e.dir, ".hoodie/.temp/") && !e.hidden()
		case recovery:
			return strings.Contains(e.name, ".rollback") && e.dir == ".hoodie" || e.gone && inTable && !e.hidden()
		default:
			return false
		}
	}
}

// hoodieFiles tells when a file of the timeline appears, or, early, the hidden
// file of which it is made: the next one after the state before.
func hoodieFiles() func(e event, suffix string, early bool) bool {
	last := ""
	before := map[string]string{".deltacommit.requested": "", ".deltacommit.inflight": ".deltacommit.requested", ".deltacommit": ".deltacommit.inflight"}
	return func(e event, suffix string, early bool) bool {
		if e.dir != ".hoodie" || e.gone || e.folder {
			return false
		}
		if !e.hidden() {
			_, last, _ = strings.Cut(e.name, ".")
			last = "." + last
			return !early && last == suffix
		}
		return early && (last == before[suffix] || suffix == ".deltacommit.requested" && last == ".deltacommit")
	}
}

// pause is how long to wait with the strike: mostly not at all.
func pause(r *rand.Rand) time.Duration {
	if r.IntN(2) == 0 {
		return 0
	}
	return time.Duration(r.IntN(3000)) * time.Microsecond
}

// body is what lies in a table's folder after a death.
type body struct {
	instants []timeline.Instant
	names    []string
	dir      string
}

func (w *world) remains() body {
	w.t.Helper()
	b := body{names: w.files(), dir: w.dir}
	var all []timeline.Instant
	for _, n := range b.names {
		if filepath.Dir(n) != ".hoodie" {
			continue
		}
		if i, ok := timeline.ParseFileName(hudi.Version6, filepath.Base(n)); ok {
			all = append(all, i)
		}
	}
	b.instants = timeline.Merge(all)
	return b
}

// has says whether there is a file that begins and ends so.
func (b body) has(prefix, suffix string) bool {
	return slices.ContainsFunc(b.names, func(n string) bool { return strings.HasPrefix(n, prefix) && strings.HasSuffix(n, suffix) })
}

// hiddenIn says whether the dead was writing a file right in that folder.
func (b body) hiddenIn(dir string) bool {
	return slices.ContainsFunc(b.names, func(n string) bool { return filepath.Dir(n) == dir && isTemp(filepath.Base(n)) })
}

// open are the instants whose files may be torn: deltacommits, and compactions
// that are being run.
func (b body) open() []timeline.Instant {
	return slices.DeleteFunc(slices.Clone(b.instants), func(i timeline.Instant) bool {
		run := i.Action == commitmeta.ActionCompaction && i.State == timeline.Inflight
		return i.Done() || i.Action != commitmeta.ActionDeltaCommit && !run
	})
}

// pending are the deltacommits that are not completed.
func (b body) pending() []timeline.Instant {
	return slices.DeleteFunc(slices.Clone(b.instants), func(i timeline.Instant) bool {
		return i.Done() || i.Action != commitmeta.ActionDeltaCommit
	})
}

// autopsy says in which step a run died, from the table before and after it.
func autopsy(before, after body) step {
	had := map[hudi.Time]timeline.State{}
	for _, i := range before.instants {
		had[i.Time] = i.State
	}
	var last timeline.Instant // the last that this run has put there or moved
	for _, i := range after.instants {
		if s, known := had[i.Time]; !known || s != i.State {
			last = i
		}
		if i.Action == commitmeta.ActionRollback && !i.Done() {
			return recovery
		}
	}
	temp := ".hoodie/.temp/" + string(last.Time) + "/"
	inHoodie := after.hiddenIn(".hoodie")
	switch {
	case len(before.pending()) > 0 && last.Time == "":
		if inHoodie {
			return recovery
		}
		return reading // it had not come to recovery
	case last.Action == commitmeta.ActionRollback:
		if dead := before.pending(); len(dead) > 0 && after.has(".hoodie/.temp/"+string(dead[0].Time)+"/", "") {
			return recovery
		}
		if inHoodie {
			return requested
		}
		return reading
	case last.Time == "" || last.Done():
		if last.Done() && after.has(temp, "") {
			if inHoodie {
				return completed
			}
			return cleanup
		}
		if inHoodie {
			return requested
		}
		return reading
	case last.State == timeline.Requested && inHoodie:
		return inflight
	case last.State == timeline.Requested:
		return requested
	case inHoodie:
		return completed
	}
	return after.inTheMiddle(last.Time, temp)
}

// inTheMiddle is the step of a run that died between inflight and completed.
func (b body) inTheMiddle(at hudi.Time, temp string) step {
	kinds := map[string]step{".CREATE": baseFile, ".APPEND": logFile}
	unwritten, newest, newestTime := step(""), step(""), time.Time{}
	for _, n := range b.names {
		name, isMarker := strings.CutPrefix(n, temp)
		if !isMarker || isTemp(filepath.Base(n)) {
			continue
		}
		data, kind := strings.TrimSuffix(name, filepath.Ext(name)), kinds[filepath.Ext(name)]
		data = strings.TrimSuffix(data, ".marker")
		fi, err := os.Stat(filepath.Join(b.dir, data))
		switch {
		case err != nil:
			unwritten = kind
		case fi.ModTime().After(newestTime):
			newest, newestTime = kind, fi.ModTime()
		}
	}
	for _, n := range b.names {
		if !isTemp(filepath.Base(n)) {
			continue
		}
		switch dir := filepath.Dir(n); {
		case strings.HasPrefix(n, temp):
			return marker
		case dir == ".hoodie/couch2hudi/quarantine":
			return aside
		case strings.HasPrefix(dir, ".hoodie"):
		case !b.has(filepath.Join(dir, ".hoodie_partition_metadata"), ""):
			return metafile
		case unwritten != "":
			return unwritten
		}
	}
	switch {
	case unwritten != "":
		return marker // its file was not begun
	case b.newFolder(at, temp):
		return metafile
	case newest != "":
		return newest
	case b.has(".hoodie/couch2hudi/quarantine/"+string(at), ""):
		return aside
	}
	return inflight
}

// newFolder says whether there is a partition that this instant has made, and
// has not come to mark a file in.
func (b body) newFolder(at hudi.Time, temp string) bool {
	entries, err := os.ReadDir(b.dir)
	if err != nil {
		return false
	}
	for _, e := range entries {
		if !e.IsDir() || e.Name() == ".hoodie" || b.has(temp+e.Name()+"/", "") {
			continue
		}
		data, err := os.ReadFile(filepath.Join(b.dir, e.Name(), ".hoodie_partition_metadata"))
		if err != nil || strings.Contains(string(data), "commitTime="+string(at)) {
			return true
		}
	}
	return false
}
