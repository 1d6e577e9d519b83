package table

import (
	"context"

	"github.com/couch2hudi/couch2hudi/commitmeta"
	"github.com/couch2hudi/couch2hudi/hudi"
)

// Unfinished is the oldest instant of the view that may still complete with rows
// of its own time, "" when there is none: an open commit or insert overwrite.
// Who follows the table commit by commit does not pass it, or its rows, which
// stand before those of later commits that completed earlier, would be lost.
// Compactions and clusterings rewrite rows and leave their times.
func (v *View) Unfinished(ctx context.Context) (hudi.Time, error) {
	for _, i := range v.instants {
		if i.Done() {
			continue
		}
		switch i.Action {
		case commitmeta.ActionCommit, commitmeta.ActionDeltaCommit:
			return i.Time, nil
		case commitmeta.ActionReplaceCommit:
			p, err := v.table.plan(ctx, i)
			if err != nil {
				return "", err
			}
			if !p.clustering {
				return i.Time, nil
			}
		default:
		}
	}
	return "", nil
}
