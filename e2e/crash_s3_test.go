//go:build oracle

package e2e

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
)

// TestCrashesInS3: the writer of a table in S3 dies at its k-th write, before the store
// hears of it or before the writer hears of the store's answer, for one k after
// another. The next one mends what that left, and dies in turn; compactions, cleans and
// archivals are among the writes. The table equals the database whenever one comes to
// its end. Here k is each 61st write of about 200, with E2E_FULL each third.
func TestCrashesInS3(t *testing.T) {
	const lost = "the lease is lost" // a machine may be too busy to renew it
	step, check := 61, 4
	if os.Getenv("E2E_FULL") != "" {
		step, check = 3, 2
	}
	s := objectStores()[0]
	store := newDeadly(t, s.start(t))
	w := newTableWriter(t, modelOptions{})
	query := s.query(store.address())
	query.Set("lease", "5s")
	w.table = "s3://lake/crashes?" + query.Encode()
	config := filepath.Join(t.TempDir(), "couch2hudi.yaml")
	text := fmt.Sprintf("source: {url: %q}\ntable: {url: %q, partition: {field: place}}\nretain: 1s\ntimeline: {keep_min: 20, keep_max: 21}\n"+
		"commit: {interval: 100ms, max_rows: 10}\ncompaction: {max_delta_commits: 2, max_age: 1s}\n", w.source, w.table)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	more := func(n int) {
		if err := w.data.next(n); err != nil {
			t.Fatal(err)
		}
	}
	run := []string{"run", "--once", "--wait", "--listen", "off", "--config", config}
	settle := func() {
		t.Helper()
		more(5)
		const patience = 5
		code, said := howItEnded(t, run...)
		for n := 1; n < patience && code == 5 && strings.Contains(said, lost); n++ {
			code, said = howItEnded(t, run...)
		}
		if code != 0 {
			t.Fatalf("exit %d\n%s", code, said)
		}
		couch2hudi(t, "verify", "--config", config)
	}
	more(40)
	settle()
	crashes, ended := 0, 0
	for k := 1; ended < 2; k += step {
		for _, after := range []bool{false, true} {
			more(25)
			r := startRun(t, run...)
			store.arm(r, k, after)
			<-r.ended
			switch died := store.disarm(); {
			case died:
				crashes++
			case r.cmd.ProcessState.Success():
				ended++ // it makes fewer writes
			case !strings.Contains(r.said.String(), lost):
				t.Fatalf("at write %d it ended by itself: %v\n%s", k, r.cmd.ProcessState, r.said.String())
			}
		}
		if crashes%check == 0 {
			settle()
		}
	}
	settle()
	couch2hudi(t, "check", "--config", config)
	t.Logf("%d crashes, at every %d. write up to the last", crashes, step)
	if crashes < 6 {
		t.Errorf("only %d crashes", crashes)
	}
}

// deadly is a proxy that kills who writes, at a write that it is told.
type deadly struct {
	server *httptest.Server
	proxy  http.Handler

	mu    sync.Mutex
	prey  *running
	left  int
	after bool
	died  bool
}

func newDeadly(t *testing.T, address string) *deadly {
	d := &deadly{proxy: httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: address})}
	d.server = httptest.NewServer(d)
	t.Cleanup(d.server.Close)
	return d
}

func (d *deadly) address() string { return d.server.Listener.Addr().String() }

// arm has r die at its k-th write from now on; after says that the store has it then.
func (d *deadly) arm(r *running, k int, after bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.prey, d.left, d.after, d.died = r, k, after, false
}

// disarm says whether it did.
func (d *deadly) disarm() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.prey = nil
	return d.died
}

func (d *deadly) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	d.mu.Lock()
	prey, after := d.prey, d.after
	if prey != nil && r.Method != http.MethodGet && r.Method != http.MethodHead {
		d.left--
	}
	if prey == nil || d.left > 0 {
		d.mu.Unlock()
		d.proxy.ServeHTTP(w, r)
		return
	}
	first := !d.died
	d.died = true
	d.mu.Unlock()
	if first && after {
		d.proxy.ServeHTTP(httptest.NewRecorder(), r)
	}
	if first {
		prey.end(syscall.SIGKILL)
	}
	panic(http.ErrAbortHandler) // nobody hears of it
}
