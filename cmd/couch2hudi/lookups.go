package main

import (
	"fmt"

	"github.com/couch2hudi/couch2hudi/config"
)

// cheaperLookups is what makes look-ups of keys cost what changed.
const cheaperLookups = "keep the key cache (state_dir), or set index.scope: partition where documents stay in their partition"

// costlyLookups says that without a key cache each commit asks the store once for each
// partition and bucket, since a key may be in any of them; empty when it does not, or asks
// for free.
func costlyLookups(cfg config.Config) string {
	u, err := config.ParseTableURL(cfg.Table.URL)
	if err != nil || u.Local() || cfg.Table.Index != config.IndexBucket || cfg.Index.Scope != config.ScopeGlobal || cfg.Table.Partition.Field == "" {
		return ""
	}
	return fmt.Sprintf("without the key cache each commit looks for its keys in all partitions of %s, by a request for each file: what that costs grows with the table", u)
}
