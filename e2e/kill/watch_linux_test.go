package kill

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io/fs"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
)

// event is something that happened to a file or a folder of the table.
type event struct {
	dir, name string // dir relative to the table, "." for the table itself
	folder    bool
	gone      bool // deleted; else it is new
}

// hidden says whether the event is about a temporary file.
func (e event) hidden() bool { return isTemp(e.name) }

func isTemp(name string) bool {
	return strings.HasPrefix(name, ".~") && strings.HasSuffix(name, ".tmp")
}

// watcher tells of what happens in a table's folders, as it happens.
type watcher struct {
	t    *testing.T
	root string
	fd   int
	dirs map[int32]string // by watch descriptor
	tell func(event)
	quit chan struct{}
	done sync.WaitGroup
}

const watched = unix.IN_CREATE | unix.IN_MOVED_TO | unix.IN_DELETE | unix.IN_ONLYDIR

// watch calls tell for each event under root, from one goroutine, until stop.
// When it returns, all that happens from now on will be told.
func watch(t *testing.T, root string, tell func(event)) (stop func()) {
	t.Helper()
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		t.Fatal(err)
	}
	w := &watcher{t: t, root: root, fd: fd, dirs: map[int32]string{}, tell: tell, quit: make(chan struct{})}
	w.add(".", false)
	w.done.Add(1)
	go w.loop()
	return func() {
		close(w.quit)
		w.done.Wait()
		_ = unix.Close(fd)
	}
}

// add watches a folder and those in it. What was put there before it was
// watched is told when fresh.
func (w *watcher) add(dir string, fresh bool) {
	err := filepath.WalkDir(filepath.Join(w.root, dir), func(path string, e fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		} else if err != nil {
			return err
		}
		rel, err := filepath.Rel(w.root, path)
		if err != nil {
			return err
		}
		if fresh && rel != dir {
			w.tell(event{dir: filepath.Dir(rel), name: filepath.Base(rel), folder: e.IsDir()})
		}
		if !e.IsDir() {
			return nil
		}
		d, err := unix.InotifyAddWatch(w.fd, path, watched)
		if errors.Is(err, unix.ENOENT) {
			return nil
		}
		w.dirs[int32(d)] = rel
		return err
	})
	if err != nil {
		w.t.Errorf("watch %s: %v", dir, err)
	}
}

// loop reads events on a thread of its own: what it waits for must not find it
// waiting for a processor.
func (w *watcher) loop() {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	defer w.done.Done()
	buf := make([]byte, 64<<10)
	for {
		select {
		case <-w.quit:
			return
		default:
		}
		const tick = 20 // milliseconds
		if _, err := unix.Poll([]unix.PollFd{{Fd: int32(w.fd), Events: unix.POLLIN}}, tick); err != nil && !errors.Is(err, unix.EINTR) {
			w.t.Errorf("poll: %v", err)
			return
		}
		n, err := unix.Read(w.fd, buf)
		if err != nil && !errors.Is(err, unix.EAGAIN) && !errors.Is(err, unix.EINTR) {
			w.t.Errorf("read events: %v", err)
			return
		}
		for b := buf[:max(n, 0)]; len(b) >= unix.SizeofInotifyEvent; {
			b = w.one(b)
		}
	}
}

// one tells the first event in b and returns the rest.
func (w *watcher) one(b []byte) []byte {
	d := int32(binary.NativeEndian.Uint32(b))
	mask := binary.NativeEndian.Uint32(b[4:])
	end := unix.SizeofInotifyEvent + int(binary.NativeEndian.Uint32(b[12:]))
	name, _, _ := bytes.Cut(b[unix.SizeofInotifyEvent:end], []byte{0})
	dir, known := w.dirs[d]
	if known && mask&(unix.IN_CREATE|unix.IN_MOVED_TO|unix.IN_DELETE) != 0 {
		e := event{dir: dir, name: string(name), folder: mask&unix.IN_ISDIR != 0, gone: mask&unix.IN_DELETE != 0}
		w.tell(e)
		if e.folder && !e.gone {
			w.add(filepath.Join(dir, e.name), true)
		}
	}
	return b[end:]
}
