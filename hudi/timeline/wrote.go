package timeline

import (
	"errors"
	"io"
	"slices"

	"github.com/couch2hudi/couch2hudi/hudi"
	"github.com/couch2hudi/couch2hudi/hudi/logfile"
)

// LogInstants are the instants that wrote the blocks of a log file of size
// bytes, ascending: up to table version 6 a log file's name does not say.
// whole is false when a stretch of the file is no block, as a torn write
// leaves it.
func LogInstants(r io.ReaderAt, size int64) (instants []hudi.Time, whole bool, err error) {
	s := logfile.NewScanner(r, size)
	whole = true
	for {
		b, err := s.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, false, err
		}
		if b.Type == logfile.Corrupt {
			whole = false
			continue
		}
		if !slices.Contains(instants, b.Instant) {
			instants = append(instants, b.Instant)
		}
	}
	slices.SortFunc(instants, hudi.Time.Compare)
	return instants, whole, nil
}
