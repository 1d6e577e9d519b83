package main

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/couch2hudi/couch2hudi/internal/couchfake"
)

// shared text that one goroutine writes and another reads.
type sharedText struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *sharedText) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *sharedText) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

// awaited asks until there is an answer, for a bounded time.
func awaited(t *testing.T, what string, ask func() string) string {
	t.Helper()
	for end := time.Now().Add(2 * time.Minute); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if text := ask(); text != "" {
			return text
		}
	}
	t.Fatal("no " + what)
	return ""
}

// A run that follows shows what it does, and is no longer there when it has ended.
func TestRunListens(t *testing.T) {
	_, _, url := shop(t, couchfake.Options{}, 12)
	ctx, stop := context.WithCancel(t.Context())
	var said sharedText
	ended := make(chan int, 1)
	go func() {
		ended <- execute(ctx, streams{out: io.Discard, err: &said}, []string{"run", "--source", url, "--table", filepath.Join(t.TempDir(), "shop"), "--commit-interval", "1s",
			"--state-dir", "off", "--listen", "127.0.0.1:0"})
	}()
	page := awaited(t, "address", func() string {
		m := regexp.MustCompile(`"url":"(http://[^"]+)"`).FindStringSubmatch(said.String())
		if m == nil {
			return ""
		}
		return m[1]
	})
	fetch := func(path string) string {
		r, err := http.Get(page + path)
		if err != nil {
			return ""
		}
		defer func() { _ = r.Body.Close() }()
		body, _ := io.ReadAll(r.Body)
		return string(body)
	}
	awaited(t, "commit", func() string {
		if text := fetch("metrics"); strings.Contains(text, `couch2hudi_rows_total{kind="inserts",table="shop"} 12`) {
			return text
		}
		return ""
	})
	if text := fetch(""); !strings.Contains(text, "shop") || strings.Contains(text, "none yet") {
		t.Errorf("%s", text)
	}
	if text := fetch("readyz"); text != "ready\n" {
		t.Errorf("%q", text)
	}
	stop()
	if code := <-ended; code != exitDone {
		t.Errorf("exit %d: %s", code, &said)
	}
	if text := fetch("healthz"); text != "" {
		t.Errorf("it is still there: %s", text)
	}
	want(t, exitUsage, []string{"listen"}, "run", "--once", "--source", url, "--table", filepath.Join(t.TempDir(), "other"), "--listen", "nowhere")
}
