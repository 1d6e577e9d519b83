package writer

import (
	"context"
	"fmt"
	"slices"

	"github.com/couch2hudi/couch2hudi/hudi"
	"github.com/couch2hudi/couch2hudi/table"
)

// stateOf asks the view for what Assign needs to know.
func stateOf(ctx context.Context, v *table.View, rs []hudi.Located, o Options) (State, error) {
	st := State{Latest: map[string][]hudi.Slice{}, CDC: v.Table().CDC(), Changelog: v.Table().Changelog()}
	fresh := false
	for i := range rs {
		fresh = fresh || rs[i].File == ""
		p := rs[i].Partition
		if _, there := st.Latest[p]; there {
			continue
		}
		list, err := v.Slices(ctx, p)
		if err != nil {
			return State{}, fmt.Errorf("place records in partition %q: %w", p, err)
		}
		st.Latest[p] = list
	}
	if !fresh || o.Buckets > 0 {
		return st, nil
	}
	var err error
	if st.RowBytes, err = rowBytes(ctx, v); err != nil {
		return State{}, fmt.Errorf("learn the size of rows: %w", err)
	}
	return st, nil
}

const (
	// learnCommits is how far back rowBytes looks, learnRows how many rows a
	// file must have to say something: the footer weighs on small ones.
	learnCommits = 32
	learnRows    = 100
)

// rowBytes is the mean size of a row in the largest base file that the last
// commits wrote, 0 when there is none with enough rows.
func rowBytes(ctx context.Context, v *table.View) (float64, error) {
	most, mean, seen := int64(learnRows-1), 0.0, 0
	for _, i := range slices.Backward(v.Writes()) {
		if seen++; seen > learnCommits {
			break
		}
		body, err := v.Body(ctx, i)
		if err != nil {
			return 0, err
		}
		for _, stats := range body.Stats {
			for k := range stats {
				if s := &stats[k]; s.Log == nil && s.Writes > most {
					most, mean = s.Writes, float64(s.Bytes)/float64(s.Writes)
				}
			}
		}
	}
	return mean, nil
}
