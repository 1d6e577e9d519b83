//go:build !stores

package teststore

import (
	"testing"
	"time"

	"github.com/couch2hudi/couch2hudi/storage"
)

// open is for the build tag stores.
func open(tb testing.TB, kind string, _ func() time.Time) storage.Driver {
	tb.Helper()
	tb.Fatalf("%s=%s needs the build tag stores: make test-stores STORE=%[2]s, or go test -tags stores", Env, kind)
	return nil
}
