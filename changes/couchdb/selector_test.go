package couchdb_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/couch2hudi/couch2hudi/changes"
)

// A selector goes with both feeds, and purges are not looked for.
func TestSelector(t *testing.T) {
	asked := make(chan string, 10)
	tell := func(answer http.HandlerFunc) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			body, err := io.ReadAll(r.Body)
			if err != nil {
				t.Error(err)
			}
			asked <- r.Method + " " + r.URL.Query().Get("feed") + " " + r.URL.Query().Get("filter") + " " + strings.TrimSpace(string(body))
			answer(w, r)
		}
	}
	s := newServer(t, tell(normal("2-b", 0, row("2-b", "a", "1-a"))), tell(normal("2-b", 0)), tell(normal("2-b", 0)), tell(stay(row("3-c", "c", "1-c"))))
	o := options(s)
	o.Selector = `{"type":"order"}`
	src := open(t, o)
	if b := next(t, src, "", changes.Limit{}); ids(b) != "a" {
		t.Error(ids(b))
	}
	if b := next(t, src, "2-b", untilRows); ids(b) != "c" {
		t.Error(ids(b))
	}
	for _, feed := range []string{"normal", "normal", "normal", "continuous"} {
		if got, want := <-asked, "POST "+feed+` _selector {"selector":{"type":"order"}}`; got != want {
			t.Errorf("asked %q, want %q", got, want)
		}
	}
	purged, seq, err := src.Purged(t.Context(), "7")
	if err != nil || len(purged) > 0 || seq != "7" {
		t.Errorf("%v, %q, %v", purged, seq, err)
	}
}
