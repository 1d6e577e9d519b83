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
// its end. Here k is each 61st write of about 200, with E2E_FULL each 13th.
func TestCrashesInS3(t *testing.T) {
	for _, s := range s3Stores() {
		t.Run(s.name, func(t *testing.T) { crashesInS3(t, s) })
	}
}

func crashesInS3(t *testing.T, s objectStore) {
	const lost = "the lease is lost" // a machine may be too busy to renew it
	step, check := 61, 4
	if os.Getenv("E2E_FULL") != "" {
		step, check = 13, 2
	}
	store := newDeadly(t, s.start(t))
	w := newTableWriter(t, modelOptions{})
	query := s.query(store.address())
	query.Set("lease", "3s")
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
	// attempt is a run, and another one while it loses its lease.
	attempt := func(aim func(r *running)) *running {
		t.Helper()
		const patience = 20
		for n := 1; ; n++ {
			r := startRun(t, run...)
			aim(r)
			<-r.ended
			if store.disarm() || r.cmd.ProcessState.Success() {
				return r
			}
			if n == patience || !strings.Contains(r.said.String(), lost) {
				t.Fatalf("it ended by itself: %v\n%s", r.cmd.ProcessState, r.said.String())
			}
		}
	}
	settle := func() {
		t.Helper()
		more(5)
		attempt(func(*running) {})
		couch2hudi(t, "verify", "--config", config)
	}
	more(40)
	settle()
	crashes, ended := 0, 0
	for k := 1; ended < 2; k += step {
		for _, after := range []bool{false, true} {
			more(25)
			if attempt(func(r *running) { store.arm(r, k, after) }).cmd.ProcessState.Success() {
				ended++ // it makes fewer writes
			} else {
				crashes++
			}
		}
		if crashes%check == 0 {
			settle()
		}
	}
	settle()
	couch2hudi(t, "check", "--config", config)
	t.Logf("%d crashes, at each %d. write up to the last", crashes, step)
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
