package reader

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
)

// TempFile is where rows go that memory has no room for.
type TempFile interface {
	io.WriterAt
	io.ReaderAt
	io.Closer
}

// spillFile is a temporary file of this process that grows at its end.
type spillFile struct {
	open func() (TempFile, error)
	file TempFile
	size int64
}

// spill is an empty one; it is made when something is written.
func (o Options) spill() spillFile {
	if o.TempFile != nil {
		return spillFile{open: o.TempFile}
	}
	return spillFile{open: func() (TempFile, error) { return newTempFile(o.TempDir) }}
}

// Write implements io.Writer.
func (s *spillFile) Write(p []byte) (int, error) {
	if s.file == nil {
		f, err := s.open()
		if err != nil {
			return 0, unkept(err)
		}
		s.file = f
	}
	n, err := s.file.WriteAt(p, s.size)
	s.size += int64(n)
	if err != nil {
		return n, unkept(err)
	}
	return n, nil
}

func unkept(err error) error {
	return fmt.Errorf("keep rows on disk: %w; make room there, or let TMPDIR name another folder", err)
}

// ReadAt implements io.ReaderAt.
func (s *spillFile) ReadAt(p []byte, off int64) (int, error) { return s.file.ReadAt(p, off) }

func (s *spillFile) close() error {
	if s.file == nil {
		return nil
	}
	err := s.file.Close()
	s.file, s.size = nil, 0
	if err != nil {
		return fmt.Errorf("remove rows kept on disk: %w", err)
	}
	return nil
}

// tempFile is a file that is gone once it is closed.
type tempFile struct{ *os.File }

func newTempFile(dir string) (TempFile, error) {
	f, err := os.CreateTemp(dir, "couch2hudi-merge-*")
	if err != nil {
		return nil, err
	}
	// Where the system allows it the file loses its name at once: then even a
	// killed process leaves nothing. Where not, Close removes it.
	_ = os.Remove(f.Name())
	return tempFile{f}, nil
}

// Close implements io.Closer.
func (f tempFile) Close() error {
	err := f.File.Close()
	if gone := os.Remove(f.Name()); gone != nil && !errors.Is(gone, fs.ErrNotExist) {
		err = errors.Join(err, gone)
	}
	return err
}
