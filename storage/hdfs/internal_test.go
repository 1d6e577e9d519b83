package hdfs

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	upstream "github.com/colinmarc/hdfs/v2"
	"google.golang.org/protobuf/proto"

	"github.com/couch2hudi/couch2hudi/storage"
)

// TestRenameIsReachable: the library still has what put-if-absent needs.
func TestRenameIsReachable(t *testing.T) {
	r, err := newRenamer(&upstream.Client{})
	if err != nil {
		t.Fatal(err)
	}
	for _, overwrite := range []bool{false, true} {
		got, err := proto.MarshalOptions{Deterministic: true}.Marshal(r.message("/a", "/b", overwrite))
		want := "\x0a\x02/a\x12\x02/b\x18\x00" // src = 1, dst = 2, overwriteDest = 3
		if overwrite {
			want = want[:len(want)-1] + "\x01"
		}
		if err != nil || string(got) != want {
			t.Errorf("rename2(overwrite=%v) is %q, %v; want %q", overwrite, got, err, want)
		}
	}
	if r.response.New().Interface() == nil {
		t.Error("no response")
	}
}

// said is an exception of the name node.
type said struct{ class, message string }

func (e said) Error() string     { return e.class }
func (e said) Exception() string { return e.class }
func (e said) Message() string   { return e.message }

// calls is a connection that answers with err.
type calls struct{ err error }

func (c calls) Execute(string, proto.Message, proto.Message) error { return c.err }

func TestRenameErrors(t *testing.T) {
	r, err := newRenamer(&upstream.Client{})
	if err != nil {
		t.Fatal(err)
	}
	other := errors.New("reset")
	for given, want := range map[error]error{
		nil: nil, other: other,
		said{class: "java.io.FileNotFoundException"}:                            fs.ErrNotExist,
		said{class: "org.apache.hadoop.fs.FileAlreadyExistsException"}:          fs.ErrExist,
		said{class: "org.apache.hadoop.security.AccessControlException"}:        fs.ErrPermission,
		said{class: "org.apache.hadoop.fs.ParentNotDirectoryException"}:         said{class: "org.apache.hadoop.fs.ParentNotDirectoryException"},
		said{class: "org.apache.hadoop.hdfs.server.namenode.SafeModeException"}: said{class: "org.apache.hadoop.hdfs.server.namenode.SafeModeException"},
	} {
		r.conn = calls{given}
		if err := r.rename("/a", "/b", false); !errors.Is(err, want) {
			t.Errorf("%v became %v, want %v", given, err, want)
		}
	}
}

func TestTransient(t *testing.T) {
	wrap := func(err error) error { return &os.PathError{Op: "create", Path: "/x", Err: err} }
	for _, again := range []error{
		io.EOF, io.ErrUnexpectedEOF, net.ErrClosed, &net.OpError{Op: "dial", Err: errors.New("refused")}, errors.New("no available namenodes: dial"),
		said{class: "org.apache.hadoop.hdfs.server.namenode.SafeModeException"}, wrap(said{class: "org.apache.hadoop.ipc.RetriableException"}),
		said{class: "org.apache.hadoop.ipc.StandbyException"}, said{class: "org.apache.hadoop.hdfs.server.namenode.NotReplicatedYetException"},
		said{class: "java.io.IOException", message: "File /x could only be written to 0 of the 1 minReplication nodes."},
	} {
		if !transient(again) {
			t.Errorf("%v is not tried again", again)
		}
	}
	for _, final := range []error{
		context.Canceled, context.DeadlineExceeded, wrap(fs.ErrNotExist), wrap(fs.ErrPermission), storage.ErrExist, localError{io.ErrUnexpectedEOF},
		said{class: "org.apache.hadoop.hdfs.protocol.DSQuotaExceededException"}, said{class: "java.io.IOException", message: "must both be directories"},
	} {
		if transient(final) {
			t.Errorf("%v is tried again", final)
		}
	}
}

const haConf = `<configuration>
<property><name>fs.defaultFS</name><value>hdfs://lake</value></property>
<property><name>dfs.nameservices</name><value>lake,other</value></property>
<property><name>dfs.ha.namenodes.lake</name><value>n1, n2</value></property>
<property><name>dfs.namenode.rpc-address.lake.n1</name><value>one:9000</value></property>
<property><name>dfs.namenode.rpc-address.lake.n2</name><value>two:9000</value></property>
<property><name>dfs.ha.namenodes.other</name><value>n1</value></property>
<property><name>dfs.namenode.rpc-address.other.n1</name><value>three:9000</value></property>
</configuration>`

func TestClientOptions(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("HADOOP_CONF_DIR", dir)
	t.Setenv("HADOOP_HOME", "")
	t.Setenv("HADOOP_USER_NAME", "env")
	o, err := clientOptions(Address{Namenodes: []string{"nn", "nn2:9"}, User: "url"})
	if err != nil || o.User != "url" || !slices.Equal(o.Addresses, []string{"nn:8020", "nn2:9"}) {
		t.Errorf("%q as %q, %v", o.Addresses, o.User, err)
	}
	if _, err := clientOptions(Address{}); err == nil || !strings.Contains(err.Error(), "HADOOP_CONF_DIR") {
		t.Errorf("no name node: %v", err)
	}
	if err := os.WriteFile(filepath.Join(dir, "hdfs-site.xml"), []byte(haConf), 0o600); err != nil {
		t.Fatal(err)
	}
	o, err = clientOptions(Address{Namenodes: []string{"lake"}})
	if err != nil || o.User != "env" || !slices.Equal(o.Addresses, []string{"one:9000", "two:9000"}) {
		t.Errorf("%q as %q, %v", o.Addresses, o.User, err)
	}
	o, err = clientOptions(Address{Namenodes: []string{"elsewhere:1"}})
	if err != nil || !slices.Equal(o.Addresses, []string{"elsewhere:1"}) {
		t.Errorf("%q, %v", o.Addresses, err)
	}
}

// Without a name node in the URL it is fs.defaultFS that counts, whatever other
// clusters are known.
func TestDefaultFileSystem(t *testing.T) {
	home := t.TempDir()
	dir := filepath.Join(home, "etc", "hadoop")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("HADOOP_CONF_DIR", "")
	t.Setenv("HADOOP_HOME", home)
	for given, want := range map[string][]string{
		"hdfs://lake": {"one:9000", "two:9000"}, "hdfs://other/": {"three:9000"}, "hdfs://nn": {"nn:8020"}, "hdfs://nn:9": {"nn:9"},
		"viewfs://lake": nil, "file:///": nil, "": nil,
	} {
		conf := strings.Replace(haConf, "hdfs://lake", given, 1)
		if err := os.WriteFile(filepath.Join(dir, "core-site.xml"), []byte(conf), 0o600); err != nil {
			t.Fatal(err)
		}
		o, err := clientOptions(Address{})
		if (err != nil) != (want == nil) || !slices.Equal(o.Addresses, want) {
			t.Errorf("%q: %q, %v, want %q", given, o.Addresses, err, want)
		}
	}
}

func TestKerberosWithoutTickets(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("HADOOP_CONF_DIR", dir)
	conf := `<configuration><property><name>hadoop.security.authentication</name><value>kerberos</value></property></configuration>`
	krb5 := filepath.Join(dir, "krb5.conf")
	for name, text := range map[string]string{filepath.Join(dir, "core-site.xml"): conf, krb5: "[libdefaults]\n default_realm = LAKE\n"} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct{ config, tickets, table, want string }{
		{filepath.Join(dir, "none"), "", "", "KRB5_CONFIG"},
		{krb5, "FILE:" + filepath.Join(dir, "none"), "", "kinit"},
		{krb5, "KEYRING:persistent", "", "KEYRING"},
		{krb5, "", "FILE:" + filepath.Join(dir, "none"), "KRB5_CLIENT_KTNAME"},
	} {
		t.Setenv("KRB5_CONFIG", c.config)
		t.Setenv("KRB5CCNAME", c.tickets)
		t.Setenv("KRB5_CLIENT_KTNAME", c.table)
		_, err := Dial(Address{Namenodes: []string{"nn"}})(t.Context())
		if err == nil || !strings.Contains(err.Error(), c.want) || transient(err) || errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

// TestSilentConnection: a connection that has failed once fails for good.
func TestSilentConnection(t *testing.T) {
	here, there := net.Pipe()
	c := &conn{Conn: here, idle: time.Minute}
	if err := c.SetDeadline(time.Now()); err != nil {
		t.Error(err)
	}
	go func() {
		_, _ = there.Write([]byte("x"))
		_ = there.Close()
	}()
	p := make([]byte, 1)
	if n, err := c.Read(p); n != 1 || err != nil {
		t.Errorf("read %d, %v", n, err)
	}
	if _, err := c.Read(p); err == nil {
		t.Error("read from a closed connection succeeds")
	}
	if _, err := c.Write(p); !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("write after a failed read: %v", err)
	}
}
