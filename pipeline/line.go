package pipeline

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/couch2hudi/couch2hudi/changes"
	"github.com/couch2hudi/couch2hudi/commitmeta"
)

// Positions cannot be compared. So that it can be told which of several tables of
// one source is behind, their commits number the batches: of two tables on one
// line the one with the lower step is, and equal texts are one position. All tables
// begin each run at one step of a line. Another line begins when that cannot be,
// and when it is decided anew which documents are for which table.
type line struct {
	// Name is the line's: the routes that it goes by, and something of its own.
	Name string `json:"name"`
	// Step counts the batches since the line began.
	Step int64 `json:"step"`
	// From is where it began.
	From changes.Position `json:"from,omitempty"`
	// At is the position after so many steps: what the checkpoint says. When that
	// says something else the table was written without its companions since.
	At changes.Position `json:"at"`
	// Whole says that documents may be in tables of earlier routes, until the feed
	// was read to its end once.
	Whole bool `json:"whole,omitempty"`
}

// standing is where one table was when the run began.
type standing struct {
	line
	// seq is the database's sequence there, of sources with another position.
	seq string
	// known says that the table has a position at all.
	known bool
}

// standing finds where the table stands. A line that it does not know is the zero
// one.
func (p *Ingest) standing(ctx context.Context) (standing, error) {
	s := standing{line: line{At: p.position}, seq: p.seq}
	if _, s.known = p.checkpoint.Sources[p.name]; !s.known {
		return s, nil
	}
	v, err := p.o.Table.Current(ctx)
	if err != nil {
		return s, fmt.Errorf("view table: %w", err)
	}
	text, at, found, err := v.Extra(ctx, commitmeta.ExtraLine)
	if err != nil || !found {
		return s, err
	}
	var l line
	if err := json.Unmarshal([]byte(text), &l); err != nil {
		return s, fmt.Errorf("%s of commit %s: %w", commitmeta.ExtraLine, at.Time, err)
	}
	if l.At == p.position {
		s.line = l
	}
	return s, nil
}

// encode is the line as it stands in a commit.
func (l line) encode() string {
	b, err := json.Marshal(l)
	if err != nil { // texts and a number always marshal
		panic(err)
	}
	return string(b)
}

// behind is the place of the table that is behind all others or beside them; -1
// when that cannot be told.
func behind(all []standing) int {
	for i := range all {
		if all[i].known && notAhead(&all[i], all) {
			return i
		}
	}
	return -1
}

func notAhead(s *standing, all []standing) bool {
	for j := range all {
		o := &all[j]
		switch {
		case !o.known:
			return false
		case o.At == s.At:
		case s.Name == "" || o.Name != s.Name || o.Step < s.Step:
			return false
		}
	}
	return true
}

// start is where all tables begin, and which of them stood there; -1 for none.
// routes is what their routes are: how names of their lines begin.
func start(routes string, all []standing, since changes.Position) (standing, int) {
	at := standing{line: line{Name: routes + "-" + rand.Text()[:8], From: since, At: since}}
	old := slices.DeleteFunc(slices.Clone(all), func(s standing) bool { return !s.known })
	if len(old) == 0 {
		return at, -1
	}
	at.From, at.Whole = old[0].From, false
	for i := range old {
		if !strings.HasPrefix(old[i].Name, routes+"-") {
			at.From, at.Whole, at.At = "", true, ""
			return at, -1
		}
		if old[i].From != at.From {
			at.From = ""
		}
		at.Whole = at.Whole || old[i].Whole
	}
	if i := behind(all); i >= 0 {
		s := all[i]
		s.Whole = at.Whole
		return s, i
	}
	// A table that never committed may have missed any row of the line.
	at.At = at.From
	return at, -1
}

// align lets the table begin at a place, and says so in a commit when its last one
// says something else. A table without a position has nothing to take back.
func (p *Ingest) align(ctx context.Context, have, at standing) error {
	l := at.line
	p.line = &l
	p.position, p.seq = at.At, at.seq
	if !have.known {
		return nil
	}
	if p.stood = at.line; have.line == at.line {
		return nil
	}
	p.moved = true
	if err := p.applyStates(ctx, nil); err != nil {
		return fmt.Errorf("go back to where all tables begin: %w", err)
	}
	return nil
}
