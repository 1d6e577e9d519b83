//go:build oracle

package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestHDFSKerberos: tables in HDFS that asks who comes and protects what goes over the
// wire. A writer with a key table, a reader with tickets.
func TestHDFSKerberos(t *testing.T) {
	for _, levels := range kerberosLevels() {
		t.Run(levels[0]+" "+levels[1], func(t *testing.T) { hdfsKerberos(t, levels[0], levels[1]) })
	}
}

// kerberosLevels are levels of protection, of calls and of data.
func kerberosLevels() [][2]string {
	all := [][2]string{{"privacy", "privacy"}, {"privacy", "privacy-aes"}, {"integrity", "integrity"}, {"authentication", "authentication"}, {"integrity", "encrypt-aes"}}
	if os.Getenv("E2E_FULL") != "" {
		return all
	}
	return all[:1]
}

func hdfsKerberos(t *testing.T, rpc, data string) {
	d := startHDFS(t, "kerberos", rpc, data)
	conf := map[string]string{"hadoop.security.authentication": "kerberos", "hadoop.rpc.protection": rpc, "dfs.namenode.kerberos.principal": "hdfs/_HOST@EXAMPLE.COM"}
	data = strings.TrimSuffix(data, "-aes")
	if data == "encrypt" {
		conf["dfs.encrypt.data.transfer"] = "true"
	} else {
		conf["dfs.data.transfer.protection"] = data
	}
	hadoopConf(t, conf)
	table := d.url + "/tables/docs"
	t.Setenv("KRB5_CONFIG", filepath.Join(d.folder, "krb5.conf"))
	t.Setenv("KRB5CCNAME", filepath.Join(t.TempDir(), "none"))
	if code, said := howItEnded(t, "query", "--table", table); code == 0 || !strings.Contains(said, "KRB5_CLIENT_KTNAME") {
		t.Errorf("without tickets it ends with %d\n%s", code, said)
	}
	t.Setenv("KRB5_CLIENT_KTNAME", filepath.Join(d.folder, "writer.keytab"))
	followInto(t, table)
	if os.Getenv("E2E_FULL") != "" {
		t.Run("conformance", func(t *testing.T) { hdfsConformance(t, d) })
	}
	byWriter := couch2hudi(t, "query", "--table", table, "--columns", "_id")
	t.Setenv("KRB5_CLIENT_KTNAME", "")
	t.Setenv("KRB5CCNAME", "FILE:"+filepath.Join(d.folder, "reader.cache"))
	if byReader := couch2hudi(t, "query", "--table", table, "--columns", "_id"); byReader != byWriter || !strings.Contains(byReader, "_id") {
		t.Errorf("with tickets there are %d bytes of rows, with a key table %d", len(byReader), len(byWriter))
	}
}
