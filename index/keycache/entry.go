package keycache

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"strconv"
	"strings"

	"github.com/couch2hudi/couch2hudi/hudi"
)

// errEntry marks bytes of the store that are no entry.
var errEntry = errors.New("damaged entry of the key cache")

// entry is what the cache holds of one key in one file group.
type entry struct {
	order int64
	// rev is the revision of a row, at the time of writing of any text; of a hard
	// delete that of the row that it hides, if known.
	rev string
	// hard says that the version is a hard delete, natural that it is one without
	// an order: order is that of what it hides. tombstone says that it is a row
	// which marks a deleted document.
	hard, natural, tombstone bool
	// inBase says that the key stood in the group's base file when the entry was
	// written.
	inBase bool
	// instant wrote the entry into a log file; empty for a row of a base file,
	// for which nobody asks.
	instant hudi.Time
}

const (
	flagHard = 1 << iota
	flagTombstone
	flagInBase
	// flagCompact says that the revision is a generation and 16 raw bytes.
	flagCompact
	flagInstant
	flagNatural
)

const digestBytes = 16

// appendEntry encodes: flags, order, instant if any, revision.
func appendEntry(dst []byte, e *entry) []byte {
	flags := byte(0)
	set := func(on bool, f byte) {
		if on {
			flags |= f
		}
	}
	generation, digest, compact := compactRev(e.rev)
	set(e.hard, flagHard)
	set(e.natural, flagNatural)
	set(e.tombstone, flagTombstone)
	set(e.inBase, flagInBase)
	set(compact, flagCompact)
	set(e.instant != "", flagInstant)
	dst = binary.AppendVarint(append(dst, flags), e.order)
	if e.instant != "" {
		dst = binary.AppendUvarint(dst, instantNumber(e.instant))
	}
	if !compact {
		return append(dst, e.rev...)
	}
	dst = binary.AppendUvarint(dst, generation)
	return append(dst, digest[:]...)
}

// compactRev takes a revision apart that CouchDB made: "<generation>-<32 hex digits>".
func compactRev(rev string) (generation uint64, digest [digestBytes]byte, ok bool) {
	head, tail, _ := strings.Cut(rev, "-")
	if len(tail) != 2*digestBytes || head == "" || head[0] == '0' || strings.ToLower(tail) != tail {
		return 0, digest, false
	}
	generation, err := strconv.ParseUint(head, 10, 64)
	if err != nil || head[0] == '+' {
		return 0, digest, false
	}
	_, err = hex.Decode(digest[:], []byte(tail))
	return generation, digest, err == nil
}

func decodeEntry(b []byte) (entry, error) {
	if len(b) == 0 {
		return entry{}, errEntry
	}
	flags := b[0]
	e := entry{hard: flags&flagHard != 0, natural: flags&flagNatural != 0, tombstone: flags&flagTombstone != 0, inBase: flags&flagInBase != 0}
	order, n := binary.Varint(b[1:])
	if n <= 0 {
		return entry{}, errEntry
	}
	e.order, b = order, b[1+n:]
	if flags&flagInstant != 0 {
		number, n := binary.Uvarint(b)
		if n <= 0 {
			return entry{}, errEntry
		}
		e.instant, b = hudi.Time(strconv.FormatUint(number, 10)), b[n:]
	}
	if flags&flagCompact == 0 {
		e.rev = string(b)
		return e, nil
	}
	generation, n := binary.Uvarint(b)
	if n <= 0 || len(b) != n+digestBytes {
		return entry{}, errEntry
	}
	e.rev = strconv.FormatUint(generation, 10) + "-" + hex.EncodeToString(b[n:])
	return e, nil
}

// instantNumber is an instant's digits as a number; the old ones of 14 digits
// compare as if 999 were appended.
func instantNumber(t hudi.Time) uint64 {
	const old = 14
	if len(t) == old {
		t += "999"
	}
	n, err := strconv.ParseUint(string(t), 10, 64)
	if err != nil {
		return 0
	}
	return n
}

// The store's keys: what kind of thing, then its name.
const (
	kindFilter   = 'f'
	kindHeader   = 'h'
	kindInstant  = 'i'
	kindKey      = 'k'
	kindGroup    = 'l'
	kindReserved = 'n'
	kindPending  = 'p'
)

const idBytes = 4

// appendPrefix is where the entries of a record key begin: its bytes, so
// escaped that no key is another's prefix and order is kept.
func appendPrefix(dst []byte, record string) []byte {
	dst = append(dst, kindKey)
	for {
		i := strings.IndexByte(record, 0)
		if i < 0 {
			return append(append(dst, record...), 0, 1)
		}
		dst = append(append(dst, record[:i]...), 0, 0xFF)
		record = record[i+1:]
	}
}

// appendKey is the store's key of a record key in a file group.
func appendKey(dst []byte, record string, id uint32) []byte {
	return binary.BigEndian.AppendUint32(appendPrefix(dst, record), id)
}

// groupOf is the file group in a store's key.
func groupOf(key []byte) (prefix []byte, id uint32, ok bool) {
	n := len(key) - idBytes
	if n < 1 {
		return nil, 0, false
	}
	return key[:n], binary.BigEndian.Uint32(key[n:]), true
}
