// Package catalogtest holds what tests of metastores lean on: the suite that every
// driver passes, a metastore in memory, and a stand-in for AWS Glue's server.
package catalogtest

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/couch2hudi/couch2hudi/catalog"
)

// Memory is a metastore in memory, which several may use at once. It is what the
// suite's drivers are compared with, and what stand-ins for servers keep.
type Memory struct {
	// Before is called before each call that changes something, and may fail it.
	Before func(call, table string) error

	mu        sync.Mutex
	databases map[string]map[string]*held
	calls     []string
}

type held struct {
	catalog.Table
	partitions map[string]catalog.Partition
	columns    map[string][]catalog.Column // of partitions
}

// Calls are the calls since the last Calls, "Alter orders_rt" and the like.
func (m *Memory) Calls() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	list := m.calls
	m.calls = nil
	return list
}

func (m *Memory) begin(call, table string) error {
	if m.Before != nil {
		if err := m.Before(call, table); err != nil {
			return err
		}
	}
	m.mu.Lock()
	m.calls = append(m.calls, strings.TrimSpace(call+" "+table))
	if m.databases == nil {
		m.databases = map[string]map[string]*held{"default": {}}
	}
	return nil
}

func (m *Memory) find(database, name string) (*held, error) {
	t := m.databases[database][name]
	if t == nil {
		return nil, fmt.Errorf("%w: %s.%s", catalog.ErrNotExist, database, name)
	}
	return t, nil
}

// on does something with a table.
func (m *Memory) on(call, database, name string, do func(*held) error) error {
	if err := m.begin(call, name); err != nil {
		return err
	}
	defer m.mu.Unlock()
	t, err := m.find(database, name)
	if err != nil {
		return err
	}
	return do(t)
}

// HasDatabase implements catalog.Metastore.
func (m *Memory) HasDatabase(_ context.Context, database string) (bool, error) {
	if err := m.begin("HasDatabase", ""); err != nil {
		return false, err
	}
	defer m.mu.Unlock()
	_, ok := m.databases[database]
	return ok, nil
}

// CreateDatabase implements catalog.Metastore.
func (m *Memory) CreateDatabase(_ context.Context, database string) error {
	if err := m.begin("CreateDatabase", ""); err != nil {
		return err
	}
	defer m.mu.Unlock()
	if m.databases[database] == nil {
		m.databases[database] = map[string]*held{}
	}
	return nil
}

// Table implements catalog.Metastore.
func (m *Memory) Table(_ context.Context, database, name string) (t catalog.Table, err error) {
	err = m.on("Table", database, name, func(h *held) error {
		t = clone(h.Table)
		return nil
	})
	return t, err
}

func clone(t catalog.Table) catalog.Table {
	t.Columns, t.Partitioned = slices.Clone(t.Columns), slices.Clone(t.Partitioned)
	t.Parameters, t.SerDeParameters = maps.Clone(t.Parameters), maps.Clone(t.SerDeParameters)
	return t
}

// Create implements catalog.Metastore.
func (m *Memory) Create(_ context.Context, database string, t catalog.Table) error {
	if err := m.begin("Create", t.Name); err != nil {
		return err
	}
	defer m.mu.Unlock()
	tables, ok := m.databases[database]
	switch {
	case !ok:
		return fmt.Errorf("%w: database %s", catalog.ErrNotExist, database)
	case tables[t.Name] != nil:
		return fmt.Errorf("%w: %s.%s", catalog.ErrExist, database, t.Name)
	}
	tables[t.Name] = &held{Table: clone(t), partitions: map[string]catalog.Partition{}, columns: map[string][]catalog.Column{}}
	return nil
}

// Alter implements catalog.Metastore.
func (m *Memory) Alter(_ context.Context, database string, t catalog.Table) error {
	return m.on("Alter", database, t.Name, func(h *held) error {
		h.Table = clone(t)
		for v := range h.columns {
			h.columns[v] = slices.Clone(t.Columns)
		}
		return nil
	})
}

// Drop implements catalog.Metastore.
func (m *Memory) Drop(_ context.Context, database, name string) error {
	if err := m.begin("Drop", name); err != nil {
		return err
	}
	defer m.mu.Unlock()
	delete(m.databases[database], name)
	return nil
}

// Partitions implements catalog.Metastore.
func (m *Memory) Partitions(_ context.Context, database string, t catalog.Table, values ...string) (list []catalog.Partition, err error) {
	err = m.on(fmt.Sprintf("Partitions(%d)", len(values)), database, t.Name, func(h *held) error {
		for _, v := range slices.Sorted(maps.Keys(h.partitions)) {
			if len(values) == 0 || slices.Contains(values, v) {
				list = append(list, h.partitions[v])
			}
		}
		return nil
	})
	return list, err
}

// AddPartitions implements catalog.Metastore.
func (m *Memory) AddPartitions(_ context.Context, database string, t catalog.Table, list []catalog.Partition) error {
	return m.on(fmt.Sprintf("AddPartitions(%d)", len(list)), database, t.Name, func(h *held) error {
		for _, p := range list {
			if _, ok := h.partitions[p.Value]; !ok {
				h.partitions[p.Value], h.columns[p.Value] = p, slices.Clone(t.Columns)
			}
		}
		return nil
	})
}

// MovePartitions implements catalog.Metastore.
func (m *Memory) MovePartitions(_ context.Context, database string, t catalog.Table, list []catalog.Partition) error {
	return m.on(fmt.Sprintf("MovePartitions(%d)", len(list)), database, t.Name, func(h *held) error {
		for _, p := range list {
			if _, ok := h.partitions[p.Value]; ok {
				h.partitions[p.Value], h.columns[p.Value] = p, slices.Clone(t.Columns)
			}
		}
		return nil
	})
}

// DropPartitions implements catalog.Metastore.
func (m *Memory) DropPartitions(_ context.Context, database string, t catalog.Table, values []string) error {
	return m.on(fmt.Sprintf("DropPartitions(%d)", len(values)), database, t.Name, func(h *held) error {
		for _, v := range values {
			delete(h.partitions, v)
			delete(h.columns, v)
		}
		return nil
	})
}

// PartitionColumns are the columns that a partition has of its own.
func (m *Memory) PartitionColumns(database, name, value string) []catalog.Column {
	m.mu.Lock()
	defer m.mu.Unlock()
	t, err := m.find(database, name)
	if err != nil {
		return nil
	}
	return slices.Clone(t.columns[value])
}

// Close implements catalog.Metastore.
func (m *Memory) Close() error { return nil }
