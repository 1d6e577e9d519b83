//go:build oracle

package e2e

import (
	"bufio"
	"fmt"
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
	url     string // hdfs://host:port
	folder  string // where its files lie on this machine
	orders  io.WriteCloser
	answers *bufio.Scanner
}

// startHDFS starts one, which is stopped before its folder goes; how is what MiniDfs
// takes.
func startHDFS(t *testing.T, how ...string) *dfs {
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
	d := &dfs{folder: filepath.Join(t.TempDir(), "dfs")}
	cmd := exec.Command(java, append([]string{"--add-opens=java.base/java.lang=ALL-UNNAMED", "-Xmx384m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1",
		"-Dorg.slf4j.simpleLogger.defaultLogLevel=error", "-cp", lib + ":" + lib + "/*", "MiniDfs", d.folder}, how...)...)
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
			for line := range strings.Lines(string(said)) {
				if !strings.Contains(line, " INFO ") { // a line for each call
					t.Logf("HDFS said: %s", strings.TrimSpace(line))
				}
			}
		}
		_ = log.Close()
	})
	d.orders, d.answers = orders, bufio.NewScanner(out)
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
	s, err := hdfs.New(folder, hdfs.Dial(hdfs.Address{Namenodes: d.nodes()}), &hdfs.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// nodes are host:port of its name nodes.
func (d *dfs) nodes() []string { return strings.Split(strings.TrimPrefix(d.url, "hdfs://"), ",") }

// hadoopConf has us read such settings as Hadoop's configuration.
func hadoopConf(t *testing.T, settings map[string]string) {
	t.Helper()
	var text strings.Builder
	for name, value := range settings {
		fmt.Fprintf(&text, "<property><name>%s</name><value>%s</value></property>", name, value)
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "hdfs-site.xml"), []byte("<configuration>"+text.String()+"</configuration>"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("HADOOP_CONF_DIR", dir)
}
