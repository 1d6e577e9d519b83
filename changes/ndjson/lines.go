package ndjson

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/klauspost/compress/zstd"
)

// errRow is a row that is larger than what may be held.
var errRow = errors.New("a row is too large")

// lines reads a file line by line, decompressed by what its name ends with.
type lines struct {
	f     *os.File
	close func()
	r     *bufio.Reader
	most  int
}

const (
	lineBuffer = 256 << 10
	zstdSuffix = ".zst"
	gzipSuffix = ".gz"
	// maxWindow bounds the memory of a decoder, whatever a file asks for.
	maxWindow = 128 << 20
)

// openLines takes f, which is closed with it.
func openLines(f *os.File, most int) (*lines, error) {
	l := &lines{f: f, close: func() {}, most: most}
	var in io.Reader = f
	switch {
	case strings.HasSuffix(f.Name(), zstdSuffix):
		d, err := zstd.NewReader(f, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(maxWindow))
		if err != nil {
			return nil, fmt.Errorf("decompress: %w", err)
		}
		in, l.close = d, d.Close
	case strings.HasSuffix(f.Name(), gzipSuffix):
		d, err := gzip.NewReader(bufio.NewReaderSize(f, lineBuffer))
		if err != nil {
			return nil, fmt.Errorf("decompress: %w", err)
		}
		in = d
	}
	l.r = bufio.NewReaderSize(in, lineBuffer)
	return l, nil
}

// next is the next line, without its end, in memory of its own when keep is set;
// io.EOF when there is none.
func (l *lines) next(keep bool) ([]byte, error) {
	line, err := l.r.ReadSlice('\n')
	if errors.Is(err, bufio.ErrBufferFull) {
		line, err = l.long(line)
		keep = false // it has memory of its own
	}
	if err != nil && (!errors.Is(err, io.EOF) || len(line) == 0) {
		return nil, err
	}
	line = bytes.TrimRight(line, "\r\n")
	if keep {
		line = bytes.Clone(line)
	}
	return line, nil
}

// long reads on a line that is larger than the buffer.
func (l *lines) long(begin []byte) ([]byte, error) {
	line := bytes.Clone(begin)
	for {
		part, err := l.r.ReadSlice('\n')
		line = append(line, part...)
		if len(line) > l.most {
			return nil, fmt.Errorf("%w: more than %d bytes; raise source.max_row_bytes", errRow, l.most)
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return line, err
		}
	}
}

func (l *lines) done() {
	l.close()
	_ = l.f.Close()
}
