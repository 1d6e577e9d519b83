package couchfake

import (
	"crypto/md5" //nolint:gosec // revisions are MD5 on every CouchDB
	"encoding/binary"
	"encoding/hex"
	"math"
	"math/big"
	"strconv"
	"unicode/utf8"
)

// The tags of Erlang's external term format that revisions need.
const (
	termVersion  = 131
	termNewFloat = 70
	termSmallInt = 97
	termInt      = 98
	termAtom     = 100
	termTuple    = 104
	termNil      = 106
	termString   = 107
	termList     = 108
	termBinary   = 109
	termSmallBig = 110
	termLargeBig = 111
)

// attachmentDigest is what of an attachment goes into the hash of a revision.
type attachmentDigest struct {
	name, contentType string
	md5               []byte
}

// nextRev computes the revision that a real server gives to a new state of a document: the MD5 of the external form of
// [deleted, generation and hash of the parent, body, attachments]. The document's id has no part in it, so that equal bodies have equal revisions.
// It builds the form in buf, if that is large enough, and returns it for the next time.
func nextRev(buf []byte, parent Rev, deleted bool, body []byte, atts []attachmentDigest) (Rev, []byte) {
	b := buf[:0]
	b = append(b, termVersion, termList, 0, 0, 0, 5)
	b = appendAtom(b, strconv.FormatBool(deleted))
	b = appendInt(b, int64(parent.Gen))
	if parent.Hash == "" {
		b = appendInt(b, 0)
	} else {
		b = appendBinary(b, []byte(hashBytes(parent.Hash)))
	}
	e := termEncoder{src: body, out: b}
	e.body()
	b = appendDigests(e.out, atts)
	b = append(b, termNil)
	sum := md5.Sum(b) //nolint:gosec // see above
	return Rev{Gen: parent.Gen + 1, Hash: hex.EncodeToString(sum[:])}, b
}

// appendDigests writes the attachments last to first, as the server's fold leaves them.
func appendDigests(b []byte, atts []attachmentDigest) []byte {
	if len(atts) == 0 {
		return append(b, termNil)
	}
	b = append(b, termList)
	b = binary.BigEndian.AppendUint32(b, uint32(len(atts)))
	for i := len(atts) - 1; i >= 0; i-- {
		b = append(b, termTuple, 3)
		b = appendBinary(b, []byte(atts[i].name))
		b = appendBinary(b, []byte(atts[i].contentType))
		b = appendBinary(b, atts[i].md5)
	}
	return append(b, termNil)
}

func appendAtom(b []byte, s string) []byte {
	b = append(b, termAtom)
	b = binary.BigEndian.AppendUint16(b, uint16(len(s)))
	return append(b, s...)
}

func appendBinary(b, s []byte) []byte {
	b = append(b, termBinary)
	b = binary.BigEndian.AppendUint32(b, uint32(len(s)))
	return append(b, s...)
}

func appendInt(b []byte, v int64) []byte {
	switch {
	case v >= 0 && v <= 255:
		return append(b, termSmallInt, byte(v))
	case v >= math.MinInt32 && v <= math.MaxInt32:
		b = append(b, termInt)
		return binary.BigEndian.AppendUint32(b, uint32(int32(v)))
	}
	return appendBig(b, big.NewInt(v))
}

func appendBig(b []byte, v *big.Int) []byte {
	mag := v.Bytes()
	if len(mag) > 255 {
		b = append(b, termLargeBig)
		b = binary.BigEndian.AppendUint32(b, uint32(len(mag)))
	} else {
		b = append(b, termSmallBig, byte(len(mag)))
	}
	sign := byte(0)
	if v.Sign() < 0 {
		sign = 1
	}
	b = append(b, sign)
	for i := len(mag) - 1; i >= 0; i-- {
		b = append(b, mag[i])
	}
	return b
}

// termEncoder walks JSON that the normalizer wrote, and so never meets an error.
type termEncoder struct {
	src []byte
	pos int
	out []byte
}

// body encodes the members of a document, each with a comma before it.
func (e *termEncoder) body() {
	e.out = append(e.out, termTuple, 1)
	if len(e.src) == 0 {
		e.out = append(e.out, termNil)
		return
	}
	e.members()
}

// members encodes `,"a":1,"b":2` up to the end of the text or a closing brace.
func (e *termEncoder) members() {
	at := len(e.out)
	e.out = append(e.out, termList, 0, 0, 0, 0)
	count := uint32(0)
	for e.pos < len(e.src) && e.src[e.pos] == ',' {
		e.pos++
		e.out = append(e.out, termTuple, 2)
		e.str()
		e.pos++ // the colon
		e.value()
		count++
	}
	binary.BigEndian.PutUint32(e.out[at+1:], count)
	e.out = append(e.out, termNil)
}

func (e *termEncoder) value() {
	switch e.src[e.pos] {
	case '{':
		e.object()
	case '[':
		e.array()
	case '"':
		e.str()
	case 't':
		e.pos += len("true")
		e.out = appendAtom(e.out, "true")
	case 'f':
		e.pos += len("false")
		e.out = appendAtom(e.out, "false")
	case 'n':
		e.pos += len("null")
		e.out = appendAtom(e.out, "null")
	default:
		e.number()
	}
}

func (e *termEncoder) object() {
	e.out = append(e.out, termTuple, 1)
	if e.src[e.pos+1] == '}' {
		e.pos += 2
		e.out = append(e.out, termNil)
		return
	}
	at := len(e.out)
	e.out = append(e.out, termList, 0, 0, 0, 0)
	count := uint32(0)
	for e.src[e.pos] != '}' {
		e.pos++ // the brace or a comma
		e.out = append(e.out, termTuple, 2)
		e.str()
		e.pos++
		e.value()
		count++
	}
	e.pos++
	binary.BigEndian.PutUint32(e.out[at+1:], count)
	e.out = append(e.out, termNil)
}

// array encodes a list; a list of nothing but small bytes is a string in Erlang.
func (e *termEncoder) array() {
	if e.src[e.pos+1] == ']' {
		e.pos += 2
		e.out = append(e.out, termNil)
		return
	}
	at := len(e.out)
	e.out = append(e.out, termList, 0, 0, 0, 0)
	count, small := 0, true
	for e.src[e.pos] != ']' {
		e.pos++
		start := len(e.out)
		e.value()
		small = small && e.out[start] == termSmallInt
		count++
	}
	e.pos++
	if small && count <= math.MaxUint16 {
		e.shorten(at, count)
		return
	}
	binary.BigEndian.PutUint32(e.out[at+1:], uint32(count))
	e.out = append(e.out, termNil)
}

// shorten rewrites a list of count small integers as a string.
func (e *termEncoder) shorten(at, count int) {
	bytes := make([]byte, count)
	for i := range bytes {
		bytes[i] = e.out[at+5+2*i+1]
	}
	e.out = append(e.out[:at], termString)
	e.out = binary.BigEndian.AppendUint16(e.out, uint16(count))
	e.out = append(e.out, bytes...)
}

func (e *termEncoder) str() {
	at := len(e.out)
	e.out = append(e.out, termBinary, 0, 0, 0, 0)
	e.out, e.pos = unquote(e.out, e.src, e.pos)
	binary.BigEndian.PutUint32(e.out[at+1:], uint32(len(e.out)-at-5))
}

// unquote appends the text of the normalised JSON string at pos to dst and says where the string ends.
func unquote(dst, src []byte, pos int) (text []byte, end int) {
	pos++
	for {
		start := pos
		for src[pos] != '"' && src[pos] != '\\' {
			pos++
		}
		dst = append(dst, src[start:pos]...)
		if src[pos] == '"' {
			return dst, pos + 1
		}
		switch c := src[pos+1]; c {
		case 'b':
			dst = append(dst, '\b')
		case 'f':
			dst = append(dst, '\f')
		case 'n':
			dst = append(dst, '\n')
		case 'r':
			dst = append(dst, '\r')
		case 't':
			dst = append(dst, '\t')
		case 'u':
			v, err := strconv.ParseUint(string(src[pos+2:pos+6]), 16, 16)
			if err != nil {
				v = utf8.RuneError // the normalizer has checked the digits
			}
			dst = utf8.AppendRune(dst, rune(v))
			pos += 4
		default:
			dst = append(dst, c)
		}
		pos += 2
	}
}

func (e *termEncoder) number() {
	start, float := e.pos, false
scan:
	for e.pos < len(e.src) {
		switch c := e.src[e.pos]; {
		case c == '.' || c == 'e' || c == '+' || c == '-' && e.pos > start:
			float = true
		case c != '-' && (c < '0' || c > '9'):
			break scan
		}
		e.pos++
	}
	text := string(e.src[start:e.pos])
	if float {
		f, err := strconv.ParseFloat(text, 64)
		if err != nil {
			f = 0 // the normalizer wrote this number: it parses
		}
		e.out = append(e.out, termNewFloat)
		e.out = binary.BigEndian.AppendUint64(e.out, math.Float64bits(f))
		return
	}
	if v, err := strconv.ParseInt(text, 10, 64); err == nil {
		e.out = appendInt(e.out, v)
		return
	}
	if v, ok := new(big.Int).SetString(text, 10); ok {
		e.out = appendBig(e.out, v)
	}
}
