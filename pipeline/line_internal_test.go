package pipeline

import (
	"strings"
	"testing"

	"github.com/couch2hudi/couch2hudi/changes"
)

// at is a table that stands at a step of a line that began at from.
func at(name string, step int64, from, position changes.Position) standing {
	return standing{known: true, line: line{Name: name, Step: step, From: from, At: position}}
}

func TestStart(t *testing.T) {
	alone := standing{known: true, line: line{At: "p"}}
	unknown := standing{line: line{At: "since"}}
	for name, c := range map[string]struct {
		all  []standing
		want changes.Position
		// place is the table that stands there; fresh says that another line begins, whole
		// that the routes are others.
		place        int
		fresh, whole bool
	}{
		"new":                   {[]standing{unknown, unknown}, "since", -1, true, false},
		"together":              {[]standing{at("r-1", 7, "", "p"), at("r-1", 7, "", "p")}, "p", 0, false, false},
		"one is behind":         {[]standing{at("r-1", 9, "", "q"), at("r-1", 7, "", "p"), at("r-1", 8, "", "o")}, "p", 1, false, false},
		"quiet, same place":     {[]standing{at("r-1", 9, "", "p"), at("r-1", 7, "", "p")}, "p", 0, false, false},
		"led together, died":    {[]standing{at("r-2", 0, "", "p"), at("r-1", 7, "", "p"), at("r-1", 9, "", "q")}, "p", 1, false, false},
		"two lines":             {[]standing{at("r-2", 3, "x", "p"), at("r-1", 7, "x", "q")}, "x", -1, true, false},
		"two lines, two begins": {[]standing{at("r-2", 3, "x", "p"), at("r-1", 7, "y", "q")}, "", -1, true, false},
		"one never committed":   {[]standing{at("r-1", 3, "x", "p"), unknown}, "x", -1, true, false},
		"other routes":          {[]standing{at("q-1", 3, "x", "p"), at("q-1", 3, "x", "p")}, "", -1, true, true},
		"one of other routes":   {[]standing{at("r-1", 0, "", ""), at("q-1", 3, "x", "p")}, "", -1, true, true},
		"written alone":         {[]standing{alone, at("r-1", 3, "x", "p")}, "", -1, true, true},
	} {
		got, place := start("r", c.all, "since")
		fresh := true
		for _, s := range c.all {
			fresh = fresh && s.Name != got.Name
		}
		if got.At != c.want || place != c.place || fresh != c.fresh || got.Whole != c.whole || !strings.HasPrefix(got.Name, "r-") {
			t.Errorf("%s: %+v at %d", name, got, place)
		}
		if fresh && (got.Step != 0 || got.From != got.At) {
			t.Errorf("%s: a line that begins at %+v", name, got.line)
		}
	}
	whole := at("r-1", 3, "", "p")
	whole.Whole = true
	if got, place := start("r", []standing{at("r-1", 2, "", "o"), whole}, ""); !got.Whole || place != 0 {
		t.Errorf("what was not read to its end is forgotten: %+v", got)
	}
}
