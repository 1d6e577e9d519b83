package catalogtest_test

import (
	"testing"

	"github.com/couch2hudi/couch2hudi/catalog"
	"github.com/couch2hudi/couch2hudi/catalog/catalogtest"
)

func TestMemory(t *testing.T) {
	m := &catalogtest.Memory{}
	catalogtest.Run(t, "file:///data", catalogtest.Many, func(*testing.T) catalog.Metastore { return m })
}
