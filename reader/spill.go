package reader

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
)

// spillFile is a temporary file of this process that grows at its end.
type spillFile struct {
	dir  string
	file *os.File
	size int64
}

// Write implements io.Writer.
func (s *spillFile) Write(p []byte) (int, error) {
	if s.file == nil {
		f, err := os.CreateTemp(s.dir, "couch2hudi-merge-*")
		if err != nil {
			return 0, fmt.Errorf("keep rows on disk: %w", err)
		}
		s.file = f
		// Where the system allows it the file loses its name at once: then even a
		// killed process leaves nothing. Where not, close removes it.
		_ = os.Remove(f.Name())
	}
	n, err := s.file.WriteAt(p, s.size)
	s.size += int64(n)
	if err != nil {
		return n, fmt.Errorf("keep rows on disk: %w", err)
	}
	return n, nil
}

// ReadAt implements io.ReaderAt.
func (s *spillFile) ReadAt(p []byte, off int64) (int, error) { return s.file.ReadAt(p, off) }

func (s *spillFile) close() error {
	if s.file == nil {
		return nil
	}
	name := s.file.Name()
	err := s.file.Close()
	s.file, s.size = nil, 0
	if gone := os.Remove(name); gone != nil && !errors.Is(gone, fs.ErrNotExist) {
		err = errors.Join(err, gone)
	}
	if err != nil {
		return fmt.Errorf("remove rows kept on disk: %w", err)
	}
	return nil
}
