package couchdb

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// What ends a feed or makes it useless. All of them are tried again.
var (
	// errCut: the connection ended within a response.
	errCut = errors.New("the feed broke off")
	// errPolite: a continuous feed ended with its last_seq line. That is a
	// timeout, a deleted database or a lost shard: the line does not tell.
	errPolite = errors.New("the server ended the feed")
	// errForeign: the response is not one of _changes.
	errForeign = errors.New("the response is not a changes feed")
	// errFailed: the server wrote an error into a response already begun.
	errFailed = errors.New("the server broke off the feed with an error")
)

// rows reads the rows of one response. CouchDB writes a line for each row;
// PouchDB Server packs a normal feed into one line, where only the JSON tells
// where a row ends.
type rows struct {
	*lines
	envelope
	live   bool // a continuous feed: no head, no tail
	packed bool
	begun  bool

	last    []byte // the tail's last_seq, decoded
	pending int64
}

// next reads a row into r.envelope and returns it as it came. bad says why the
// row could not be scanned: it is the row's fault and the feed goes on. The
// error is io.EOF after the tail of a normal feed.
func (r *rows) next() (raw []byte, bad, err error) {
	if !r.begun && !r.live {
		if err := r.head(); err != nil {
			return nil, nil, err
		}
	}
	r.begun = true
	if r.packed {
		return r.nextPacked()
	}
	for {
		line, err := r.lines.next()
		if err != nil {
			return nil, nil, cut(err)
		}
		line = bytes.TrimRight(line, ", \r\t")
		if len(line) == 0 {
			continue // a heartbeat, or the break after the last row
		}
		if line[0] == ']' && !r.live {
			return nil, nil, r.tail(line)
		}
		return r.line(line)
	}
}

// line scans a line that should be a row.
func (r *rows) line(line []byte) (raw []byte, bad, err error) {
	n, bad := r.scan(line)
	if bad == nil && blanks(line, n) != len(line) {
		bad = errSyntax
	}
	if bad != nil {
		// A last line without its break is one that was cut, not a bad row.
		if r.err != nil && r.start == r.end && r.block[r.end-1] != '\n' {
			return nil, nil, cut(r.err)
		}
		return line, bad, nil
	}
	return line, nil, r.notice()
}

// notice is the error that a line which is no row stands for.
func (r *rows) notice() error {
	switch {
	case r.id != nil || len(r.revs) > 0:
		return nil
	case r.lastSeq != nil:
		return errPolite
	case r.failure != nil:
		return fmt.Errorf("%w: %s: %s", errFailed, clip(r.failure), clip(r.reason))
	}
	return nil
}

// head reads {"results":[ and finds out how rows are set apart.
func (r *rows) head() error {
	const want = `{"results":[`
	for len(r.held()) <= len(want) {
		if err := r.more(); err != nil {
			if len(r.held()) > 0 && !bytes.HasPrefix([]byte(want), r.held()) {
				return fmt.Errorf("%w: it begins with %q", errForeign, clip(r.held()))
			}
			return cut(err)
		}
	}
	if !bytes.HasPrefix(r.held(), []byte(want)) {
		return fmt.Errorf("%w: it begins with %q", errForeign, clip(r.held()))
	}
	r.take(0, len(want))
	if c := r.held()[0]; c != '\n' && c != '\r' {
		r.packed = true
	}
	return nil
}

// nextPacked scans a row where it stands, and again when there was not enough
// of it: only after the held bytes have doubled, so that the whole stays
// linear in the row's size.
func (r *rows) nextPacked() (raw []byte, bad, err error) {
	for {
		held := r.held()
		i := blanks(held, 0)
		if i < len(held) && held[i] == ',' {
			i = blanks(held, i+1)
		}
		if i < len(held) && held[i] == ']' {
			return nil, nil, r.tail(r.take(len(held), len(held))[i:])
		}
		n, bad := r.scan(held[i:])
		if bad == nil {
			return r.take(i+n, i+n)[i:], nil, r.notice()
		}
		if !errors.Is(bad, errShort) {
			return nil, nil, fmt.Errorf("%w: %w", errForeign, bad)
		}
		for want := 2 * len(held); len(r.held()) <= want; {
			if err := r.more(); err != nil {
				if len(r.held()) > len(held) && errors.Is(err, io.EOF) {
					break
				}
				return nil, nil, cut(err)
			}
		}
	}
}

// tail reads what stands after the rows: ],"last_seq":…,"pending":N}. It
// returns io.EOF when it is complete.
func (r *rows) tail(begin []byte) error {
	const most = 64 << 10 // sequences grow with the shards: 130 bytes each two
	text := append([]byte(nil), begin...)
	for len(text) < most {
		line, err := r.lines.next()
		if err != nil {
			if !errors.Is(err, io.EOF) && !bytes.HasSuffix(text, []byte("}")) {
				return cut(err)
			}
			break
		}
		text = append(text, bytes.TrimRight(line, "\r")...)
	}
	text = bytes.TrimLeft(text, "], \t")
	var tail struct {
		LastSeq json.RawMessage `json:"last_seq"`
		Pending int64           `json:"pending"`
	}
	if err := json.Unmarshal(append([]byte("{"), text...), &tail); err != nil {
		return fmt.Errorf("%w: its end cannot be read: %q", errCut, clip(text))
	}
	r.last = seqText(tail.LastSeq)
	r.pending = tail.Pending
	if len(r.last) == 0 {
		return fmt.Errorf("%w: its end has no last_seq: %q", errCut, clip(text))
	}
	return io.EOF
}

// seqText is a sequence as since= takes it: a string's text, other JSON as is.
func seqText(raw json.RawMessage) []byte {
	var s string
	if json.Unmarshal(raw, &s) == nil {
		return []byte(s)
	}
	return raw
}

// cut gives an end within a response its name.
func cut(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return errCut
	}
	return err
}
