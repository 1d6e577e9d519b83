//go:build oracle

package e2e

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/couch2hudi/couch2hudi/catalog/hms"
)

const metastoreSite = `<property><name>metastore.thrift.port</name><value>%[2]s</value></property>
<property><name>metastore.thrift.bind.host</name><value>127.0.0.1</value></property>
<property><name>javax.jdo.option.ConnectionURL</name><value>jdbc:derby:;databaseName=%[1]s/db;create=true</value></property>
<property><name>javax.jdo.option.ConnectionDriverName</name><value>org.apache.derby.jdbc.EmbeddedDriver</value></property>
<property><name>datanucleus.schema.autoCreateAll</name><value>true</value></property>
<property><name>metastore.schema.verification</name><value>false</value></property>
<property><name>metastore.warehouse.dir</name><value>file://%[1]s/warehouse</value></property>
<property><name>metastore.task.threads.always</name><value>org.apache.hadoop.hive.metastore.events.EventCleanerTask</value></property>
<property><name>metastore.expression.proxy</name><value>org.apache.hadoop.hive.metastore.DefaultPartitionExpressionProxy</value></property>
`

// metastoreKind says which metastore to start.
type metastoreKind struct {
	folder     string            // where setup.sh put it
	properties map[string]string // more of metastore-site.xml
	hadoop     map[string]string // of core-site.xml
	host       string            // by which it is asked; 127.0.0.1 by default
	java       []string          // more arguments of Java
	options    hms.Options       // how it is asked
}

var (
	metastore3 = metastoreKind{folder: "metastore"}  // 3.1
	metastore4 = metastoreKind{folder: "metastore4"} // 4.0
)

func writeSite(t *testing.T, path, text string, more map[string]string) {
	t.Helper()
	all := "<configuration>\n" + text
	for name, value := range more {
		all = fmt.Sprintf("%s<property><name>%s</name><value>%s</value></property>\n", all, name, value)
	}
	if err := os.WriteFile(path, []byte(all+"</configuration>"), 0o600); err != nil {
		t.Fatal(err)
	}
}

// startMetastore starts a Hive metastore on a database of its own and gives its
// address. It is stopped before its folder goes.
func startMetastore(t *testing.T, kind metastoreKind) string {
	t.Helper()
	home, err := filepath.Abs(oracleDir())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(home, kind.folder, ".installed")); err != nil {
		t.Fatalf("no Hive metastore: %v\ninstall it with: make oracle", err)
	}
	dir, address := t.TempDir(), freeAddress(t)
	_, port, _ := strings.Cut(address, ":")
	address = net.JoinHostPort(cmp.Or(kind.host, "127.0.0.1"), port)
	writeSite(t, filepath.Join(dir, "metastore-site.xml"), fmt.Sprintf(metastoreSite, dir, port), kind.properties)
	writeSite(t, filepath.Join(dir, "core-site.xml"), "", kind.hadoop)
	java := "java"
	if home := os.Getenv("JAVA_HOME"); home != "" {
		java = filepath.Join(home, "bin", "java")
	}
	args := []string{"-Xmx384m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Dderby.stream.error.file=" + filepath.Join(dir, "derby.log"),
		"-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", "-Dmetastore.home=" + dir, "-cp", dir + ":" + filepath.Join(home, kind.folder, "lib", "*")}
	for _, p := range []string{"lang", "lang.reflect", "util", "util.concurrent", "net", "io", "nio"} {
		args = append(args, "--add-opens=java.base/java."+p+"=ALL-UNNAMED")
	}
	log, err := os.Create(filepath.Join(home, kind.folder+".log"))
	if err != nil {
		t.Fatal(err)
	}
	args = append(args, kind.java...)
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
	kind.options.Addresses = []string{address}
	for {
		s, err := hms.Open(ctx, kind.options)
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
