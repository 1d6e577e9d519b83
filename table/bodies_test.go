package table

import (
	"fmt"
	"testing"

	"github.com/couch2hudi/couch2hudi/commitmeta"
)

// The cache holds no more than its limit, drops what was used longest ago, and
// takes nothing that is larger than itself.
func TestBodyCache(t *testing.T) {
	c := newBodyCache(10)
	body := func(i int) commitmeta.Body { return commitmeta.Body{Operation: fmt.Sprintf("op %d", i)} }
	put := func(i int, bytes int64) { c.put(body(i).Operation, body(i), bytes) }
	held := func(i int) bool {
		b, ok := c.get(body(i).Operation)
		if ok && b.Operation != body(i).Operation {
			t.Errorf("%d: %+v", i, b)
		}
		return ok
	}
	put(1, 4)
	put(2, 4)
	put(2, 4) // again
	if !held(1) || !held(2) || c.held != 8 {
		t.Errorf("two of 4 bytes, %d held", c.held)
	}
	held(1)
	put(3, 4)
	if !held(1) || held(2) || !held(3) || c.held != 8 {
		t.Errorf("the one used longest ago stays, %d held", c.held)
	}
	put(4, 11)
	if held(4) || !held(1) {
		t.Error("one larger than the cache was kept")
	}
	put(5, 10)
	if !held(5) || held(1) || held(3) || c.held != 10 || c.order.Len() != 1 || len(c.byName) != 1 {
		t.Errorf("%d held", c.held)
	}
}
