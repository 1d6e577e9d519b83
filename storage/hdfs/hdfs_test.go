package hdfs_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/couch2hudi/couch2hudi/internal/hdfsfake"
	"github.com/couch2hudi/couch2hudi/storage"
	"github.com/couch2hudi/couch2hudi/storage/hdfs"
	"github.com/couch2hudi/couch2hudi/storage/storagetest"
)

// open is a process with the store in /lake/t, which never waits.
func open(t *testing.T, f *hdfsfake.FS, o hdfs.Options) *hdfs.Driver {
	t.Helper()
	d, err := hdfs.New("/lake/t", f.Connect, &o)
	if err != nil {
		t.Fatal(err)
	}
	d.SetSleep(func(ctx context.Context, _ time.Duration) error { return ctx.Err() })
	return d
}

// refused are names that HDFS cannot have.
func refused(name string) bool { return strings.Contains(name, ":") }

func TestConformance(t *testing.T) {
	for name, set := range map[string]func(*hdfsfake.FS){
		"plain":       func(*hdfsfake.FS) {},
		"snapshots":   func(f *hdfsfake.FS) { f.Snapshots = true },
		"replicating": func(f *hdfsfake.FS) { f.Replicating = 3 },
	} {
		t.Run(name, func(t *testing.T) {
			storagetest.RunWith(t, func(t *testing.T) storage.Driver {
				f := hdfsfake.New()
				set(f)
				return open(t, f, hdfs.Options{})
			}, storagetest.Options{Refuses: refused})
		})
	}
	t.Run("processes", func(t *testing.T) {
		storagetest.RunWith(t, func(t *testing.T) storage.Driver {
			f := hdfsfake.New()
			s := &several{Driver: open(t, f, hdfs.Options{})}
			for range 5 {
				s.all = append(s.all, open(t, f, hdfs.Options{}))
			}
			return s
		}, storagetest.Options{Refuses: refused})
	})
}

// several are processes that take turns, each of which has a driver of its own.
type several struct {
	*hdfs.Driver
	all  []*hdfs.Driver
	turn atomic.Uint64
}

func (s *several) next() *hdfs.Driver { return s.all[s.turn.Add(1)%uint64(len(s.all))] }

func (s *several) Stat(ctx context.Context, name string) (storage.Object, error) {
	return s.next().Stat(ctx, name)
}

func (s *several) ReadAt(ctx context.Context, o storage.Object, p []byte, offset int64) (int, error) {
	return s.next().ReadAt(ctx, o, p, offset)
}

func (s *several) Put(ctx context.Context, name string, data []byte, cond storage.Cond) (storage.Object, error) {
	return s.next().Put(ctx, name, data, cond)
}

func (s *several) Create(ctx context.Context, name string, cond storage.Cond) (storage.Upload, error) {
	return s.next().Create(ctx, name, cond)
}

func (s *several) Delete(ctx context.Context, name string) error { return s.next().Delete(ctx, name) }
