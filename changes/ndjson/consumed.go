package ndjson

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/couch2hudi/couch2hudi/changes"
)

// ParseConsumed reads keep, delete or move:/folder; empty is keep.
func ParseConsumed(text string) (Consumed, error) {
	folder, moves := strings.CutPrefix(text, "move:")
	switch {
	case text == "" || text == "keep":
		return Consumed{}, nil
	case text == "delete":
		return Consumed{Delete: true}, nil
	case moves && filepath.IsAbs(folder):
		return Consumed{MoveTo: filepath.Clean(folder)}, nil
	}
	return Consumed{}, fmt.Errorf("consumed=%s: write keep, delete or move:/folder", text)
}

// Committed implements changes.Acknowledged: files whose rows are all committed
// are deleted or moved. What fails is tried again at the next call.
func (s *Source) Committed(_ context.Context, at changes.Position) error {
	if s.o.Consumed == (Consumed{}) {
		return nil
	}
	p, err := parsePlace(at, s.o.Plain)
	if err != nil {
		return err
	}
	names, err := s.files.consumed(p)
	if err != nil {
		return err
	}
	for _, name := range names {
		if err := s.putAway(name); err != nil && !errors.Is(err, fs.ErrNotExist) && s.o.Events.Warned != nil {
			s.o.Events.Warned(fmt.Sprintf("a consumed file stays: %s", err))
		}
	}
	return nil
}

func (s *Source) putAway(name string) error {
	from := filepath.Join(s.o.Folder, name)
	if s.o.Consumed.Delete {
		return os.Remove(from)
	}
	to := filepath.Join(s.o.Consumed.MoveTo, name)
	err := os.Rename(from, to)
	if !errors.Is(err, syscall.EXDEV) {
		return err
	}
	// Another file system.
	if err := copyFile(from, s.o.Consumed.MoveTo, name); err != nil {
		return err
	}
	return os.Remove(from)
}

// copyFile copies a file into a folder, durable before it has its name there.
func copyFile(from, folder, name string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer func() { _ = in.Close() }()
	d := realDisk{}
	out, err := d.create(filepath.Join(folder, tempName(name)))
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	if err == nil {
		err = out.Sync()
	}
	if err = errors.Join(err, out.Close()); err != nil {
		return err
	}
	return publish(d, folder, name)
}
