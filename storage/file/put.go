//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package file

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/couch2hudi/couch2hudi/storage"
)

// Put implements storage.Driver.
func (d *Driver) Put(ctx context.Context, name string, data []byte, cond storage.Cond) (storage.Object, error) {
	up, err := d.Create(ctx, name, cond)
	if err != nil {
		return storage.Object{}, err
	}
	if _, err := up.Write(data); err != nil {
		return storage.Object{}, errors.Join(err, up.Abort())
	}
	return up.Commit()
}

// Create implements storage.Driver.
func (d *Driver) Create(ctx context.Context, name string, cond storage.Cond) (storage.Upload, error) {
	path, err := d.path(name)
	if err != nil {
		return nil, err
	}
	dir := filepath.Dir(path)
	f, err := d.openIn(dir, d.tempName(), os.O_RDWR|os.O_CREATE|os.O_EXCL)
	if err != nil {
		return nil, err
	}
	return &upload{
		file: f,
		seal: func(f *os.File) error { return d.seal(f) },
		show: func(temp fs.FileInfo) error {
			if err := ctx.Err(); err != nil {
				return err
			}
			return d.show(ctx, f.Name(), temp, path, cond)
		},
		name: name,
	}, nil
}

// seal fixes the version's modification time and brings the bytes to disk.
func (d *Driver) seal(f *os.File) error {
	now := d.now()
	if err := os.Chtimes(f.Name(), now, now); err != nil {
		return err
	}
	if d.noSync {
		return nil
	}
	return f.Sync()
}

// show gives the temporary file its name, under cond, and brings that to disk.
// The temporary name is gone afterwards, or is for the caller to remove.
func (d *Driver) show(ctx context.Context, temp string, version fs.FileInfo, path string, cond storage.Cond) error {
	var err error
	switch {
	case cond.Absent:
		// Of a file that is not there any more; another's is left alone.
		if _, statErr := os.Lstat(path); errors.Is(statErr, fs.ErrNotExist) {
			dropChecksum(path)
		}
		err = linkAbsent(temp, version, path)
	case cond.ETag != "":
		err = renameMatching(ctx, temp, path, cond.ETag)
	default:
		err = renameOver(ctx, temp, path)
	}
	if err != nil {
		return err
	}
	return d.sync(filepath.Dir(path))
}

// linkAbsent is the put-if-absent: link(2) never replaces.
func linkAbsent(temp string, version fs.FileInfo, path string) error {
	err := os.Link(temp, path)
	if errors.Is(err, fs.ErrExist) {
		there, statErr := os.Lstat(path)
		switch {
		case statErr == nil && os.SameFile(there, version):
			// Ours: a network file system did it and lost the answer.
		case statErr == nil && there.IsDir():
			return fmt.Errorf("put: %s is a folder", path)
		default:
			return storage.ErrExist
		}
	} else if err != nil {
		return err
	}
	// Linked and durable is what counts. A temporary name left behind is
	// hidden, and Sweep's.
	_ = os.Remove(temp)
	return nil
}

// renameMatching compares and renames while nobody else may change the folder.
func renameMatching(ctx context.Context, temp, path, want string) error {
	release, err := lockFolder(ctx, filepath.Dir(path), unix.LOCK_EX)
	if err != nil {
		return err
	}
	defer release()
	there, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w: it is gone", storage.ErrChanged)
	}
	if err != nil {
		return err
	}
	if etag(there) != want {
		return storage.ErrChanged
	}
	dropChecksum(path)
	return os.Rename(temp, path)
}

// renameOver overwrites, but not in the middle of somebody's renameMatching.
func renameOver(ctx context.Context, temp, path string) error {
	release, err := lockFolder(ctx, filepath.Dir(path), unix.LOCK_SH)
	if err != nil {
		return err
	}
	defer release()
	dropChecksum(path)
	return os.Rename(temp, path)
}

// dropChecksum removes the checksum that Hadoop's LocalFileSystem, hence Spark,
// keeps of a file x as ".x.crc": with the checksum of another content there,
// it would refuse to read the file. Without one it reads unchecked.
func dropChecksum(path string) {
	dir, base := filepath.Split(path)
	// There is none as a rule. One that cannot be removed does harm only to
	// such a reader, who says so.
	_ = unix.Unlink(dir + "." + base + ".crc")
}

// upload is a temporary file on its way to a name.
type upload struct {
	file *os.File
	name string
	seal func(*os.File) error
	// show is Driver.show with the context given to Create.
	show     func(version fs.FileInfo) error
	finished bool
}

// Write implements io.Writer.
func (u *upload) Write(p []byte) (int, error) {
	if u.finished {
		return 0, storage.ErrFinished
	}
	return u.file.Write(p)
}

// Commit implements storage.Upload.
func (u *upload) Commit() (storage.Object, error) {
	if u.finished {
		return storage.Object{}, storage.ErrFinished
	}
	u.finished = true
	version, err := u.publish()
	if closeErr := u.file.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		_ = os.Remove(u.file.Name()) // gone already when only the last sync failed
		return storage.Object{}, err
	}
	return describe(u.name, version)
}

func (u *upload) publish() (fs.FileInfo, error) {
	if err := u.seal(u.file); err != nil {
		return nil, err
	}
	version, err := u.file.Stat()
	if err != nil {
		return nil, err
	}
	return version, u.show(version)
}

// Abort implements storage.Upload.
func (u *upload) Abort() error {
	if u.finished {
		return nil
	}
	u.finished = true
	return errors.Join(u.file.Close(), os.Remove(u.file.Name()))
}
