// Package hms speaks to a Hive metastore by Thrift: binary protocol, without SASL or
// with its PLAIN and GSSAPI (Kerberos) mechanisms, with or without TLS. The calls are
// those that Hive 2.3, 3 and 4 know.
package hms

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/apache/thrift/lib/go/thrift"
	"github.com/beltran/gohive/hive_metastore"

	"github.com/couch2hudi/couch2hudi/catalog"
)

// Ways to say who one is.
const (
	AuthNone     = "nosasl"
	AuthPlain    = "plain"
	AuthKerberos = "kerberos"
)

// Options say which metastore, and how to speak to it.
type Options struct {
	// Addresses are host:port of metastores that share one database: the first that
	// answers is taken.
	Addresses []string
	// Auth is AuthNone, the default, AuthPlain, SASL's PLAIN with User and Password, or
	// AuthKerberos, its GSSAPI with what internal/kerberos finds.
	Auth string
	// Principal is the metastore's, for AuthKerberos: _HOST stands for the address's
	// host. Default hive/_HOST.
	Principal string
	// User is the owner of what is made; with AuthNone the metastore is told of it, too,
	// if it is given.
	User, Password string
	// TLS speaks TLS, if set.
	TLS *tls.Config
	// Timeout is how long a metastore may be silent; default 2 min. To connect it has
	// ten seconds.
	Timeout time.Duration
}

// batch is how many partitions one request holds.
const batch = 500

// Store is a connection to a Hive metastore.
type Store struct {
	c     *hive_metastore.ThriftHiveMetastoreClient
	conn  thrift.TTransport
	owner string
}

// Open connects to the first metastore that answers.
func Open(ctx context.Context, o Options) (*Store, error) {
	var errs []error
	for _, address := range o.Addresses {
		s, err := connect(ctx, address, o)
		if err == nil {
			return s, nil
		}
		errs = append(errs, fmt.Errorf("metastore %s: %w", address, err))
	}
	return nil, errors.Join(errs...)
}

func connect(ctx context.Context, address string, o Options) (*Store, error) {
	const patience, silence, message = 10 * time.Second, 2 * time.Minute, 512 << 20
	if o.Timeout <= 0 {
		o.Timeout = silence
	}
	dialing, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	var d net.Dialer
	conn, err := d.DialContext(dialing, "tcp", address)
	if err != nil {
		return nil, err
	}
	host, _, _ := net.SplitHostPort(address)
	if o.TLS != nil {
		c := o.TLS.Clone()
		if c.ServerName == "" {
			c.ServerName = host
		}
		conn = tls.Client(conn, c)
	}
	conf := &thrift.TConfiguration{SocketTimeout: o.Timeout, MaxMessageSize: message, MaxFrameSize: message}
	socket := thrift.NewTSocketFromConnConf(conn, conf)
	var t thrift.TTransport = thrift.NewTBufferedTransport(socket, 1<<16)
	how, err := o.mechanism(host)
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	if how != nil {
		sasl := &saslTransport{TTransport: t, how: how, most: message}
		end := context.AfterFunc(dialing, func() { _ = conn.Close() })
		err = sasl.logIn(ctx)
		end()
		if err != nil {
			return nil, errors.Join(fmt.Errorf("log in as %q: %w", o.User, err), conn.Close())
		}
		t = sasl
	}
	p := thrift.NewTBinaryProtocolConf(t, conf)
	s := &Store{c: hive_metastore.NewThriftHiveMetastoreClient(thrift.NewTStandardClient(p, &unsaid{TProtocol: p})), conn: t, owner: o.User}
	if s.owner == "" {
		s.owner = "couch2hudi"
	}
	if o.User != "" && how == nil {
		err := s.call(ctx, func() error {
			_, err := s.c.SetUgi(ctx, o.User, nil)
			return err
		})
		if err != nil {
			return nil, errors.Join(fmt.Errorf("say that we are %q: %w", o.User, err), s.Close())
		}
	}
	return s, nil
}

// mechanism is SASL's to log in with at a host, nil for none. Who Kerberos says that we
// are becomes the user, if there is none.
func (o *Options) mechanism(host string) (mechanism, error) {
	switch o.Auth {
	case AuthPlain:
		return plain{o.User, o.Password}, nil
	case AuthKerberos:
		how, user, err := newKerberos(cmp.Or(o.Principal, "hive/_HOST"), host)
		if err != nil {
			return nil, fmt.Errorf("kerberos: %w", err)
		}
		o.User = cmp.Or(o.User, user)
		return how, nil
	}
	return nil, nil
}

// call is one question; the end of ctx ends the connection, since Thrift's reads do not
// look at it.
func (s *Store) call(ctx context.Context, ask func() error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, func() { _ = s.conn.Close() })
	defer stop()
	err := ask()
	if err != nil && ctx.Err() != nil {
		return ctx.Err()
	}
	return told(err)
}

// told is an error of the metastore in catalog's words, with what Java says of it.
func told(err error) error {
	if none, ok := errors.AsType[*hive_metastore.NoSuchObjectException](err); ok {
		return fmt.Errorf("%w: %s", catalog.ErrNotExist, none.Message)
	}
	if unknown, ok := errors.AsType[*hive_metastore.UnknownDBException](err); ok {
		return fmt.Errorf("%w: %s", catalog.ErrNotExist, unknown.Message)
	}
	if there, ok := errors.AsType[*hive_metastore.AlreadyExistsException](err); ok {
		return fmt.Errorf("%w: %s", catalog.ErrExist, there.Message)
	}
	if meta, ok := errors.AsType[*hive_metastore.MetaException](err); ok {
		return fmt.Errorf("the metastore says: %s", meta.Message)
	}
	if op, ok := errors.AsType[*hive_metastore.InvalidOperationException](err); ok {
		return fmt.Errorf("the metastore refuses: %s", op.Message)
	}
	return err
}

// Close ends the connection.
func (s *Store) Close() error {
	if !s.conn.IsOpen() {
		return nil
	}
	return s.conn.Close()
}

// HasDatabase says whether there is a database.
func (s *Store) HasDatabase(ctx context.Context, database string) (bool, error) {
	err := s.call(ctx, func() error {
		_, err := s.c.GetDatabase(ctx, database)
		return err
	})
	if errors.Is(err, catalog.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// CreateDatabase makes one, in the metastore's own warehouse.
func (s *Store) CreateDatabase(ctx context.Context, database string) error {
	d := hive_metastore.NewDatabase()
	d.Name, d.Description = database, "made by couch2hudi"
	err := s.call(ctx, func() error { return s.c.CreateDatabase(ctx, d) })
	if errors.Is(err, catalog.ErrExist) {
		return nil
	}
	return err
}

// Table is the table or view of that name.
func (s *Store) Table(ctx context.Context, database, name string) (catalog.Table, error) {
	t, err := s.get(ctx, database, name)
	if err != nil {
		return catalog.Table{}, err
	}
	return tableOf(t), nil
}

func (s *Store) get(ctx context.Context, database, name string) (t *hive_metastore.Table, err error) {
	err = s.call(ctx, func() error {
		r := hive_metastore.NewGetTableRequest()
		r.DbName, r.TblName = database, name
		got, err := s.c.GetTableReq(ctx, r)
		if err == nil {
			t = got.Table
		}
		return err
	})
	if unknown, ok := errors.AsType[thrift.TApplicationException](err); ok && unknown.TypeId() == thrift.UNKNOWN_METHOD {
		err = s.call(ctx, func() error { // Hive 4 does not know this one, and Hive 2 not the other
			t, err = s.c.GetTable(ctx, database, name)
			return err
		})
	}
	if err == nil && t.Sd == nil {
		t.Sd = hive_metastore.NewStorageDescriptor()
	}
	return t, err
}

// Create makes a table, or a view.
func (s *Store) Create(ctx context.Context, database string, t catalog.Table) error {
	n := hive_metastore.NewTable()
	n.DbName, n.TableName, n.Owner = database, t.Name, s.owner
	n.CreateTime = int32(time.Now().Unix()) // seconds, as the field has them until 2038
	n.Sd = descriptor(&t)
	n.Sd.Location = t.Location
	fill(n, &t)
	return s.call(ctx, func() error { return s.c.CreateTable(ctx, n) })
}

// Alter replaces what the metastore says of a table, and of its partitions' columns.
func (s *Store) Alter(ctx context.Context, database string, t catalog.Table) error {
	n, err := s.get(ctx, database, t.Name)
	if err != nil {
		return err
	}
	if t.Query == "" && !catalog.SameLocation(n.Sd.Location, t.Location) {
		n.Sd.Location = t.Location
	}
	d := descriptor(&t)
	n.Sd.Cols, n.Sd.InputFormat, n.Sd.OutputFormat = d.Cols, d.InputFormat, d.OutputFormat
	if n.Sd.SerdeInfo == nil {
		n.Sd.SerdeInfo = d.SerdeInfo
	}
	n.Sd.SerdeInfo.SerializationLib, n.Sd.SerdeInfo.Parameters = d.SerdeInfo.SerializationLib, d.SerdeInfo.Parameters
	fill(n, &t)
	how := hive_metastore.NewEnvironmentContext()
	// Without the second the metastore lists the table's files.
	how.Properties = map[string]string{"CASCADE": "true", "DO_NOT_UPDATE_STATS": "true"}
	return s.call(ctx, func() error { return s.c.AlterTableWithEnvironmentContext(ctx, database, t.Name, n, how) })
}

// Drop forgets a table or a view.
func (s *Store) Drop(ctx context.Context, database, name string) error {
	err := s.call(ctx, func() error { return s.c.DropTable(ctx, database, name, false) })
	if errors.Is(err, catalog.ErrNotExist) {
		return nil
	}
	return err
}

// Partitions are all that a table has, or those of the given values that it has.
func (s *Store) Partitions(ctx context.Context, database string, t catalog.Table, values ...string) ([]catalog.Partition, error) {
	list, err := s.partitions(ctx, database, t, values)
	if err != nil {
		return nil, err
	}
	all := make([]catalog.Partition, 0, len(list))
	for _, p := range list {
		one := catalog.Partition{Value: strings.Join(p.Values, "/")}
		if p.Sd != nil {
			one.Location = p.Sd.Location
		}
		all = append(all, one)
	}
	return all, nil
}

func (s *Store) partitions(ctx context.Context, database string, t catalog.Table, values []string) (all []*hive_metastore.Partition, err error) {
	names := make([]string, len(values))
	for i, v := range values {
		names[i] = catalog.PartitionName(t.Partitioned[0].Name, v)
	}
	if len(values) == 0 {
		err = s.call(ctx, func() error {
			names, err = s.c.GetPartitionNames(ctx, database, t.Name, -1)
			return err
		})
	}
	for _, some := range catalog.Batches(names, batch) {
		if err != nil {
			return nil, err
		}
		err = s.call(ctx, func() error {
			list, err := s.c.GetPartitionsByNames(ctx, database, t.Name, some)
			all = append(all, list...)
			return err
		})
	}
	return all, err
}

// AddPartitions adds those that are not there.
func (s *Store) AddPartitions(ctx context.Context, database string, t catalog.Table, list []catalog.Partition) error {
	for _, some := range catalog.Batches(list, batch) {
		r := hive_metastore.NewAddPartitionsRequest()
		r.DbName, r.TblName, r.IfNotExists, r.NeedResult_ = database, t.Name, true, false
		for _, p := range some {
			n := hive_metastore.NewPartition()
			n.DbName, n.TableName, n.Values, n.Parameters = database, t.Name, []string{p.Value}, map[string]string{}
			n.Sd = descriptor(&t)
			n.Sd.Location = p.Location
			r.Parts = append(r.Parts, n)
		}
		err := s.call(ctx, func() error {
			_, err := s.c.AddPartitionsReq(ctx, r)
			return err
		})
		// With one that another sync adds at the same time all are refused.
		if errors.Is(err, catalog.ErrExist) && len(some) > 1 {
			err = nil
			for i := range some {
				err = errors.Join(err, s.AddPartitions(ctx, database, t, some[i:i+1]))
			}
		}
		if err != nil && !errors.Is(err, catalog.ErrExist) {
			return err
		}
	}
	return nil
}

// MovePartitions gives partitions their locations.
func (s *Store) MovePartitions(ctx context.Context, database string, t catalog.Table, list []catalog.Partition) error {
	for _, some := range catalog.Batches(list, batch) {
		to := make(map[string]string, len(some))
		values := make([]string, 0, len(some))
		for _, p := range some {
			to[p.Value] = p.Location
			values = append(values, p.Value)
		}
		there, err := s.partitions(ctx, database, t, values)
		if err != nil || len(there) == 0 {
			return err
		}
		for _, p := range there {
			d := descriptor(&t)
			d.Location = to[strings.Join(p.Values, "/")]
			p.Sd = d
		}
		if err := s.call(ctx, func() error { return s.c.AlterPartitions(ctx, database, t.Name, there) }); err != nil {
			return err
		}
	}
	return nil
}

// DropPartitions forgets partitions.
func (s *Store) DropPartitions(ctx context.Context, database string, t catalog.Table, values []string) error {
	for _, v := range values {
		err := s.call(ctx, func() error {
			_, err := s.c.DropPartition(ctx, database, t.Name, []string{v}, false)
			return err
		})
		if err != nil && !errors.Is(err, catalog.ErrNotExist) {
			return err
		}
	}
	return nil
}
