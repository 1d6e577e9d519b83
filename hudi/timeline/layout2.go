package timeline

import (
	"fmt"
	"strings"

	"github.com/couch2hudi/couch2hudi/commitmeta"
	"github.com/couch2hudi/couch2hudi/hudi"
)

// folder2 is where layout 2 has its files. Its history is a folder below.
const folder2 = ".hoodie/timeline/"

// fileName2 is FileName by layout 2: completed instants say when they completed.
// One without a Completion is named as before: an upgrade of a table may leave
// such files.
func fileName2(i Instant) (string, error) {
	bare := i
	bare.Completion = ""
	clustering := i.Action == commitmeta.ActionClustering
	if clustering {
		if i.State == Completed {
			return "", fmt.Errorf("%w: %q of action %q in state %s", ErrName, i.Time, i.Action, i.State)
		}
		bare.Action = commitmeta.ActionReplaceCommit
	}
	name, err := fileName1(bare)
	if err != nil {
		return "", err
	}
	if clustering {
		name = strings.Replace(name, string(bare.Action), string(i.Action), 1)
	}
	if i.Completion == "" || i.State != Completed {
		return name, nil
	}
	return string(i.Time) + "_" + string(i.Completion) + strings.TrimPrefix(name, string(i.Time)), nil
}

// parseFileName2 is ParseFileName by layout 2.
func parseFileName2(name string) (Instant, bool) {
	at, rest, ok := strings.Cut(name, ".")
	begun, completed, done := strings.Cut(at, "_")
	if !ok {
		return Instant{}, false
	}
	var i Instant
	if word, state, ok := strings.Cut(rest, "."); ok && word == string(commitmeta.ActionClustering) {
		i, ok = parseFileName1(begun + "." + string(commitmeta.ActionReplaceCommit) + "." + state)
		if i.Action = commitmeta.ActionClustering; !ok {
			return Instant{}, false
		}
	} else if i, ok = parseFileName1(begun + "." + rest); !ok {
		return Instant{}, false
	}
	if done {
		t, err := hudi.ParseTime(completed)
		if i.Completion = t; err != nil {
			return Instant{}, false
		}
	}
	if back, err := fileName2(i); err != nil || back != name {
		return Instant{}, false
	}
	return i, true
}
