package normalize

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/couch2hudi/couch2hudi/changes"
)

// Masks are the masks that no column of the table tells of, by their paths: those
// of drop, and those of paths with wildcards. Whoever writes the table notes them,
// so that CheckMasks can miss them.
func (n *Normalizer) Masks() map[string]string {
	masks := map[string]string{}
	for i := range n.declared {
		if d := &n.declared[i]; d.bare && d.Mask != "" {
			masks[d.Path] = d.Mask
		}
	}
	return masks
}

// CheckMasks says whether each of the masks that an earlier run noted is still
// declared, or taken back by name: an error of ErrDeclared when not.
func (n *Normalizer) CheckMasks(noted map[string]string) error {
	var lost []string
	for _, path := range slices.Sorted(maps.Keys(noted)) {
		steps, err := parsePath(path)
		if err != nil {
			return fmt.Errorf("%w: mask of %q: %w", ErrDeclared, path, err)
		}
		if !spoken(n.declared, steps) {
			lost = append(lost, fmt.Sprintf("{path: %q, mask: %s}", path, noted[path]))
		}
	}
	if len(lost) == 0 {
		return nil
	}
	return fmt.Errorf("%w: values were masked that no declaration masks any more: %s. Declare them again, or with mask: none",
		ErrDeclared, strings.Join(lost, ", "))
}

// spoken says whether the declarations mask a path, or say that it is masked no
// more.
func spoken(all []declared, steps []step) bool {
	return slices.ContainsFunc(all, func(d declared) bool {
		return d.Mask != "" && covers(d.steps, steps) || d.unmask && d.Path == pathText(steps)
	})
}

// Mask is the changes of a batch with their documents masked, as a table would have
// them, for those who pass documents on in another way. The changes given stay as they
// are, and are what is returned when there are no masks.
func (n *Normalizer) Mask(cs []changes.Change) []changes.Change {
	if n.mask == nil {
		return cs
	}
	return n.mask.changes(cs)
}
