// Package timeline reads and names the instants of a table: the files in
// .hoodie whose names say what was begun and what is done. What the names look
// like differs by timeline layout and stays in here.
package timeline

import (
	"context"
	"errors"
	"time"

	"github.com/couch2hudi/couch2hudi/commitmeta"
	"github.com/couch2hudi/couch2hudi/hudi"
	"github.com/couch2hudi/couch2hudi/storage"
)

// State is how far an instant has come.
type State uint8

// The states, in the order in which an instant passes through them.
const (
	Requested State = iota
	Inflight
	Completed
)

// Instant is one entry of the timeline. A completed compaction is listed as
// the commit that it became, a completed log compaction as a deltacommit.
type Instant struct {
	Time   hudi.Time
	Action commitmeta.Action
	State  State
	// Modified is when the file of the most advanced state was last written.
	Modified time.Time
}

// List reads the active timeline in ascending order of time, each instant in
// its most advanced state.
func List(ctx context.Context, b *storage.Bucket, v hudi.Version) ([]Instant, error) {
	return nil, errors.ErrUnsupported
}
