// Package teststore gives a test the store that the run chose, so that the same tests
// say of every driver whether tables live well in it: in memory where nothing was
// chosen, else what $TEST_STORE says.
//
//	mem          in memory
//	file         a folder of its own
//	s3, hdfs     a stand-in in this process
//	a URL        s3://, gs://, azblob://, hdfs:// or file://, as a table's in the
//	             config: each store is a folder of its own below it, which is removed
//	             when its test has passed
//
// All but the first two need the build tag stores: without it no client of a cloud is
// in a test's binary, and it is linked in a third of the time.
package teststore

import (
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/couch2hudi/couch2hudi/storage"
	"github.com/couch2hudi/couch2hudi/storage/file"
	"github.com/couch2hudi/couch2hudi/storage/mem"
)

// Env is the variable by which a run chooses.
const Env = "TEST_STORE"

// New is an empty store for as long as the test lasts. Several tables, or processes,
// of one test may share it; storagetest's processes open it anew each.
func New(tb testing.TB) storage.Driver {
	tb.Helper()
	return At(tb, nil)
}

// At is New whose objects are modified at the times that now gives; nil is the store's
// own clock.
func At(tb testing.TB, now func() time.Time) storage.Driver {
	tb.Helper()
	switch kind := os.Getenv(Env); kind {
	case "", "mem":
		return mem.New(&mem.Options{Now: now})
	case "file":
		d, err := file.New(tb.TempDir(), &file.Options{NoSync: true, Now: distinct(now)})
		if err != nil {
			tb.Fatal(err)
		}
		return d
	default:
		return open(tb, kind, now)
	}
}

// InMemory says whether the store is the one of package mem: for tests of what only
// that one has.
func InMemory() bool { return os.Getenv(Env) == "" || os.Getenv(Env) == "mem" }

// distinct never gives a time twice, which versions of a file are told apart by.
func distinct(now func() time.Time) func() time.Time {
	if now == nil {
		return nil
	}
	var n atomic.Int64
	return func() time.Time { return now().Add(time.Duration(n.Add(1))) }
}
