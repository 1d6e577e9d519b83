//go:build oracle

package e2e

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/couch2hudi/couch2hudi/catalog"
	"github.com/couch2hudi/couch2hudi/catalog/catalogtest"
	"github.com/couch2hudi/couch2hudi/catalog/hms"
)

const metastoreSite = `<configuration>
<property><name>metastore.thrift.port</name><value>%[2]s</value></property>
<property><name>metastore.thrift.bind.host</name><value>127.0.0.1</value></property>
<property><name>javax.jdo.option.ConnectionURL</name><value>jdbc:derby:;databaseName=%[1]s/db;create=true</value></property>
<property><name>javax.jdo.option.ConnectionDriverName</name><value>org.apache.derby.jdbc.EmbeddedDriver</value></property>
<property><name>datanucleus.schema.autoCreateAll</name><value>true</value></property>
<property><name>metastore.schema.verification</name><value>false</value></property>
<property><name>metastore.warehouse.dir</name><value>file://%[1]s/warehouse</value></property>
<property><name>metastore.task.threads.always</name><value>org.apache.hadoop.hive.metastore.events.EventCleanerTask</value></property>
<property><name>metastore.expression.proxy</name><value>org.apache.hadoop.hive.metastore.DefaultPartitionExpressionProxy</value></property>
</configuration>`

// startMetastore starts a Hive metastore on a database of its own and gives its
// address. It is stopped before its folder goes.
func startMetastore(t *testing.T) string {
	t.Helper()
	home, err := filepath.Abs(oracleDir())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(home, "metastore", ".installed")); err != nil {
		t.Fatalf("no Hive metastore: %v\ninstall it with: make oracle", err)
	}
	dir, address := t.TempDir(), freeAddress(t)
	_, port, _ := strings.Cut(address, ":")
	if err := os.WriteFile(filepath.Join(dir, "metastore-site.xml"), []byte(fmt.Sprintf(metastoreSite, dir, port)), 0o600); err != nil {
		t.Fatal(err)
	}
	java := "java"
	if home := os.Getenv("JAVA_HOME"); home != "" {
		java = filepath.Join(home, "bin", "java")
	}
	args := []string{"-Xmx384m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Dderby.stream.error.file=" + filepath.Join(dir, "derby.log"),
		"-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", "-Dmetastore.home=" + dir, "-cp", dir + ":" + filepath.Join(home, "metastore", "lib", "*")}
	for _, p := range []string{"lang", "lang.reflect", "util", "util.concurrent", "net", "io", "nio"} {
		args = append(args, "--add-opens=java.base/java."+p+"=ALL-UNNAMED")
	}
	log, err := os.Create(filepath.Join(home, "metastore.log"))
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(java, append(args, "org.apache.hadoop.hive.metastore.HiveMetaStore", "-p", port)...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, log, log
	cmd.Env = append(os.Environ(), "METASTORE_CONF_DIR="+dir)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() { _ = cmd.Wait(); close(ended) }()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-ended
		_ = log.Close()
	})
	ctx, cancel := context.WithTimeout(t.Context(), engineStart)
	defer cancel()
	for {
		s, err := hms.Open(ctx, hms.Options{Addresses: []string{address}})
		if err == nil {
			_, err = s.HasDatabase(ctx, "default")
			_ = s.Close()
		}
		if err == nil {
			return address
		}
		select {
		case <-ended:
			t.Fatalf("the metastore ended (log: %s)", log.Name())
		case <-ctx.Done():
			t.Fatalf("the metastore does not answer within %s: %v (log: %s)", engineStart, err, log.Name())
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// TestMetastore registers tables in a Hive metastore, and lets Spark and Trino find
// them by name.
func TestMetastore(t *testing.T) {
	address := startMetastore(t)
	trino, answers := startTrino(t, address)
	t.Run("suite", func(t *testing.T) {
		const few = 8 // each takes the metastore's own database some milliseconds
		catalogtest.Run(t, "file://"+t.TempDir(), few, func(t *testing.T) catalog.Metastore {
			s, err := hms.Open(t.Context(), hms.Options{Addresses: []string{address}})
			if err != nil {
				t.Fatal(err)
			}
			return s
		})
	})
	t.Run("spark", func(t *testing.T) { sparkReadsNames(t, address) })
	t.Run("trino", func(t *testing.T) {
		answers(t)
		trinoReadsNames(t, trino, address)
	})
}

// sparkReadsNames lets Spark find a table by name: its rows are those that Spark reads
// by the table's path, also of new partitions and columns, and tombstones are not in
// the view.
func sparkReadsNames(t *testing.T, address string) {
	e, err := startEngine(engineKind{name: "spark-0.15-names", venv: "venv", args: []string{"spark", "--hudi-version", "0.15.0", "--metastore", "thrift://" + address}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = e.in.Close() })
	w := newTableWriter(t, modelOptions{partition: "place"})
	w.step(60)
	// Once by HiveSyncTool's words alone, then over what is there.
	sync := func() string {
		return couch2hudi(t, "sync", "--table", w.table, "--to", "hms://"+address+"/lake.docs")
	}
	sync()
	namesAgree(t, e, w)
	if _, err := w.db.Put("grown", []byte(`{"place":"a/b=c%d","newColumn":{"x":1},"n":1.5}`)); err != nil {
		t.Fatal(err)
	}
	w.step(60)
	if said := sync(); !strings.Contains(said, "docs_rt altered") || !strings.Contains(said, "partitions added") {
		t.Errorf("%s", said)
	}
	for _, name := range []string{"docs", "docs_ro", "docs_rt"} { // a session keeps what it knows of a table
		rowsOf(t, e, question{Op: "sql", Query: "REFRESH TABLE lake." + name})
	}
	namesAgree(t, e, w)
	if said := sync(); strings.Count(said, "unchanged") != 4 {
		t.Errorf("%s", said)
	}
	one := rowsOf(t, e, question{Op: "sql", Query: "SELECT * FROM lake.docs_rt WHERE pt = 'a/b=c%d'"})
	if len(one) == 0 || slices.ContainsFunc(one, func(r row) bool { return r["pt"] != "a/b=c%d" }) {
		t.Errorf("of one partition: %v", one)
	}
}

func rowsOf(t *testing.T, e *engine, q question) []row {
	t.Helper()
	rows, err := e.rows(q)
	if err != nil {
		t.Fatal(err)
	}
	return rows
}

// namesAgree compares what Spark reads by name with what it reads by path.
func namesAgree(t *testing.T, e *engine, w *tableWriter) {
	t.Helper()
	all, base := rowsOf(t, e, question{Op: "snapshot", Table: w.table}), rowsOf(t, e, question{Op: "read-optimized", Table: w.table})
	live := slices.DeleteFunc(slices.Clone(all), func(r row) bool { return r["_deleted"] == true })
	if len(live) == len(all) || len(live) == 0 {
		t.Fatalf("%d rows, of which %d are live: the table shows nothing", len(all), len(live))
	}
	names := map[string]bool{}
	for n := range all[0] {
		names[strings.ToLower(n)] = true
	}
	for name, want := range map[string][]row{"docs_rt": all, "docs": all, "docs_ro": base, "docs_live": live} {
		got := rowsOf(t, e, question{Op: "sql", Query: "SELECT * FROM lake." + name})
		if name == "docs_live" { // Hive's names of columns are in lower case
			got, want = lowered(got, names), lowered(want, names)
		}
		if d := diff(inSchemaOf(got, want), got); d != "" {
			t.Errorf("%s: %s", name, d)
		}
	}
}

func lowered(rows []row, names map[string]bool) []row {
	list := make([]row, len(rows))
	for i, r := range rows {
		list[i] = row{}
		for n, v := range r {
			if names[strings.ToLower(n)] {
				list[i][strings.ToLower(n)] = v
			}
		}
	}
	return list
}
