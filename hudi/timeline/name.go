package timeline

import (
	"errors"
	"fmt"
	"strings"

	"github.com/couch2hudi/couch2hudi/commitmeta"
	"github.com/couch2hudi/couch2hudi/hudi"
)

// ErrName marks an instant that the layout has no file name for.
var ErrName = errors.New("no file name for the instant")

// ErrVersion marks a table version whose timeline layout is not known.
var ErrVersion = errors.New("unknown timeline layout")

// Folder is where the timeline of a table version lives, with a "/" at its end.
func Folder(v hudi.Version) (string, error) {
	switch {
	case v == hudi.Version6:
		return ".hoodie/", nil
	case v.Completes():
		return folder2, nil
	}
	return "", fmt.Errorf("%w: table version %s", ErrVersion, v)
}

const (
	suffixRequested = ".requested"
	suffixInflight  = ".inflight"
	// bareInflight is the inflight commit's: its name has no action.
	bareInflight = "inflight"
)

// FileName is the name, inside Folder, of the file that puts an instant into
// its state. A completed compaction is a commit, a completed log compaction a
// deltacommit, a completed clustering a replacecommit: name them so.
func FileName(v hudi.Version, i Instant) (string, error) {
	switch {
	case v == hudi.Version6:
		return fileName1(i)
	case v.Completes():
		return fileName2(i)
	}
	return "", fmt.Errorf("%w: table version %s", ErrVersion, v)
}

// fileName1 is FileName by layout 1, where clusterings are replacecommits from
// the beginning.
func fileName1(i Instant) (string, error) {
	if !known(i.Action) || i.Time == "" {
		return "", fmt.Errorf("%w: %q of action %q", ErrName, i.Time, i.Action)
	}
	action := string(i.Time) + "." + string(i.Action)
	switch i.State {
	case Requested:
		if i.Action == commitmeta.ActionSavepoint {
			break
		}
		return action + suffixRequested, nil
	case Inflight:
		if i.Action == commitmeta.ActionCommit {
			return string(i.Time) + suffixInflight, nil
		}
		return action + suffixInflight, nil
	case Completed:
		if i.Action == commitmeta.ActionCompaction || i.Action == commitmeta.ActionLogCompaction {
			break
		}
		return action, nil
	}
	return "", fmt.Errorf("%w: %q of action %q in state %s", ErrName, i.Time, i.Action, i.State)
}

// ParseFileName reads a name in Folder; false for the other files that live there
// (properties, folders, names of other layouts) and for versions without a Folder.
func ParseFileName(v hudi.Version, name string) (Instant, bool) {
	switch {
	case v == hudi.Version6:
		return parseFileName1(name)
	case v.Completes():
		return parseFileName2(name)
	}
	return Instant{}, false
}

// parseFileName1 is ParseFileName by layout 1.
func parseFileName1(name string) (Instant, bool) {
	at, rest, ok := strings.Cut(name, ".")
	t, err := hudi.ParseTime(at)
	if !ok || err != nil {
		return Instant{}, false
	}
	if rest == bareInflight {
		return Instant{Time: t, Action: commitmeta.ActionCommit, State: Inflight}, true
	}
	i := Instant{Time: t, State: Completed}
	word := rest
	if w, ok := strings.CutSuffix(rest, suffixRequested); ok {
		word, i.State = w, Requested
	} else if w, ok := strings.CutSuffix(rest, suffixInflight); ok {
		word, i.State = w, Inflight
	}
	i.Action = commitmeta.Action(word)
	// What has no name is no instant: "<t>.commit.inflight" is nobody's.
	if back, err := fileName1(i); err != nil || back != name {
		return Instant{}, false
	}
	return i, true
}

func known(a commitmeta.Action) bool {
	switch a {
	case commitmeta.ActionCommit, commitmeta.ActionDeltaCommit, commitmeta.ActionCompaction,
		commitmeta.ActionLogCompaction, commitmeta.ActionReplaceCommit, commitmeta.ActionClean,
		commitmeta.ActionRollback, commitmeta.ActionRestore, commitmeta.ActionSavepoint, commitmeta.ActionIndexing:
		return true
	case commitmeta.ActionClustering: // layout 2 alone has it
	}
	return false
}
