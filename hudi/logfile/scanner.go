package logfile

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/couch2hudi/couch2hudi/hudi"
)

// Scanner reads the blocks of a log file in order.
type Scanner struct {
	r    io.ReaderAt
	size int64
	off  int64
	err  error
}

// NewScanner makes a scanner of a file of size bytes.
func NewScanner(r io.ReaderAt, size int64) *Scanner { return &Scanner{r: r, size: size} }

// Next is the next block, io.EOF after the last. A stretch whose frame does
// not hold (a torn write at the end of a file, bytes that are no block) is
// returned as one block of type Corrupt, up to the next magic; readers of
// Hudi skip such a stretch, whoever calls this decides. The block's own
// fields are read, its content is not.
func (s *Scanner) Next() (*Block, error) {
	if s.err != nil {
		return nil, s.err
	}
	if s.off >= s.size {
		return nil, io.EOF
	}
	b, err := s.next()
	if err != nil {
		s.err = fmt.Errorf("log block at %d: %w", s.off, err)
		return nil, s.err
	}
	s.off += b.Length
	return b, nil
}

func (s *Scanner) next() (*Block, error) {
	end, err := s.frame()
	if err != nil {
		return nil, err
	}
	if end < 0 {
		return s.corrupt()
	}
	b := &Block{r: s.r, Offset: s.off, Length: end - s.off}
	in := &fields{r: s.r, off: s.off + int64(len(magic)+sizeBytes), end: end - trailerBytes}
	if err := b.readFields(in); err != nil {
		return nil, err
	}
	return b, nil
}

// frame checks what Hudi checks: the magic, a trailer that agrees with the
// size, and a magic or the end of the file behind it. The end of the block is
// -1 when one of them does not hold.
func (s *Scanner) frame() (end int64, err error) {
	var head [len(magic) + sizeBytes]byte
	if s.size-s.off < int64(smallestBlock) {
		return -1, nil
	}
	if err := readAt(s.r, head[:], s.off); err != nil {
		return 0, err
	}
	if string(head[:len(magic)]) != magic {
		return -1, nil
	}
	size := binary.BigEndian.Uint64(head[len(magic):])
	if size < uint64(smallestBlock-len(head)) || size > uint64(s.size-s.off)-uint64(len(head)) {
		return -1, nil
	}
	end = s.off + int64(len(head)) + int64(size)
	var tail [trailerBytes + len(magic)]byte
	after := min(int64(len(magic)), s.size-end)
	if err := readAt(s.r, tail[:trailerBytes+after], end-trailerBytes); err != nil {
		return 0, err
	}
	if binary.BigEndian.Uint64(tail[:]) != size+uint64(trailerExtra) {
		return -1, nil
	}
	// Fewer bytes than a magic are a torn block to come: this one is whole.
	if after == int64(len(magic)) && string(tail[trailerBytes:trailerBytes+after]) != magic {
		return -1, nil
	}
	return end, nil
}

// corrupt is the stretch from here to the next magic or the end of the file.
func (s *Scanner) corrupt() (*Block, error) {
	b := &Block{Type: Corrupt, Offset: s.off, Length: s.size - s.off}
	const piece = 64 << 10
	buf := make([]byte, piece)
	// The magic that this stretch may begin with does not count.
	for at := s.off + 1; at < s.size; at += piece - int64(len(magic)) {
		p := buf[:min(piece, s.size-at)]
		if err := readAt(s.r, p, at); err != nil {
			return nil, err
		}
		if i := bytes.Index(p, []byte(magic)); i >= 0 {
			b.Length = at + int64(i) - s.off
			return b, nil
		}
	}
	return b, nil
}

func readAt(r io.ReaderAt, p []byte, off int64) error {
	n, err := r.ReadAt(p, off)
	switch {
	case n == len(p):
		return nil
	case err == nil || errors.Is(err, io.EOF):
		return io.ErrUnexpectedEOF
	}
	return err
}

// Block is one block of a log file.
type Block struct {
	Type Type
	// Instant wrote the block. Target is the one that a command block rolls back.
	Instant, Target hudi.Time
	// Schema is the Avro JSON of the block's rows, meta columns included.
	Schema string
	// Header is the whole header.
	Header map[HeaderKey]string
	// Offset and Length are the place of the whole block in the file, in bytes.
	Offset, Length int64
	// ContentOffset and ContentLength are the place of its content.
	ContentOffset, ContentLength int64

	r io.ReaderAt
}

// CommandRollback is the value of the header entry CommandType in a block that
// rolls Target back; there is no other.
const CommandRollback = "0"

// Content reads the block's content, for kinds of block that are read elsewhere.
func (b *Block) Content() *io.SectionReader {
	if b.r == nil {
		return io.NewSectionReader(bytes.NewReader(nil), 0, 0)
	}
	return io.NewSectionReader(b.r, b.ContentOffset, b.ContentLength)
}

func (b *Block) readFields(in *fields) error {
	version, err := in.int32()
	if err != nil {
		return err
	}
	if version != formatVersion {
		return fmt.Errorf("%w: log format version %d", ErrUnsupported, version)
	}
	t, err := in.int32()
	if err != nil {
		return err
	}
	if b.Type = Type(t); t < 0 || int(t) >= len(typeNames) || b.Type == Corrupt {
		return fmt.Errorf("%w: %s", ErrUnsupported, b.Type)
	}
	if b.Header, err = in.header(); err != nil {
		return err
	}
	b.Instant, b.Target, b.Schema = hudi.Time(b.Header[InstantTime]), hudi.Time(b.Header[TargetInstantTime]), b.Header[SchemaText]
	if b.ContentLength, err = in.int64(); err != nil {
		return err
	}
	b.ContentOffset = in.off
	if b.ContentLength < 0 || b.ContentLength > in.end-in.off-countBytes {
		return fmt.Errorf("%w: content of %d bytes in a block with room for %d", ErrCorrupt, b.ContentLength, in.end-in.off-countBytes)
	}
	in.off += b.ContentLength
	if _, err := in.header(); err != nil {
		return fmt.Errorf("footer: %w", err)
	}
	if in.off != in.end {
		return fmt.Errorf("%w: %d bytes between footer and trailer", ErrCorrupt, in.end-in.off)
	}
	if b.Type == Command && (b.ContentLength != 0 || b.Header[CommandType] != CommandRollback || b.Target == "") {
		return fmt.Errorf("%w: a command block that rolls nothing back", ErrCorrupt)
	}
	return nil
}

// fields reads the framing of one block, never past its end.
type fields struct {
	r        io.ReaderAt
	off, end int64
	buf      [8]byte
}

func (f *fields) bytes(p []byte) error {
	if int64(len(p)) > f.end-f.off {
		return fmt.Errorf("%w: fields longer than the block", ErrCorrupt)
	}
	err := readAt(f.r, p, f.off)
	f.off += int64(len(p))
	return err
}

func (f *fields) int32() (int32, error) {
	err := f.bytes(f.buf[:4])
	return int32(binary.BigEndian.Uint32(f.buf[:])), err
}

func (f *fields) int64() (int64, error) {
	err := f.bytes(f.buf[:])
	return int64(binary.BigEndian.Uint64(f.buf[:])), err
}

func (f *fields) header() (map[HeaderKey]string, error) {
	count, err := f.int32()
	if err != nil {
		return nil, err
	}
	// Each entry has two integers, and no key stands twice.
	if count < 0 || int64(count) > int64(len(headerNames)) {
		return nil, fmt.Errorf("%w: header of %d entries", ErrCorrupt, count)
	}
	header := make(map[HeaderKey]string, count)
	for range count {
		k, err := f.int32()
		if err != nil {
			return nil, err
		}
		if k < 0 || int(k) >= len(headerNames) {
			return nil, fmt.Errorf("%w: header key %d", ErrUnsupported, k)
		}
		n, err := f.int32()
		if err != nil {
			return nil, err
		}
		if n < 0 || int64(n) > f.end-f.off {
			return nil, fmt.Errorf("%w: header value of %d bytes", ErrCorrupt, n)
		}
		v := make([]byte, n)
		if err := f.bytes(v); err != nil {
			return nil, err
		}
		if _, twice := header[HeaderKey(k)]; twice {
			return nil, fmt.Errorf("%w: header key %s stands twice", ErrCorrupt, HeaderKey(k))
		}
		header[HeaderKey(k)] = string(v)
	}
	return header, nil
}
