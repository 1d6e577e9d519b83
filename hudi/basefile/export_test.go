package basefile

import (
	"iter"

	"github.com/couch2hudi/couch2hudi/hudi"
)

// FindSparse is Find that seeks each row, however many are wanted.
func (f *File) FindSparse(keys *KeySet, target *hudi.Schema, orderColumn string) iter.Seq2[*hudi.Record, error] {
	return f.find(keys, target, orderColumn, 0)
}
