package couchdb

import (
	"bytes"
	"errors"
	"fmt"
	"io"
)

// ErrRowTooLarge marks a row that is larger than Options.MaxRowBytes.
var ErrRowTooLarge = errors.New("row is too large")

const (
	firstBlock = 64 << 10
	largeBlock = 1 << 20
)

// lines reads a body into blocks and hands out pieces of them. A block is
// never written to again where it was handed out, so the pieces stay valid for
// as long as somebody holds them, without a copy for each row.
type lines struct {
	src    io.Reader
	max    int    // of one piece
	block  []byte // its length is what can be read into it
	start  int    // of what was not handed out yet
	end    int    // of what was read
	looked int    // how far from start no line break was found
	size   int    // of the next block
	err    error  // what ended src
}

func newLines(src io.Reader, most int) *lines {
	return &lines{src: src, max: most, size: firstBlock}
}

// next is the next line without its break. What comes after the last break is
// a line too; io.EOF or the reader's own error follow it.
func (l *lines) next() ([]byte, error) {
	for {
		if n := l.lineBreak(); n > l.max {
			return nil, tooLarge(l.held()[:n], l.max)
		} else if n >= 0 {
			return l.take(n, n+1), nil
		}
		if err := l.more(); err != nil {
			if n := l.end - l.start; n == 0 || l.err == nil {
				return nil, err
			}
			return l.take(l.end-l.start, l.end-l.start), nil // the error stays, for the next call
		}
	}
}

// lineBreak is the distance from start to the next line break, or -1.
func (l *lines) lineBreak() int {
	n := bytes.IndexByte(l.block[l.start+l.looked:l.end], '\n')
	if n < 0 {
		l.looked = l.end - l.start
		return -1
	}
	return l.looked + n
}

// take hands out n bytes and goes on after skip of them.
func (l *lines) take(n, skip int) []byte {
	piece := l.block[l.start : l.start+n : l.start+n]
	l.start += skip
	l.looked = 0
	return piece
}

// ready says that a line which is not empty can be handed out without reading.
func (l *lines) ready() bool {
	for l.start < l.end && l.block[l.start] == '\n' {
		l.take(0, 1) // a heartbeat
	}
	return l.lineBreak() >= 0
}

// held is what was read and not handed out yet.
func (l *lines) held() []byte { return l.block[l.start:l.end] }

// more reads at least one byte more.
func (l *lines) more() error {
	if l.err != nil {
		return l.err
	}
	if l.end-l.start > l.max {
		return tooLarge(l.held(), l.max)
	}
	if l.end == len(l.block) {
		l.grow()
	}
	const patience = 100 // as in package bufio: empty reads before giving up
	for range patience {
		n, err := l.src.Read(l.block[l.end:])
		l.end += n
		l.err = err
		if n > 0 {
			return nil
		}
		if err != nil {
			return err
		}
	}
	l.err = io.ErrNoProgress
	return l.err
}

// grow begins a block and moves the piece that is not complete into it.
func (l *lines) grow() {
	held := l.held()
	block := make([]byte, max(l.size, 2*len(held)))
	l.end = copy(block, held)
	l.start = 0
	l.block = block
	l.size = min(2*l.size, largeBlock)
}

// tooLarge names the document if the row's beginning does.
func tooLarge(row []byte, most int) error {
	var e envelope
	_, _ = e.scan(row) // only for the id, which stands before the document
	if id, err := unescape(nil, e.id); err == nil && len(id) > 0 {
		return fmt.Errorf("%w: document %q takes more than %d bytes", ErrRowTooLarge, clip(id), most)
	}
	return fmt.Errorf("%w: it begins with %q and takes more than %d bytes", ErrRowTooLarge, clip(row), most)
}

// clip keeps a message readable.
func clip(b []byte) string {
	const most = 200
	if len(b) > most {
		return string(b[:most]) + "…"
	}
	return string(b)
}
