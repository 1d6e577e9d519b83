package main

import (
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/couch2hudi/couch2hudi/catalog/catalogtest"
	"github.com/couch2hudi/couch2hudi/internal/couchfake"
)

// moody is a stand-in for Glue that is out of order until it is well.
type moody struct {
	catalogtest.GlueServer
	trouble func(w http.ResponseWriter, r *http.Request)
	well    atomic.Bool
}

func (m *moody) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !m.well.Load() {
		m.trouble(w, r)
		return
	}
	m.GlueServer.ServeHTTP(w, r)
}

// cut ends the connection without an answer, as a server does that is being started.
func cut(w http.ResponseWriter, _ *http.Request) {
	c, _, err := w.(http.Hijacker).Hijack()
	if err == nil {
		_ = c.Close()
	}
}

// refuse is what Glue says to those who may not ask.
func refuse(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/x-amz-json-1.1")
	w.WriteHeader(http.StatusBadRequest)
	_, _ = w.Write([]byte(`{"__type":"AccessDeniedException","Message":"not authorized to perform: glue:GetDatabase"}`))
}

// hang answers when free is closed, or nobody asks any more.
func hang(free <-chan struct{}) func(http.ResponseWriter, *http.Request) {
	return func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // or the end of the connection is not seen
		select {
		case <-free:
			cut(w, r)
		case <-r.Context().Done():
		}
	}
}

// silentMetastore takes connections and says nothing.
func silentMetastore(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				_, _ = io.Copy(io.Discard, c)
				_ = c.Close()
			}()
		}
	}()
	return l.Addr().String()
}

// Metastores that hang, are down or refuse hold no commit back, nor one that is well; each is
// shown with what is wrong, tried again, and told of everything when it is well. A run
// that is stopped waits for none.
func TestRunSyncsInTrouble(t *testing.T) {
	_, db, url := shop(t, couchfake.Options{}, 12)
	_, to := glueServer(t)
	free := make(chan struct{})
	sick := map[string]*moody{"hangs": {trouble: hang(free)}, "down": {trouble: cut}, "refuses": {trouble: refuse}}
	targets := []string{to("shop.well"), "hms://" + silentMetastore(t) + "/shop.silent"}
	for name, m := range sick {
		s := httptest.NewServer(m)
		t.Cleanup(s.Close)
		targets = append(targets, "glue:///shop."+name+"?endpoint="+s.URL)
	}
	dir := t.TempDir()
	file, table := filepath.Join(dir, "c.yaml"), filepath.Join(dir, "shop")
	config := "source: {url: '" + url + "'}\ntable: {url: '" + table + "'}\nstate_dir: 'off'\ncommit: {interval: 100ms}\n" +
		"catalog: {interval: 0s, targets: ['" + strings.Join(targets, "', '") + "']}\n"
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var said sharedText
	ended := make(chan int, 1)
	go func() {
		ended <- execute(ctx, streams{out: io.Discard, err: &said}, []string{"run", "-c", file, "--listen", "127.0.0.1:0"})
	}()
	address := awaited(t, "address", func() string {
		return strings.Join(regexp.MustCompile(`"url":"(http://[^"]+)"`).FindStringSubmatch(said.String()), " ")
	})
	_, address, _ = strings.Cut(address, " ")
	shows := func(path string, patterns ...string) {
		t.Helper()
		var last string
		defer func() {
			if t.Failed() {
				t.Log(last)
			}
		}()
		for _, p := range patterns {
			awaited(t, p, func() string {
				last = fetched(t, address+path)
				return regexp.MustCompile(p).FindString(last)
			})
		}
	}
	up := func(name, is string) string {
		return `couch2hudi_catalog_up\{table="shop",target="[^"]*/shop\.` + name + `"\} ` + is
	}
	shows("", "shop.well: knows", "shop.hangs: not told yet; has been asked for", "shop.silent: not told yet; has been asked for",
		"shop.down: not told yet; could not tell it, trying again", "shop.refuses: not told yet; could not tell it, trying again: .*not authorized to perform")
	shows("metrics", up("well", "1"), up("hangs", "0"), up("silent", "0"), up("down", "0"), up("refuses", "0"),
		`couch2hudi_catalog_sync_failures_total\{table="shop",target="[^"]*/shop\.refuses"\} [1-9]`)
	for _, id := range []string{"first", "second"} { // commits go on
		if _, err := db.Put(id, []byte(`{"n":1,"new_`+id+`":1}`)); err != nil {
			t.Fatal(err)
		}
		awaited(t, id, func() string {
			_, out, _ := call(t, "query", "--table", table, "--where", "_id = '"+id+"'")
			return regexp.MustCompile(id).FindString(out)
		})
	}
	for _, m := range sick {
		m.well.Store(true)
	}
	close(free)
	last := newest(t, table)
	shows("", "shop.well: knows "+last, "shop.hangs: knows "+last, "shop.down: knows "+last, "shop.refuses: knows "+last)
	shows("metrics", up("hangs", "1"), up("down", "1"), up("refuses", "1"), up("silent", "0"))
	stop()
	if code := <-ended; code != exitDone { // the silent one is still being asked
		t.Errorf("exit %d: %s", code, &said)
	}
	for _, name := range []string{"down", "refuses"} {
		if !regexp.MustCompile("could not sync a metastore, trying again.*shop." + name).MatchString(said.String()) {
			t.Errorf("nothing was said of %s: %s", name, &said)
		}
	}
}

func fetched(t *testing.T, address string) string {
	r, err := http.Get(address)
	if err != nil {
		return ""
	}
	defer func() { _ = r.Body.Close() }()
	body, err := io.ReadAll(r.Body)
	if err != nil {
		t.Error(err)
	}
	return string(body)
}

// newest is the table's last commit.
func newest(t *testing.T, table string) string {
	t.Helper()
	var last instantLine
	lines := jsonLines(want(t, exitDone, nil, "timeline", "--table", table, "--format", "jsonl"))
	if err := json.Unmarshal(lines[len(lines)-1], &last); err != nil {
		t.Fatal(err)
	}
	return last.Instant
}
