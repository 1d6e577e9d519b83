package changes

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// Rev is a document revision: "3-917fa2381192822767f010b95b45325b" is
// generation 3 and that hash. As text revisions do not sort ("10-…" < "9-…").
type Rev struct {
	Generation int64
	Hash       string
}

// ErrRev marks text that is not a revision.
var ErrRev = errors.New("not a revision")

// maxGeneration keeps a sum of generations far below the 2^40 that an era
// weighs in the ordering value.
const maxGeneration = 1 << 31

// ParseRev reads a revision "N-hash" with N ≥ 1.
func ParseRev(s string) (Rev, error) {
	gen, hash, ok := strings.Cut(s, "-")
	if !ok || hash == "" {
		return Rev{}, fmt.Errorf("%w: %q", ErrRev, clip(s))
	}
	n, err := strconv.ParseUint(gen, 10, 63)
	if err != nil || n < 1 || n > maxGeneration || gen[0] == '0' || gen[0] == '+' {
		return Rev{}, fmt.Errorf("%w: %q", ErrRev, clip(s))
	}
	return Rev{Generation: int64(n), Hash: hash}, nil
}

// String is the revision as CouchDB writes it; "" for the zero Rev.
func (r Rev) String() string {
	if r.Generation == 0 {
		return ""
	}
	return strconv.FormatInt(r.Generation, 10) + "-" + r.Hash
}

// Before says whether r loses against o among leaves of one kind: a lower
// generation as a number, then a lower hash as bytes.
func (r Rev) Before(o Rev) bool {
	if r.Generation != o.Generation {
		return r.Generation < o.Generation
	}
	return r.Hash < o.Hash
}

func clip(s string) string {
	const most = 60
	if len(s) > most {
		return s[:most] + "…"
	}
	return s
}
