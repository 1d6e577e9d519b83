// Package index finds where keys live: the file group that holds a key, in any
// partition, and what is needed of its stored version to decide whether a new
// one is newer. Tag turns records into placed records with the answers.
package index

import (
	"context"

	"github.com/couch2hudi/couch2hudi/hudi"
	"github.com/couch2hudi/couch2hudi/table"
)

// Scope says where a key is looked for.
type Scope uint8

const (
	// Global looks in every partition, whatever partition a key names: a record
	// key is unique in the whole table.
	Global Scope = iota
	// Partition looks in the partition that a key names and in no other, as
	// Hudi's own indexes do that are not global: a record key is unique within
	// its partition.
	Partition
)

// String is the word of the configuration.
func (s Scope) String() string {
	if s == Partition {
		return "partition"
	}
	return "global"
}

// Index answers where keys live.
type Index interface {
	// Locate gives one answer a key, in the order of keys, as of the view.
	Locate(ctx context.Context, v *table.View, keys []hudi.Key, scope Scope) ([]hudi.Stored, error)
}
