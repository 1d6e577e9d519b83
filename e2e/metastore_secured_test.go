//go:build oracle

package e2e

import (
	"crypto/tls"
	"crypto/x509"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/couch2hudi/couch2hudi/catalog/hms"
)

// TestMetastoreKerberos tells a metastore that asks Kerberos who comes, and protects
// what is said in each of the ways that there are.
func TestMetastoreKerberos(t *testing.T) {
	d := startHDFS(t, "kerberos", "authentication", "authentication") // has the KDC
	t.Setenv("KRB5_CONFIG", filepath.Join(d.folder, "krb5.conf"))
	t.Setenv("KRB5CCNAME", filepath.Join(t.TempDir(), "none"))
	t.Setenv("KRB5_CLIENT_KTNAME", filepath.Join(d.folder, "writer.keytab"))
	levels := []string{"privacy", "integrity", "authentication"}
	if os.Getenv("E2E_FULL") == "" {
		levels = levels[:1]
	}
	w := newTableWriter(t, modelOptions{partition: "place"})
	w.step(20)
	for _, level := range levels {
		t.Run(level, func(t *testing.T) {
			kind := metastore3
			kind.host, kind.options.Auth = "localhost", hms.AuthKerberos
			kind.hadoop = map[string]string{"hadoop.security.authentication": "kerberos", "hadoop.rpc.protection": level}
			kind.properties = map[string]string{"metastore.sasl.enabled": "true", "metastore.kerberos.principal": "hive/localhost@EXAMPLE.COM",
				"metastore.kerberos.keytab.file": filepath.Join(d.folder, "servers.keytab")}
			kind.java = []string{"-Djava.security.krb5.conf=" + filepath.Join(d.folder, "krb5.conf")}
			address := startMetastore(t, kind)
			kind.options.Addresses = []string{address}
			metastoreSuite(t, kind.options)
			to := "hms://" + address + "/lake.docs?auth=kerberos"
			twice(t, w, to)
			for more, word := range map[string]string{"&principal=other/_HOST": "other/localhost", "&principal=HTTP/_HOST@EXAMPLE.COM": "log in"} {
				if code, said := howItEnded(t, "sync", "--table", w.table, "--to", to+more); code != 1 || !strings.Contains(said, word) {
					t.Errorf("%s: it ends with %d\n%s", more, code, said)
				}
			}
		})
	}
}

// twice tells a metastore of a table, and then of nothing.
func twice(t *testing.T, w *tableWriter, to string) {
	t.Helper()
	if said := couch2hudi(t, "sync", "--table", w.table, "--to", to); strings.Count(said, "created") != 5 {
		t.Errorf("%s", said)
	}
	if said := couch2hudi(t, "sync", "--table", w.table, "--to", to); strings.Count(said, "unchanged") != 4 {
		t.Errorf("%s", said)
	}
}

// TestMetastoreTLS tells a metastore that speaks TLS alone and asks for a password.
func TestMetastoreTLS(t *testing.T) {
	dir := t.TempDir()
	store, cert := filepath.Join(dir, "keys"), filepath.Join(dir, "cert.pem")
	for _, args := range [][]string{
		{"-genkeypair", "-alias", "m", "-keyalg", "RSA", "-dname", "CN=metastore", "-ext", "san=ip:127.0.0.1", "-validity", "2", "-storetype", "JKS", "-keypass", "secret"},
		{"-exportcert", "-alias", "m", "-rfc", "-file", cert},
	} {
		said, err := exec.Command("keytool", append(args, "-keystore", store, "-storepass", "secret")...).CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %s", err, said)
		}
	}
	text, err := os.ReadFile(cert)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(text)
	kind := metastore4
	kind.properties = map[string]string{"metastore.use.SSL": "true", "metastore.keystore.path": store, "metastore.keystore.password": "secret",
		"metastore.execute.setugi": "false", "metastore.authentication": "CONFIG", "metastore.authentication.config.username": "etl", "metastore.authentication.config.password": "pass"}
	kind.options = hms.Options{Auth: hms.AuthPlain, User: "etl", Password: "pass", TLS: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}}
	address := startMetastore(t, kind)
	kind.options.Addresses = []string{address}
	metastoreSuite(t, kind.options)
	w := newTableWriter(t, modelOptions{partition: "place"})
	w.step(20)
	if code, said := howItEnded(t, "sync", "--table", w.table, "--to", "hms://etl:pass@"+address+"/lake.docs?auth=plain&tls=true"); code != 1 || !strings.Contains(said, "certificate") {
		t.Errorf("without the authority it ends with %d\n%s", code, said)
	}
	t.Setenv("SSL_CERT_FILE", cert)
	twice(t, w, "hms://etl:pass@"+address+"/lake.docs?auth=plain&tls=true")
	if code, said := howItEnded(t, "sync", "--table", w.table, "--to", "hms://etl:wrong@"+address+"/lake.docs?auth=plain&tls=true"); code != 1 || !strings.Contains(said, "log in") || strings.Contains(said, "wrong") {
		t.Errorf("with another password it ends with %d\n%s", code, said)
	}
}
