package kill

import (
	"errors"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/couch2hudi/couch2hudi/commitmeta"
	"github.com/couch2hudi/couch2hudi/hudi"
	"github.com/couch2hudi/couch2hudi/hudi/timeline"
)

// The steps of the services beside an ingest, and of the commands that take a
// table back.
const (
	plan      step = "compaction: plan"
	begun     step = "compaction: begun"
	runMarker step = "compaction: marker"
	runBase   step = "compaction: base file"
	compacted step = "compaction: completed put"
	runDone   step = "compaction: clean-up after it"

	cleanPlan step = "clean: plan"
	cleanRun  step = "clean: deleting"
	cleaned   step = "clean: completed put"

	archiveFile step = "archive: writing"
	archiveGone step = "archive: deleting"

	restorePlan step = "restore: plan"
	restoreRun  step = "restore: taking back"
	restored    step = "restore: completed put"

	rollbackPlan step = "rollback: plan"
	rollbackRun  step = "rollback: taking back"
	rolledBack   step = "rollback: completed put"

	commandPlan step = "command compact: plan"
	commandRun  step = "command compact: run"
)

// tendSteps are all of them.
func tendSteps() []step {
	return []step{plan, begun, runMarker, runBase, compacted, runDone, cleanPlan, cleanRun, cleaned, archiveFile, archiveGone,
		restorePlan, restoreRun, restored, rollbackPlan, rollbackRun, rolledBack, commandPlan, commandRun}
}

// command is the subcommand in which a step comes up.
func (s step) command() string {
	switch s {
	case restorePlan, restoreRun, restored:
		return "restore"
	case rollbackPlan, rollbackRun, rolledBack:
		return "rollback"
	case commandPlan, commandRun:
		return "compact"
	default:
		return "run"
	}
}

// tendTrigger picks the event at which to strike to hit a step: it, or the one
// before.
func tendTrigger(s step, r *rand.Rand) func(event) bool {
	early := r.IntN(2) == 0
	runs := runs{at: map[string]bool{}, planned: map[string]bool{}, dirs: map[string]bool{}}
	last := ""
	deleting := false
	return func(e event) bool {
		inHoodie := e.dir == ".hoodie" && !e.folder
		at, mark := runs.see(e)
		before := last
		if inHoodie && !e.gone && !e.hidden() {
			_, last, _ = strings.Cut(e.name, ".")
		}
		is := func(name string) bool { return inHoodie && !e.gone && last == name && !e.hidden() }
		// The hidden file of which the next state is made.
		next := func(after string) bool { return inHoodie && !e.gone && e.hidden() && before == after }
		data := !e.folder && !strings.HasPrefix(e.dir, ".hoodie")
		deleting = deleting && last == "clean.inflight" || is("clean.inflight")
		switch s {
		case plan, commandPlan:
			return is("compaction.requested") || early && next("deltacommit")
		case begun:
			return is("compaction.inflight") || early && e.dir == ".hoodie/.heartbeat" && runs.planned[e.name]
		case runMarker:
			return mark
		case runBase, commandRun:
			return data && !e.gone && (at || early && runs.marked(e.dir) && e.hidden())
		case compacted:
			return early && at && !e.gone || !early && inHoodie && !e.gone && e.hidden() && runs.wrote
		case runDone:
			return is("commit") || e.gone && e.dir == ".hoodie/.heartbeat" && runs.at[e.name]
		case cleanPlan:
			return is("clean.requested") || early && next("commit")
		case cleanRun:
			return is("clean.inflight") && early || data && e.gone && deleting
		case cleaned:
			return next("clean.inflight") || data && e.gone && deleting && !early
		case archiveFile:
			return e.dir == ".hoodie/archived" && e.hidden() && !e.gone
		case archiveGone:
			return e.dir == ".hoodie/archived" && !e.hidden() && early || inHoodie && e.gone && strings.HasSuffix(e.name, "ed") && !early
		case restorePlan:
			return e.dir == ".hoodie/couch2hudi/restore" || is("restore.requested")
		case restoreRun:
			return is("restore.inflight") && early || data && e.gone
		case restored:
			return is("restore") || next("restore.inflight")
		case rollbackPlan:
			return is("rollback.requested") || early && inHoodie && e.gone && strings.HasSuffix(e.name, "commit")
		case rollbackRun:
			return is("rollback.inflight") && early || data && e.gone
		case rolledBack:
			return next("rollback.inflight") || is("rollback")
		default:
			return false
		}
	}
}

// runs follows what compactions do, by events.
type runs struct {
	at, planned map[string]bool // instants, of runs and of plans
	dirs        map[string]bool // the partitions in which they have marked files
	wrote       bool            // a base file is there
}

// see says whether the event is a base file of a run, and whether it is about a marker
// of one.
func (r *runs) see(e event) (base, mark bool) {
	if name, ok := strings.CutSuffix(e.name, ".compaction.inflight"); ok && e.dir == ".hoodie" {
		r.at[name] = true
	}
	if name, ok := strings.CutSuffix(e.name, ".compaction.requested"); ok && e.dir == ".hoodie" {
		r.planned[name] = true
	}
	if rest, ok := strings.CutPrefix(e.dir, ".hoodie/.temp/"); ok {
		at, dir, _ := strings.Cut(rest, "/")
		if mark = r.at[at]; mark {
			r.dirs[filepath.Clean(dir)] = true
		}
		return false, mark && !e.gone
	}
	n, err := hudi.ParseBaseFileName(e.name)
	base = err == nil && r.at[string(n.Instant)]
	r.wrote = r.wrote || base
	return base, false
}

func (r *runs) marked(dir string) bool { return r.dirs[dir] }

// tendAutopsy says in which steps of services a process died: there may be several
// at once, or none. The command tells a rollback from a recovery.
func (b body) tendAutopsy(before body, command string) map[step]bool {
	had := map[hudi.Time]timeline.Instant{}
	for _, i := range before.instants {
		had[i.Time] = i
	}
	hit := map[step]bool{}
	for s := range b.beingPut(command) {
		hit[s] = true
	}
	for _, i := range b.instants {
		if was := had[i.Time]; was.State != i.State || was.Action != i.Action {
			if s := b.stepOf(i, was, command); s != "" {
				hit[s] = true
			}
		}
	}
	if s := b.archiving(before); s != "" {
		hit[s] = true
	}
	if command == "compact" {
		hit[commandPlan] = hit[plan]
		hit[commandRun] = hit[begun] || hit[runMarker] || hit[runBase] || hit[compacted] || hit[runDone]
	}
	return hit
}

// stepOf is the step of an instant that this process has begun or moved.
func (b body) stepOf(i, was timeline.Instant, command string) step {
	temp := b.has(".hoodie/.temp/"+string(i.Time)+"/", "")
	steps := [3]step{}
	switch i.Action {
	case commitmeta.ActionCompaction:
		switch {
		case was.Done():
			return rollbackRun
		case i.State == timeline.Inflight:
			return b.runStep(i.Time)
		case was.Time == "":
			return plan
		}
		return ""
	case commitmeta.ActionCommit:
		if i.Done() && (temp || b.has(".hoodie/.heartbeat/"+string(i.Time), "")) {
			return runDone
		}
		return ""
	case commitmeta.ActionDeltaCommit:
		if was.Done() && command == "rollback" && !slices.ContainsFunc(b.instants, func(i timeline.Instant) bool { return i.Action == commitmeta.ActionRollback && !i.Done() }) {
			return rollbackPlan
		}
		return ""
	case commitmeta.ActionClean:
		if i.State == timeline.Inflight && !b.anyPlanned(i.Time) {
			return cleaned
		}
		steps = [3]step{cleanPlan, cleanRun, ""}
	case commitmeta.ActionRestore:
		steps = [3]step{restorePlan, restoreRun, ""}
		if b.has(".hoodie/couch2hudi/restore/"+string(i.Time), "") {
			steps[2] = restored
		}
	case commitmeta.ActionRollback:
		if command == "rollback" {
			steps = [3]step{rollbackPlan, rollbackRun, rolledBack}
		}
	default:
	}
	return steps[map[timeline.State]int{timeline.Requested: 0, timeline.Inflight: 1, timeline.Completed: 2}[i.State]]
}

// runStep is where the run of a compaction ended.
func (b body) runStep(at hudi.Time) step {
	temp := ".hoodie/.temp/" + string(at) + "/"
	s, missing := begun, false
	for _, n := range b.names {
		name, ok := strings.CutPrefix(n, temp)
		switch {
		case !ok:
			continue
		case isTemp(filepath.Base(n)):
			return runMarker
		}
		s = runBase
		name, _, _ = strings.Cut(name, ".marker.")
		if !b.has(name, "") {
			missing = true
			if !b.hiddenIn(filepath.Dir(name)) {
				s = runMarker
			}
		}
	}
	if s == runBase && !missing && b.hiddenIn(".hoodie") {
		return compacted
	}
	return s
}

// anyPlanned says whether a file is there that a clean is to delete.
func (b body) anyPlanned(at hudi.Time) bool {
	data, err := os.ReadFile(filepath.Join(b.dir, ".hoodie", string(at)+".clean.requested"))
	if err != nil {
		return false
	}
	p, err := commitmeta.DecodeCleanPlan(data)
	if err != nil {
		return false
	}
	for partition, files := range p.Files {
		for _, f := range files {
			if b.has(filepath.Join(partition, filepath.Base(f.Path)), "") {
				return true
			}
		}
	}
	return false
}

// archiving is the step of an archival: its file is being written, or holds what is
// on the timeline still.
func (b body) archiving(before body) step {
	const folder = ".hoodie/archived/"
	if b.hiddenIn(filepath.Clean(folder)) {
		return archiveFile
	}
	for _, n := range b.names {
		if !strings.HasPrefix(n, folder) || slices.Contains(before.names, n) {
			continue
		}
		f, err := os.Open(filepath.Join(b.dir, n))
		if err != nil {
			continue
		}
		defer f.Close()
		fi, err := f.Stat()
		if err != nil {
			continue
		}
		for a, err := range timeline.ReadArchive(f, fi.Size()) {
			if err != nil {
				break
			}
			if name, err := timeline.FileName(hudi.Version6, a.Instant); err == nil && b.has(".hoodie/"+name, "") {
				return archiveGone
			}
		}
	}
	return ""
}

// beingPut are the steps of the files of the timeline that the dead was writing, by what
// they hold.
func (b body) beingPut(command string) map[step]bool {
	kinds := map[string]step{"HoodieCompactionPlan": plan, `"compacted":true`: compacted, "HoodieCleanerPlan": cleanPlan, "HoodieCleanMetadata": cleaned,
		"HoodieRestorePlan": restorePlan, "HoodieRestoreMetadata": restored}
	if command == "rollback" {
		kinds["HoodieRollbackPlan"], kinds["HoodieRollbackMetadata"] = rollbackPlan, rolledBack
	}
	hit := map[step]bool{}
	for _, n := range b.names {
		if filepath.Dir(n) != ".hoodie" || !isTemp(filepath.Base(n)) {
			continue
		}
		path := filepath.Join(b.dir, n)
		fi, err := os.Stat(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if st, ok := fi.Sys().(*syscall.Stat_t); !ok || st.Nlink > 1 {
			continue // it has its name
		}
		data, err := os.ReadFile(path)
		if err != nil {
			continue
		}
		for kind, s := range kinds {
			if strings.Contains(strings.ReplaceAll(string(data), " ", ""), kind) {
				hit[s] = true
			}
		}
	}
	return hit
}
