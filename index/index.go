// Package index finds where keys live: the file group that holds a key, in any
// partition, and what is needed of its stored version to decide whether a new
// one is newer. Tag turns records into placed records with the answers.
package index

import (
	"context"

	"github.com/couch2hudi/couch2hudi/hudi"
	"github.com/couch2hudi/couch2hudi/table"
)

// Index answers where keys live.
type Index interface {
	// Locate gives one answer a key, in the order of keys, as of the view. It is
	// global: it looks for the record key in every partition, whatever partition
	// the key names.
	Locate(ctx context.Context, v *table.View, keys []hudi.Key) ([]hudi.Stored, error)
}
