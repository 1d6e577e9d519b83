package reader

import (
	"context"
	"errors"

	"github.com/couch2hudi/couch2hudi/hudi"
	"github.com/couch2hudi/couch2hudi/table"
)

// OldestBegin is an instant after which changes can be read up to any other, as after each
// later instant, by the When of the view; "" says that they can from the beginning on. It goes by what the last
// clean says; when that counted file versions, by the files that all commits name, in the
// archive too.
func OldestBegin(ctx context.Context, v *table.View) (hudi.Time, error) {
	reach, err := v.Cleaned(ctx)
	if err != nil || !reach.Unbounded {
		for _, i := range v.Writes() {
			if i.Time == reach.Earliest {
				return v.When(i), err
			}
		}
		return reach.Earliest, err
	}
	if v, err = v.Reaching(ctx, ""); err != nil {
		return "", err
	}
	r := span{view: v, end: v.Latest()}
	wrote, err := r.written(ctx)
	if err != nil {
		return "", err
	}
	var gone *RangeError
	if err := r.complete(ctx, wrote); errors.As(err, &gone) {
		return gone.Oldest, nil
	} else if err != nil {
		return "", err
	}
	return "", nil
}
