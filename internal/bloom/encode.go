package bloom

import (
	"encoding/base64"
	"encoding/binary"
	"fmt"
)

const (
	formatVersion = -1
	hashMurmur    = 1
	// Bytes of the four fields that begin a filter and each of its rows, and
	// of the three more of a dynamic one.
	rowHeader     = 4 + 4 + 1 + 4
	dynamicHeader = 4 + 4 + 4
)

// Encode is the filter as it stands in a footer: Base64 of its serialisation.
func (f *Filter) Encode() string { return base64.StdEncoding.EncodeToString(f.bytes()) }

func (f *Filter) bytes() []byte {
	b := make([]byte, 0, rowHeader+dynamicHeader+len(f.rows)*(rowHeader+len(f.rows[0])))
	if f.dynamic {
		b = f.appendHeader(b)
		b = binary.BigEndian.AppendUint32(b, uint32(f.perRow))
		b = binary.BigEndian.AppendUint32(b, uint32(f.count))
		b = binary.BigEndian.AppendUint32(b, uint32(len(f.rows)))
	}
	for _, row := range f.rows {
		b = append(f.appendHeader(b), row...)
	}
	return b
}

func (f *Filter) appendHeader(b []byte) []byte {
	version := int32(formatVersion)
	b = binary.BigEndian.AppendUint32(b, uint32(version))
	b = binary.BigEndian.AppendUint32(b, uint32(f.hashes))
	b = append(b, hashMurmur)
	return binary.BigEndian.AppendUint32(b, uint32(f.bits))
}

// Decode reads a filter from a footer's text; code is the type code beside it,
// "" when there is none. The error wraps ErrFormat.
func Decode(text, code string) (*Filter, error) {
	b, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrFormat, err)
	}
	switch code {
	case Simple, "":
		return decodeSimple(b)
	case Dynamic:
		return decodeDynamic(b)
	}
	return nil, fmt.Errorf("%w: type code %q", ErrFormat, code)
}

func decodeSimple(b []byte) (*Filter, error) {
	f := &Filter{}
	rest, err := f.readHeader(b)
	if err != nil {
		return nil, err
	}
	if len(rest) != f.rowBytes() {
		return nil, fmt.Errorf("%w: %d bytes of bits, want %d", ErrFormat, len(rest), f.rowBytes())
	}
	f.rows = [][]byte{rest}
	return f, nil
}

func decodeDynamic(b []byte) (*Filter, error) {
	f := &Filter{dynamic: true}
	b, err := f.readHeader(b)
	if err != nil {
		return nil, err
	}
	if len(b) < dynamicHeader {
		return nil, fmt.Errorf("%w: cut short", ErrFormat)
	}
	f.perRow = int32(binary.BigEndian.Uint32(b))
	f.count = int32(binary.BigEndian.Uint32(b[4:]))
	rows := int(int32(binary.BigEndian.Uint32(b[8:])))
	b = b[dynamicHeader:]
	if f.perRow < 1 || rows < 1 || rows > len(b)/rowHeader || len(b) != rows*(rowHeader+f.rowBytes()) {
		return nil, fmt.Errorf("%w: %d rows of %d bits in %d bytes", ErrFormat, rows, f.bits, len(b))
	}
	// The limit is not stored. Rows that are there stay, none is added.
	f.limit = rows * int(f.perRow)
	for range rows {
		row := Filter{}
		if b, err = row.readHeader(b); err != nil {
			return nil, err
		}
		if row.bits != f.bits || row.hashes != f.hashes {
			return nil, fmt.Errorf("%w: rows of different shape", ErrFormat)
		}
		f.rows = append(f.rows, b[:f.rowBytes():f.rowBytes()])
		b = b[f.rowBytes():]
	}
	return f, nil
}

func (f *Filter) rowBytes() int { return (int(f.bits) + 7) / 8 }

// readHeader takes version, hashes, kind of hash and bits off b. An old form
// without version and kind (its hash was another one) is refused.
func (f *Filter) readHeader(b []byte) ([]byte, error) {
	if len(b) < rowHeader {
		return nil, fmt.Errorf("%w: cut short", ErrFormat)
	}
	version := int32(binary.BigEndian.Uint32(b))
	f.hashes = int32(binary.BigEndian.Uint32(b[4:]))
	kind := b[8]
	f.bits = int32(binary.BigEndian.Uint32(b[9:]))
	if version != formatVersion || kind != hashMurmur {
		return nil, fmt.Errorf("%w: version %d with hash %d is not supported", ErrFormat, version, kind)
	}
	if f.hashes < 1 || f.hashes > maxHashes || f.bits < 1 {
		return nil, fmt.Errorf("%w: %d bits, %d hashes", ErrFormat, f.bits, f.hashes)
	}
	f.mod = newModulus(f.bits)
	return b[rowHeader:], nil
}

// maxHashes bounds the work that a broken filter can ask for; a rate of 1e-77
// would need as many.
const maxHashes = 256
