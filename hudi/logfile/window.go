package logfile

import (
	"encoding/binary"
	"fmt"
	"io"
)

// window reads a stretch of a file in pieces and hands out consecutive slices
// of it. It holds one piece, or as much as the longest slice asked for.
type window struct {
	r        io.ReaderAt
	off, end int64
	buf      []byte
	// start and stop bound what is read and not yet handed out.
	start, stop int
}

const pieceBytes = 256 << 10

func newWindow(r io.ReaderAt, off, length int64) *window {
	return &window{r: r, off: off, end: off + length}
}

// left is the number of bytes not yet handed out.
func (w *window) left() int64 { return w.end - w.off + int64(w.stop-w.start) }

// next is the next n bytes, valid until the following call.
func (w *window) next(n int) ([]byte, error) {
	if err := w.fill(n); err != nil {
		return nil, err
	}
	p := w.buf[w.start : w.start+n : w.start+n]
	w.start += n
	return p, nil
}

// fill makes at least n bytes readable in buf[start:stop].
func (w *window) fill(n int) error {
	if n >= 0 && n <= w.stop-w.start {
		return nil
	}
	if n < 0 || int64(n) > w.left() {
		return fmt.Errorf("%w: %d bytes wanted where %d are left", ErrCorrupt, n, w.left())
	}
	rest := w.buf[w.start:w.stop]
	if want := max(n, int(min(pieceBytes, w.left()))); len(w.buf) < want {
		w.buf = make([]byte, want)
	}
	w.stop = copy(w.buf, rest)
	w.start = 0
	more := min(int64(len(w.buf)-w.stop), w.end-w.off)
	if err := readAt(w.r, w.buf[w.stop:w.stop+int(more)], w.off); err != nil {
		return err
	}
	w.off += more
	w.stop += int(more)
	return nil
}

func (w *window) int32() (int32, error) {
	p, err := w.next(countBytes)
	if err != nil {
		return 0, err
	}
	return int32(binary.BigEndian.Uint32(p)), nil
}
