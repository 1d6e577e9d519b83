package hms_test

import (
	"context"
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/apache/thrift/lib/go/thrift"
	"github.com/beltran/gohive/hive_metastore"

	"github.com/couch2hudi/couch2hudi/catalog"
)

// fake is a Hive metastore as far as the driver goes. Its methods that nobody wrote
// are nil.
type fake struct {
	hive_metastore.ThriftHiveMetastore

	mu        sync.Mutex
	databases map[string]map[string]*fakeTable
	user      string
	largest   int           // request
	unknown   []string      // methods that it has not
	stuck     chan struct{} // if set, tables are not answered for before it is closed
}

type fakeTable struct {
	*hive_metastore.Table
	partitions map[string]*hive_metastore.Partition // by name
}

// start serves until the test ends, and gives the address.
func (f *fake) start(t *testing.T) string {
	t.Helper()
	f.databases = map[string]map[string]*fakeTable{"default": {}}
	socket, err := thrift.NewTServerSocket("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if err := socket.Listen(); err != nil {
		t.Fatal(err)
	}
	conf := &thrift.TConfiguration{}
	p := hive_metastore.NewThriftHiveMetastoreProcessor(f)
	for _, name := range f.unknown {
		delete(p.ProcessorMap(), name)
	}
	s := thrift.NewTSimpleServer4(p, socket,
		thrift.NewTBufferedTransportFactory(4096), thrift.NewTBinaryProtocolFactoryConf(conf))
	thrift.ServerStopTimeout = time.Second // of connections that tests left
	ended := make(chan error, 1)
	go func() { ended <- s.Serve() }()
	t.Cleanup(func() {
		_ = s.Stop()
		<-ended
	})
	return socket.Addr().String()
}

func (f *fake) table(database, name string) (*fakeTable, error) {
	t := f.databases[database][name]
	if t == nil {
		return nil, &hive_metastore.NoSuchObjectException{Message: database + "." + name + " table not found"}
	}
	return t, nil
}

func (f *fake) SetUgi(_ context.Context, user string, _ []string) ([]string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.user = user
	return []string{user}, nil
}

func (f *fake) GetDatabase(_ context.Context, name string) (*hive_metastore.Database, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.databases[name] == nil {
		return nil, &hive_metastore.NoSuchObjectException{Message: name}
	}
	return &hive_metastore.Database{Name: name, LocationUri: "file:/warehouse"}, nil
}

func (f *fake) CreateDatabase(_ context.Context, d *hive_metastore.Database) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.databases[d.Name] != nil {
		return &hive_metastore.AlreadyExistsException{Message: "Database " + d.Name + " already exists"}
	}
	f.databases[d.Name] = map[string]*fakeTable{}
	return nil
}

func (f *fake) GetTable(_ context.Context, database, name string) (*hive_metastore.Table, error) {
	if f.stuck != nil {
		<-f.stuck
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	t, err := f.table(database, name)
	if err != nil {
		return nil, err
	}
	return t.Table, nil
}

func (f *fake) GetTableReq(ctx context.Context, r *hive_metastore.GetTableRequest) (*hive_metastore.GetTableResult_, error) {
	t, err := f.GetTable(ctx, r.DbName, r.TblName)
	if err != nil {
		return nil, err
	}
	return &hive_metastore.GetTableResult_{Table: t}, nil
}

func (f *fake) CreateTable(_ context.Context, t *hive_metastore.Table) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.databases[t.DbName][t.TableName] != nil {
		return &hive_metastore.AlreadyExistsException{Message: "Table " + t.TableName + " already exists"}
	}
	f.databases[t.DbName][t.TableName] = &fakeTable{t, map[string]*hive_metastore.Partition{}}
	return nil
}

func (f *fake) AlterTableWithEnvironmentContext(_ context.Context, database, name string, n *hive_metastore.Table, e *hive_metastore.EnvironmentContext) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	t, err := f.table(database, name)
	if err != nil {
		return &hive_metastore.InvalidOperationException{Message: err.Error()}
	}
	t.Table = n
	for _, p := range t.partitions {
		if e.Properties["CASCADE"] == "true" {
			p.Sd.Cols = n.Sd.Cols
		}
	}
	return nil
}

func (f *fake) DropTable(_ context.Context, database, name string, data bool) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if _, err := f.table(database, name); err != nil {
		return err
	}
	if data {
		return &hive_metastore.MetaException{Message: "files would go"}
	}
	delete(f.databases[database], name)
	return nil
}

func (f *fake) GetPartitionNames(_ context.Context, database, name string, _ int16) ([]string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	t, err := f.table(database, name)
	if err != nil {
		return nil, err
	}
	return slices.Sorted(maps.Keys(t.partitions)), nil
}

func (f *fake) GetPartitionsByNames(_ context.Context, database, name string, names []string) ([]*hive_metastore.Partition, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	t, err := f.table(database, name)
	f.largest = max(f.largest, len(names))
	var list []*hive_metastore.Partition
	for _, n := range names {
		if err == nil && t.partitions[n] != nil {
			list = append(list, t.partitions[n])
		}
	}
	return list, err
}

func (f *fake) AddPartitionsReq(_ context.Context, r *hive_metastore.AddPartitionsRequest) (*hive_metastore.AddPartitionsResult_, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	t, err := f.table(r.DbName, r.TblName)
	if err != nil {
		return nil, err
	}
	f.largest = max(f.largest, len(r.Parts))
	for _, p := range r.Parts {
		name := catalog.PartitionName(t.PartitionKeys[0].Name, p.Values[0])
		switch {
		case t.partitions[name] == nil:
			t.partitions[name] = p
		case !r.IfNotExists:
			return nil, &hive_metastore.AlreadyExistsException{Message: name}
		}
	}
	return hive_metastore.NewAddPartitionsResult_(), nil
}

func (f *fake) AlterPartitions(_ context.Context, database, name string, parts []*hive_metastore.Partition) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	t, err := f.table(database, name)
	if err != nil {
		return &hive_metastore.InvalidOperationException{Message: err.Error()}
	}
	for _, p := range parts {
		name := catalog.PartitionName(t.PartitionKeys[0].Name, p.Values[0])
		if t.partitions[name] == nil {
			return &hive_metastore.InvalidOperationException{Message: "alter is not possible: " + name}
		}
		t.partitions[name] = p
	}
	return nil
}

func (f *fake) DropPartition(_ context.Context, database, name string, values []string, data bool) (bool, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	t, err := f.table(database, name)
	if err != nil {
		return false, err
	}
	part := catalog.PartitionName(t.PartitionKeys[0].Name, strings.Join(values, "/"))
	if t.partitions[part] == nil || data {
		return false, &hive_metastore.NoSuchObjectException{Message: fmt.Sprintf("no %s, or files would go: %t", part, data)}
	}
	delete(t.partitions, part)
	return true, nil
}

// silent listens and never says anything.
func silent(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l.Addr().String()
}
