package couchfake

import (
	"crypto/rand"
	"encoding/base64"
	"encoding/binary"
	"hash/crc32"
	"strconv"
	"strings"
)

// seqMagic opens the bytes under a seq: a version of this encoding, and a made-up node name, so that its length is about that of a real one.
const seqMagic = "\x83\x50\x01fake@127.0.0.1"

// position is how far a reader is in each shard.
type position []uint64

func (p position) clone() position { return append(position(nil), p...) }

func (p position) sum() uint64 {
	n := uint64(0)
	for _, u := range p {
		n += u
	}
	return n
}

// seqWriter renders positions of one database as opaque seqs. Each lists the shards' copies and update numbers; from where the list starts is the
// reader's own, so that one state has several spellings, as on a real server. It is not safe for concurrent use.
type seqWriter struct {
	uuid   string
	tokens []uint64
	first  int
	raw    []byte
}

// append writes a seq in quotes: the sum of the update numbers, a dash, and the encoded list with its checksum.
func (w *seqWriter) append(b []byte, p position) []byte {
	w.raw = append(w.raw[:0], seqMagic...)
	w.raw = append(w.raw, w.uuid...)
	for i := range p {
		k := (w.first + i) % len(p)
		w.raw = append(w.raw, byte(k))
		w.raw = binary.BigEndian.AppendUint64(w.raw, w.tokens[k])
		w.raw = binary.AppendUvarint(w.raw, p[k])
	}
	w.raw = binary.BigEndian.AppendUint32(w.raw, crc32.ChecksumIEEE(w.raw))
	b = append(b, '"')
	b = strconv.AppendUint(b, p.sum(), 10)
	b = append(b, '-')
	b = base64.RawURLEncoding.AppendEncode(b, w.raw)
	return append(b, '"')
}

// shardSeq is one entry of a seq.
type shardSeq struct{ token, update uint64 }

// parseSeq reads the entries of a seq. The number before the dash has no meaning, whatever it is.
func parseSeq(s string) ([]shardSeq, error) {
	if len(s) > 1 && s[0] == '"' && s[len(s)-1] == '"' {
		s = s[1 : len(s)-1]
	}
	number, opaque, ok := strings.Cut(s, "-")
	if _, err := strconv.ParseUint(number, 10, 64); !ok || err != nil {
		return nil, errBadSince
	}
	raw, err := base64.RawURLEncoding.Strict().DecodeString(opaque)
	const fixed = len(seqMagic) + uuidSize
	if err != nil || len(raw) < fixed+4 || string(raw[:len(seqMagic)]) != seqMagic {
		return nil, errBadSince
	}
	raw, sum := raw[:len(raw)-4], binary.BigEndian.Uint32(raw[len(raw)-4:])
	if crc32.ChecksumIEEE(raw) != sum {
		return nil, errBadSince
	}
	return parseShardSeqs(raw[fixed:])
}

func parseShardSeqs(raw []byte) ([]shardSeq, error) {
	var list []shardSeq
	for len(raw) > 0 {
		if len(raw) < 10 {
			return nil, errBadSince
		}
		token := binary.BigEndian.Uint64(raw[1:])
		update, n := binary.Uvarint(raw[9:])
		if n <= 0 {
			return nil, errBadSince
		}
		list = append(list, shardSeq{token, update})
		raw = raw[9+n:]
	}
	return list, nil
}

// uuidSize is the length of a database's uuid in bytes.
const uuidSize = 16

// newUUID is random, and never from a seed: a database made again must not take the seqs of the one before for its own.
func newUUID() string {
	b := make([]byte, uuidSize)
	rand.Read(b) // never fails, says its documentation
	return string(b)
}

func newToken() uint64 {
	return binary.BigEndian.Uint64([]byte(newUUID()))
}
