package table

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"github.com/couch2hudi/couch2hudi/hudi"
)

// randomFiles are files of two groups with slices of a few instants: base files that
// may be of failed writes, log files, and log files of changes.
func randomFiles(r *rand.Rand, instants int) []hudi.File {
	var list []hudi.File
	for _, id := range []hudi.FileID{"a-0", "b-0"} {
		for at := range instants {
			time := hudi.Time(fmt.Sprintf("202601010000%02d000", at))
			if r.IntN(3) > 0 {
				list = append(list, hudi.File{Name: hudi.BaseFileName{File: id, Token: "0-0-0", Instant: time}.String()})
			}
			for version := range r.IntN(4) {
				list = append(list, hudi.File{Name: hudi.LogFileName{File: id, Instant: time, Version: 1 + version, Token: "0-0-0", CDC: r.IntN(4) == 0}.String()})
			}
		}
	}
	return list
}

// The latest slices are made of few files, and are those that all files make, whatever
// was committed and whatever compaction is pending.
func TestLatestFiles(t *testing.T) {
	spared := 0
	for seed := range uint64(2000) {
		r := rand.New(rand.NewPCG(seed, 1))
		instants := 1 + r.IntN(8)
		all := randomFiles(r, instants)
		committed, compacting := map[hudi.Time]bool{}, map[hudi.FileID]hudi.Time{}
		for at := range instants {
			time := hudi.Time(fmt.Sprintf("202601010000%02d000", at))
			switch r.IntN(5) {
			case 0:
			case 1:
				compacting[[]hudi.FileID{"a-0", "b-0"}[r.IntN(2)]] = time
			default:
				committed[time] = true
			}
		}
		rules := sliceRules{committed: func(at hudi.Time) bool { return committed[at] },
			compacting: func(l hudi.Location) hudi.Time { return compacting[l.File] },
			replaced:   func(hudi.Location) bool { return false }}
		f := newFiles(nil)
		kept := r.IntN(1 + len(all))
		f.parts["p"] = newPartFiles(slices.Clone(all[:kept])) // the others come later, and some go
		var changes []change
		for _, file := range all[kept:] {
			changes = append(changes, change{partition: "p", file: file})
		}
		gone := r.IntN(1 + kept/2)
		for _, file := range all[:gone] {
			changes = append(changes, change{partition: "p", file: file, removed: true})
		}
		f = f.with(changes)
		all = all[gone:]
		files, ok := f.latest("p", map[hudi.FileID]bool{"a-0": true, "b-0": true}, rules)
		if !ok {
			t.Fatal("not listed")
		}
		if got, want := slices6("p", files, rules), slices6("p", all, rules); !reflect.DeepEqual(got, want) {
			t.Fatalf("seed %d:\n%+v, want\n%+v", seed, got, want)
		}
		if got := f.parts["p"].all(); !slices.Equal(got, sorted(slices.Clone(all))) {
			t.Fatalf("seed %d: %+v, want %+v", seed, got, all)
		}
		for _, file := range all {
			id, _, _ := sliceOf(file.Name)
			if got, ok := f.parts["p"].groups[id].file(file.Name); !ok || got != file {
				t.Fatalf("seed %d: %s is not there", seed, file.Name)
			}
		}
		spared += len(all) - len(files)
	}
	if spared == 0 {
		t.Error("all files were looked at, always")
	}
}
