package catalog_test

import (
	"errors"
	"fmt"
	"io"
	"sync"
	"testing"
	"time"

	"github.com/couch2hudi/couch2hudi/catalog"
	"github.com/couch2hudi/couch2hudi/catalog/catalogtest"
	"github.com/couch2hudi/couch2hudi/commitmeta"
	"github.com/couch2hudi/couch2hudi/hudi"
	"github.com/couch2hudi/couch2hudi/internal/teststore"
	"github.com/couch2hudi/couch2hudi/storage"
	"github.com/couch2hudi/couch2hudi/table"
)

// world is a table and a metastore, which both grow.
type world struct {
	t       *testing.T
	driver  storage.Driver
	table   *table.Table
	m       *catalogtest.Memory
	columns []hudi.Column
	o       catalog.Options

	mu  sync.Mutex
	now time.Time
}

func newWorld(t *testing.T, partitionField string) *world {
	t.Helper()
	w := &world{t: t, driver: teststore.New(t), m: &catalogtest.Memory{}, now: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC),
		o: catalog.Options{Database: "shop", Name: "orders", Location: "file:///data/orders"}}
	for _, name := range []string{hudi.ColumnID, hudi.ColumnDeleted, "pt"} {
		kind := hudi.KindString
		if name == hudi.ColumnDeleted {
			kind = hudi.KindBoolean
		}
		w.columns = append(w.columns, hudi.Column{Name: name, Kind: kind})
	}
	var err error
	w.table, err = table.Create(t.Context(), storage.New(w.driver, nil), table.CreateOptions{Name: "docs", PartitionField: partitionField}, table.Options{Clock: w.clock})
	w.check(err)
	lease, err := w.table.Lease(t.Context())
	w.check(err)
	t.Cleanup(func() { _ = lease.Close() })
	return w
}

func (w *world) clock() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.now = w.now.Add(time.Second)
	return w.now
}

func (w *world) check(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// reader is the table as another process opens it.
func (w *world) reader() *table.Table {
	w.t.Helper()
	r, err := table.Open(w.t.Context(), storage.New(w.driver, nil), table.Options{ReadOnly: true})
	w.check(err)
	return r
}

func (w *world) schema() *hudi.Schema {
	w.t.Helper()
	s, err := hudi.NewSchema("docs", w.columns...)
	w.check(err)
	return s
}

func groupID(n int) hudi.FileID {
	return hudi.FileID(fmt.Sprintf("%08d-0000-0000-0000-000000000000-0", n))
}

// commit writes a base file into each partition, named by its value.
func (w *world) commit(values ...string) hudi.Time {
	w.t.Helper()
	x, err := w.table.Begin(w.t.Context())
	w.check(err)
	w.check(w.fill(x, nil, values...))
	return x.Instant()
}

// replace is a replacecommit that takes the file groups away that commit made.
func (w *world) replace(gone string, group int) {
	w.t.Helper()
	x, err := w.table.BeginReplace(w.t.Context())
	w.check(err)
	w.check(w.fill(x, map[string][]hudi.FileID{hudi.PartitionPath("pt", gone, false): {groupID(group)}}))
}

func (w *world) fill(x *table.Txn, replaced map[string][]hudi.FileID, values ...string) error {
	ctx := w.t.Context()
	b := commitmeta.Body{Operation: "UPSERT", Extra: map[string]string{commitmeta.ExtraSchema: w.schema().Avro()}, Stats: map[string][]commitmeta.WriteStat{}, Replaced: replaced}
	for i, v := range values {
		p := hudi.PartitionPath("pt", v, false)
		if w.table.PartitionField() == "" {
			p = ""
		}
		name := hudi.BaseFileName{File: groupID(i), Token: "0-1-0", Instant: x.Instant()}.String()
		up, err := x.Create(ctx, p, name, table.MarkCreate)
		if err != nil {
			return err
		}
		if _, err := io.WriteString(up, "rows"); err != nil {
			return errors.Join(err, up.Abort())
		}
		o, err := up.Commit()
		if err != nil {
			return err
		}
		b.Stats[p] = append(b.Stats[p], commitmeta.WriteStat{Path: o.Name, Partition: p, File: groupID(i), Bytes: o.Size, Writes: 1})
	}
	return x.Commit(ctx, b)
}

// sync is a sync that works.
func (w *world) sync() catalog.Result {
	w.t.Helper()
	r, err := catalog.Sync(w.t.Context(), w.m, w.reader(), w.o)
	w.check(err)
	return r
}

func (w *world) there(suffix string) catalog.Table {
	w.t.Helper()
	t, err := w.m.Table(w.t.Context(), "shop", "orders"+suffix)
	w.check(err)
	return t
}

// partitions are the values that all tables have, which must agree.
func (w *world) partitions() []string {
	w.t.Helper()
	var all []string
	for i, suffix := range []string{"_ro", "_rt", ""} {
		list, err := w.m.Partitions(w.t.Context(), "shop", w.there(suffix))
		w.check(err)
		var values []string
		for _, p := range list {
			values = append(values, p.Value)
			null := p.Value == hudi.DefaultPartition
			value := p.Value
			if null {
				value = ""
			}
			if want := "file:///data/orders/" + hudi.PartitionPath("pt", value, null); p.Location != want {
				w.t.Errorf("orders%s: partition %s is at %s, want %s", suffix, p.Value, p.Location, want)
			}
		}
		if i > 0 && fmt.Sprint(values) != fmt.Sprint(all) {
			w.t.Errorf("orders%s: %q, orders_ro: %q", suffix, values, all)
		}
		all = values
	}
	return all
}
