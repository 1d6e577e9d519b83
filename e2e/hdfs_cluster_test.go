//go:build oracle

package e2e

import (
	"bufio"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/couch2hudi/couch2hudi/storage/hdfs"
)

// dfs is HDFS with one data node on this machine.
type dfs struct {
	url     string // hdfs://127.0.0.1:port
	orders  io.WriteCloser
	answers *bufio.Scanner
}

// startHDFS starts one, which is stopped before its folder goes.
func startHDFS(t *testing.T) *dfs {
	t.Helper()
	home := os.Getenv("ORACLE_DIR")
	if home == "" {
		home = "../.cache/oracle"
	}
	lib := filepath.Join(home, "hdfs", "lib")
	if _, err := os.Stat(filepath.Join(home, "hdfs", ".installed")); err != nil {
		t.Fatalf("no HDFS: %v\ninstall it with: make oracle", err)
	}
	java := "java"
	if home := os.Getenv("JAVA_HOME"); home != "" {
		java = filepath.Join(home, "bin", "java")
	}
	log, err := os.Create(filepath.Join(t.TempDir(), "log"))
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(java, "--add-opens=java.base/java.lang=ALL-UNNAMED", "-Xmx384m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1",
		"-Dorg.slf4j.simpleLogger.defaultLogLevel=error", "-cp", lib+":"+lib+"/*", "MiniDfs", filepath.Join(t.TempDir(), "dfs"))
	cmd.Stderr = log
	orders, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = orders.Close()
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if t.Failed() {
			said, _ := os.ReadFile(log.Name())
			t.Logf("HDFS said:\n%s", said)
		}
		_ = log.Close()
	})
	d := &dfs{orders: orders, answers: bufio.NewScanner(out)}
	for d.answers.Scan() {
		if d.url = d.answers.Text(); strings.HasPrefix(d.url, "hdfs://") {
			return d
		}
	}
	t.Fatalf("HDFS ended: %v", d.answers.Err())
	return nil
}

// order has the cluster do something, and waits until it is done.
func (d *dfs) order(t *testing.T, what string) {
	t.Helper()
	if _, err := io.WriteString(d.orders, what+"\n"); err != nil {
		t.Fatal(err)
	}
	if !d.answers.Scan() || d.answers.Text() != "ok" {
		t.Fatalf("%s: %q, %v", what, d.answers.Text(), d.answers.Err())
	}
}

// open is the store in a folder.
func (d *dfs) open(t *testing.T, folder string) *hdfs.Driver {
	t.Helper()
	s, err := hdfs.New(folder, hdfs.Dial(hdfs.Address{Namenodes: []string{strings.TrimPrefix(d.url, "hdfs://")}}), &hdfs.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return s
}
