package normalize

import (
	"fmt"
	"slices"
	"unicode/utf8"

	"github.com/couch2hudi/couch2hudi/changes"
	"github.com/couch2hudi/couch2hudi/hudi"
)

// verdict is what becomes of a change in its batch.
type verdict uint8

const (
	// loser: a newer state of the document is in the batch.
	loser verdict = iota
	winner
	// broken: it is among the rejects.
	broken
)

// election picks the newest state of each document in a batch.
type election struct {
	documents map[string]candidates
	state     []verdict
	order     []int64
	// before is the change of the same document that arrived before, or -1.
	before []int
	// era says that a purge came before, or is the change itself: what was there
	// before it is older, whatever its sum.
	era []bool
}

// candidates are the changes of one document.
type candidates struct{ newest, last int }

func (e *election) begin(n int) {
	if e.documents == nil {
		e.documents = make(map[string]candidates, n)
	}
	e.state = slices.Grow(e.state[:0], n)[:n]
	e.order = slices.Grow(e.order[:0], n)[:n]
	e.before = slices.Grow(e.before[:0], n)[:n]
	e.era = slices.Grow(e.era[:0], n)[:n]
}

func (e *election) forget() { clear(e.documents) }

// offer enters change i; of equal orders the later arrival wins. What arrived
// before a purge does not count any more.
func (e *election) offer(i int, id string, order int64, purged bool) {
	e.order[i], e.state[i], e.before[i], e.era[i] = order, winner, -1, purged
	c, ok := e.documents[id]
	if ok && !purged {
		e.era[i] = e.era[c.last]
	}
	switch {
	case !ok:
		c.newest = i
	case purged:
		e.state[c.newest] = loser // and out of reach of next
		c.newest = i
	case e.order[c.newest] > order:
		e.state[i], e.before[i] = loser, c.last
	default:
		e.state[c.newest], e.before[i] = loser, c.last
		c.newest = i
	}
	c.last = i
	e.documents[id] = c
}

// next is the newest of the losers for a document whose winner turned out
// broken, or -1.
func (e *election) next(id string) int {
	best := -1
	for j := e.documents[id].last; j >= 0; j = e.before[j] {
		if e.state[j] == loser && (best < 0 || e.order[j] > e.order[best]) {
			best = j
		}
	}
	return best
}

// pick rejects changes whose envelope is broken and elects the winners.
func (n *Normalizer) pick(cs []changes.Change) error {
	n.elect.begin(len(cs))
	for i := range cs {
		c := &cs[i]
		reason := n.envelope(c)
		if reason != "" {
			n.elect.state[i] = broken
			n.reject(cs, i, reason)
			continue
		}
		if n.o.Ordering == LeafSum && len(c.Leaves) == 0 && !c.Absent {
			return fmt.Errorf("%w: document %q", ErrLeaves, clip(c.ID))
		}
		order := n.order(c)
		if order >= 1<<hudi.EraShift {
			n.elect.state[i] = broken
			n.reject(cs, i, fmt.Sprintf("the generations of its leaves add up to %d, which is no revision tree", order))
			continue
		}
		n.elect.offer(i, n.recordKey(c), order, c.Purged)
	}
	return nil
}

func (n *Normalizer) order(c *changes.Change) int64 {
	if n.o.Ordering == Generation {
		return c.Rev.Generation
	}
	var sum int64
	for i := range c.Leaves {
		// Two such summands cannot overflow, and one step more is too large already.
		sum = min(sum, 1<<hudi.EraShift) + min(max(c.Leaves[i].Generation, 0), 1<<hudi.EraShift)
	}
	return sum
}

// envelope says what is wrong with a change before its body is read; empty
// when nothing is.
func (n *Normalizer) envelope(c *changes.Change) string {
	const maxBody = 1<<31 - 1
	switch {
	case c.Defect != "":
		return c.Defect
	case c.ID == "":
		return "no _id"
	case !utf8.ValidString(c.ID):
		return "its _id is not UTF-8"
	case n.o.Databases && c.Database == "":
		return "it does not say of which database it is"
	case c.Absent && !c.Deleted:
		return "absent and not deleted"
	case c.Absent:
		return ""
	case c.Rev.Generation < 1 || c.Rev.Hash == "":
		return "no revision"
	case !c.Deleted && noBody(c.Body):
		return "a live row without a body"
	case len(c.Body) > maxBody:
		return fmt.Sprintf("a body of %d bytes", len(c.Body))
	}
	for i := range c.Leaves {
		// The winner is the first of them, and is looked at below.
		if h := c.Leaves[i].Hash; h != c.Rev.Hash && !utf8.ValidString(h) {
			return "a leaf revision is not UTF-8"
		}
	}
	if !utf8.ValidString(c.Rev.Hash) || !utf8.ValidString(c.Seq) {
		return "its revision or sequence is not UTF-8"
	}
	return ""
}

// noBody says whether the source gave no document: nothing, or a JSON null.
func noBody(b []byte) bool { return len(b) == 0 || string(b) == "null" }

// clip keeps a message short whatever the _id.
func clip(s string) string {
	const most = 60
	if len(s) > most {
		return s[:most] + "…"
	}
	return s
}
