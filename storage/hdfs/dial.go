package hdfs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/colinmarc/hdfs/v2"
	"github.com/colinmarc/hdfs/v2/hadoopconf"
	krb "github.com/jcmturner/gokrb5/v8/client"

	"github.com/couch2hudi/couch2hudi/internal/kerberos"
)

// Address says where HDFS is.
type Address struct {
	// User is who we are to HDFS; by default $HADOOP_USER_NAME, then the user of
	// this process. With Kerberos the ticket says it.
	User string
	// Namenodes are host:port each, or one name service of Hadoop's configuration;
	// by default what fs.defaultFS says there.
	Namenodes []string
	// Timeout is how long a connection may be silent while it is waited for; a
	// minute by default.
	Timeout time.Duration
}

// Times of the network.
const (
	dialTimeout = 20 * time.Second
	idleTimeout = time.Minute
)

// Dial is a connection with a, for New. Further settings are those of Hadoop's
// configuration in $HADOOP_CONF_DIR, or below $HADOOP_HOME.
func Dial(a Address) func(context.Context) (Cluster, error) {
	return func(context.Context) (Cluster, error) {
		o, err := clientOptions(a)
		if err != nil {
			// Without what it wraps: a file that is missing here is not one there.
			return nil, localError{errors.New(err.Error())}
		}
		c, err := hdfs.NewClient(o)
		if err != nil {
			if o.KerberosClient != nil {
				o.KerberosClient.Destroy()
			}
			return nil, fmt.Errorf("connect with HDFS at %s: %w", strings.Join(o.Addresses, ", "), err)
		}
		r, err := newRenamer(c)
		if err != nil {
			return nil, localError{errors.Join(err, c.Close())}
		}
		return &client{hdfs: c, renamer: r, tickets: o.KerberosClient}, nil
	}
}

func clientOptions(a Address) (hdfs.ClientOptions, error) {
	conf, err := hadoopConf()
	if err != nil {
		return hdfs.ClientOptions{}, fmt.Errorf("read Hadoop's configuration: %w", err)
	}
	o := hdfs.ClientOptionsFromConf(conf)
	o.Addresses = slices.Clone(a.Namenodes)
	if len(o.Addresses) == 0 {
		// Not what the library finds: it takes the nodes of all clusters that are known.
		if at, err := url.Parse(cmp.Or(conf["fs.defaultFS"], conf["fs.default.name"])); err == nil && at.Scheme == "hdfs" && at.Host != "" {
			o.Addresses = []string{at.Host}
		}
	}
	if len(o.Addresses) == 0 {
		return o, errors.New("the URL names no name node, and neither does fs.defaultFS of Hadoop's configuration: write hdfs://namenode:port/path, or set HADOOP_CONF_DIR")
	}
	if len(o.Addresses) == 1 {
		if service := serviceAddresses(conf, o.Addresses[0]); len(service) > 0 {
			o.Addresses = service
		}
	}
	for i, address := range o.Addresses {
		if _, _, err := net.SplitHostPort(address); err != nil {
			o.Addresses[i] = net.JoinHostPort(address, "8020") // Hadoop's default
		}
	}
	if o.KerberosClient != nil {
		if o.KerberosClient, err = kerberos.Client(); err != nil {
			return o, fmt.Errorf("HDFS wants Kerberos (hadoop.security.authentication): %w", err)
		}
	}
	o.User = a.User
	if o.User == "" {
		o.User = os.Getenv("HADOOP_USER_NAME")
	}
	if o.User == "" {
		u, err := user.Current()
		if err != nil {
			return o, fmt.Errorf("who are we to HDFS? set HADOOP_USER_NAME: %w", err)
		}
		o.User = u.Username
	}
	dialer := &net.Dialer{Timeout: dialTimeout}
	o.NamenodeDialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
		c, err := dialer.DialContext(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return &conn{Conn: c, idle: cmp.Or(a.Timeout, idleTimeout)}, nil
	}
	o.DatanodeDialFunc = o.NamenodeDialFunc
	if setting := conf["dfs.data.transfer.protection"]; setting != "" && conf["dfs.encrypt.data.transfer"] != "true" {
		levels, err := dataLevels(setting)
		if err != nil {
			return o, err
		}
		o.DataTransferProtection, o.DatanodeDialFunc = "", protected(o.NamenodeDialFunc, levels)
	}
	return o, nil
}

// hadoopConf is the configuration in $HADOOP_CONF_DIR, or in conf or etc/hadoop below
// $HADOOP_HOME.
func hadoopConf() (hadoopconf.HadoopConf, error) {
	conf, err := hadoopconf.LoadFromEnvironment()
	if home := os.Getenv("HADOOP_HOME"); conf == nil && err == nil && home != "" {
		conf, err = hadoopconf.Load(filepath.Join(home, "etc", "hadoop"))
	}
	return conf, err
}

// serviceAddresses are the name nodes of a name service, none if it is no such.
func serviceAddresses(conf hadoopconf.HadoopConf, service string) (addresses []string) {
	for id := range strings.SplitSeq(conf["dfs.ha.namenodes."+service], ",") {
		if address := conf["dfs.namenode.rpc-address."+service+"."+strings.TrimSpace(id)]; address != "" {
			addresses = append(addresses, address)
		}
	}
	return addresses
}

// conn fails when it is silent for too long, and for good once it has failed: the
// library would go on with a connection whose answers no longer fit the questions.
type conn struct {
	net.Conn
	idle time.Duration
}

// Read implements net.Conn.
func (c *conn) Read(p []byte) (int, error) {
	err := c.SetReadDeadline(time.Now().Add(c.idle))
	n := 0
	if err == nil {
		n, err = c.Conn.Read(p)
	}
	if err != nil {
		_ = c.Close()
	}
	return n, err
}

// Write implements net.Conn.
func (c *conn) Write(p []byte) (int, error) {
	err := c.SetWriteDeadline(time.Now().Add(c.idle))
	n := 0
	if err == nil {
		n, err = c.Conn.Write(p)
	}
	if err != nil {
		_ = c.Close()
	}
	return n, err
}

// SetDeadline implements net.Conn: the library sets none that we ask for.
func (c *conn) SetDeadline(time.Time) error { return nil }

// client is the library as a Cluster.
type client struct {
	hdfs    *hdfs.Client
	renamer renamer
	tickets *krb.Client // nil without Kerberos
}

func info(fi os.FileInfo) Info {
	i := Info{Name: fi.Name(), Size: fi.Size(), Modified: fi.ModTime(), Folder: fi.IsDir()}
	if s, ok := fi.Sys().(*hdfs.FileStatus); ok {
		i.Inode = s.GetFileId()
	}
	return i
}

// Stat implements Cluster.
func (c *client) Stat(path string) (Info, error) {
	fi, err := c.hdfs.Stat(path)
	if err != nil {
		return Info{}, err
	}
	return info(fi), nil
}

// List implements Cluster.
func (c *client) List(path string) ([]Info, error) {
	f, err := c.hdfs.Open(path)
	if err != nil {
		return nil, err
	}
	if !f.Stat().IsDir() {
		return nil, &os.PathError{Op: "list", Path: path, Err: syscall.ENOTDIR}
	}
	all, err := f.Readdir(0)
	if err != nil {
		return nil, err
	}
	infos := make([]Info, len(all))
	for i, fi := range all {
		infos[i] = info(fi)
	}
	return infos, nil
}

// Open implements Cluster.
func (c *client) Open(path string) (Reader, error) {
	f, err := c.hdfs.Open(path)
	if err != nil {
		return nil, err
	}
	return openFile{f}, nil
}

type openFile struct{ *hdfs.FileReader }

// Info implements Reader.
func (f openFile) Info() Info { return info(f.Stat()) }

// Create implements Cluster.
func (c *client) Create(path string) (io.WriteCloser, error) { return c.hdfs.Create(path) }

// MkdirAll implements Cluster.
func (c *client) MkdirAll(path string) error {
	const mode = 0o755
	return c.hdfs.MkdirAll(path, mode)
}

// Rename implements Cluster.
func (c *client) Rename(from, to string, overwrite bool) error {
	return c.renamer.rename(from, to, overwrite)
}

// Remove implements Cluster.
func (c *client) Remove(path string) error { return c.hdfs.Remove(path) }

// Close implements Cluster.
func (c *client) Close() error {
	err := c.hdfs.Close()
	if c.tickets != nil {
		c.tickets.Destroy() // it renews them until then
	}
	return err
}
