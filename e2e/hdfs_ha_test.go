//go:build oracle

package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestHDFSFailover: a writer goes on, as the same process, while the two name nodes of
// its table take turns, by order and by the death of the active one; in the end the
// table equals the database. It and its readers know the name nodes by the name of
// their service.
func TestHDFSFailover(t *testing.T) {
	d := startHDFS(t, "ha")
	hadoopConf(t, map[string]string{
		"fs.defaultFS": "hdfs://lake", "dfs.nameservices": "other,lake", "dfs.ha.namenodes.lake": "nn1, nn2",
		"dfs.namenode.rpc-address.lake.nn1": d.nodes()[0], "dfs.namenode.rpc-address.lake.nn2": d.nodes()[1],
		"dfs.ha.namenodes.other": "nn1", "dfs.namenode.rpc-address.other.nn1": "127.0.0.1:1", // another cluster, which is down
	})
	w := newTableWriter(t, modelOptions{})
	w.table = "hdfs://lake/tables/failover"
	config := filepath.Join(t.TempDir(), "couch2hudi.yaml")
	text := fmt.Sprintf("source: {url: %q}\ntable: {url: %q, partition: {field: place}}\nretain: 1s\ntimeline: {keep_min: 20, keep_max: 21}\n"+
		"commit: {interval: 100ms, max_rows: 20}\ncompaction: {max_delta_commits: 2, max_age: 1s}\n", w.source, w.table)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	more := func(n int) {
		if err := w.data.next(n); err != nil {
			t.Fatal(err)
		}
	}
	b := d.bucket(t, "/tables/failover")
	writer := startRun(t, "run", "--config", config)
	seen := ""
	commits := func(why string) {
		t.Helper()
		more(5)
		until(t, "a commit "+why, func() bool {
			select {
			case <-writer.ended:
				t.Fatalf("it ended %s: %v\n%s", why, writer.cmd.ProcessState, writer.said.String())
			default:
			}
			return lastCommit(t, b) > seen
		}, writer.said.String)
		seen = lastCommit(t, b)
	}
	commits("at first")
	for _, order := range []string{"failover", "kill", "revive", "failover"} {
		more(60)
		d.order(t, order)
		commits("after " + order)
	}
	until(t, "that the table equals the database", func() bool {
		code, _ := howItEnded(t, "verify", "--config", config)
		return code == 0
	}, writer.said.String)
	writer.end(syscall.SIGTERM)
	if code := writer.cmd.ProcessState.ExitCode(); code != 0 {
		t.Errorf("exit %d\n%s", code, writer.said.String())
	}
	byService := couch2hudi(t, "query", "--table", w.table, "--columns", "_id")
	for _, table := range []string{"hdfs:///tables/failover", d.url + "/tables/failover"} {
		if rows := couch2hudi(t, "query", "--table", table, "--columns", "_id"); rows != byService || !strings.Contains(rows, "_id") {
			t.Errorf("%s has %d bytes of rows, by the name of the service %d", table, len(rows), len(byService))
		}
	}
}
