package avro

import (
	"bytes"
	"compress/flate"
	"crypto/rand"
	"fmt"
	"io"

	library "github.com/hamba/avro/v2"
)

const (
	fileMagic  = "Obj\x01"
	syncSize   = 16
	keySchema  = "avro.schema"
	keyCodec   = "avro.codec"
	codecNull  = "null"
	codecFlate = "deflate"
	// maxInflated bounds what a compressed file may expand to, in bytes.
	maxInflated = 1 << 30
)

// configuration is the library's with limits that come from the data: no
// string is longer than it, and arrays stay within a multiple of it. Arrays
// are written without byte counts, as Java does.
func configuration(size int) library.API {
	const maxExpansion, least = 64, 1024
	size = max(size, least)
	return library.Config{MaxByteSliceSize: size, MaxSliceAllocSize: size * maxExpansion, DisableBlockSizeHeader: true}.Freeze()
}

// Marshal encodes a Go value as a plain datum. Structs name their fields with
// `avro:"name"` tags; unions with null are pointers, slices or maps.
func (s *Schema) Marshal(v any) ([]byte, error) {
	l, err := s.parsed()
	if err != nil {
		return nil, err
	}
	b, err := s.encoding.Marshal(l, v)
	if err != nil {
		return nil, fmt.Errorf("encode avro: %w", err)
	}
	return b, nil
}

// Unmarshal decodes a plain datum into a Go value. The error wraps ErrData.
func (s *Schema) Unmarshal(data []byte, v any) error {
	rest, err := Skip(s.root, data)
	if err != nil {
		return err
	}
	if len(rest) > 0 {
		return fmt.Errorf("%w: %d bytes too many", ErrData, len(rest))
	}
	l, err := s.parsed()
	if err != nil {
		return err
	}
	if err := configuration(len(data)).Unmarshal(l, data, v); err != nil {
		return fmt.Errorf("%w: %w", ErrData, err)
	}
	return nil
}

// EncodeFile writes a container file that holds v alone, without compression,
// as the files of the timeline are.
func (s *Schema) EncodeFile(v any) ([]byte, error) {
	datum, err := s.Marshal(v)
	if err != nil {
		return nil, err
	}
	var sync [syncSize]byte
	if _, err := rand.Read(sync[:]); err != nil {
		return nil, fmt.Errorf("make a sync marker: %w", err)
	}
	b := make([]byte, 0, len(datum)+len(s.text)+len(fileMagic)+2*syncSize+2*len(keySchema))
	b = AppendLong(append(b, fileMagic...), 1)
	b = AppendText(AppendText(b, keySchema), s.text)
	b = append(AppendLong(b, 0), sync[:]...)
	b = AppendLong(AppendLong(b, 1), int64(len(datum)))
	return append(append(b, datum...), sync[:]...), nil
}

// AppendText appends a string or bytes.
func AppendText(dst []byte, s string) []byte {
	return append(AppendLong(dst, int64(len(s))), s...)
}

// DecodeFile reads the one record of a container file into v by the file's own
// schema: fields that v lacks are skipped, fields that the file lacks stay as
// they are. The error wraps ErrData.
func DecodeFile(data []byte, v any) error {
	s, datum, err := splitFile(data)
	if err != nil {
		return err
	}
	return s.Unmarshal(datum, v)
}

// IsFile says whether data begins as a container file does.
func IsFile(data []byte) bool { return bytes.HasPrefix(data, []byte(fileMagic)) }

// splitFile takes a container file apart: its schema and its one datum.
func splitFile(data []byte) (*Schema, []byte, error) {
	b, ok := bytes.CutPrefix(data, []byte(fileMagic))
	if !ok {
		return nil, nil, fmt.Errorf("%w: not a container file", ErrData)
	}
	meta, b, err := fileMeta(b)
	if err != nil {
		return nil, nil, err
	}
	s, err := Parse(meta[keySchema])
	if err != nil {
		return nil, nil, err
	}
	if len(b) < syncSize {
		return nil, nil, fmt.Errorf("%w: container file cut short", ErrData)
	}
	sync, b := b[:syncSize], b[syncSize:]
	count, n := ReadLong(b)
	if n == 0 || count != 1 {
		return nil, nil, fmt.Errorf("%w: a block of %d records where one is expected", ErrData, count)
	}
	datum, rest, err := ReadText(b[n:])
	if err != nil {
		return nil, nil, err
	}
	if !bytes.Equal(rest, sync) {
		return nil, nil, fmt.Errorf("%w: the file does not end with its sync marker", ErrData)
	}
	datum, err = inflate(meta[keyCodec], datum)
	return s, datum, err
}

func fileMeta(b []byte) (map[string]string, []byte, error) {
	t := &Type{Kind: Map, Item: &Type{Kind: Bytes}}
	meta := map[string]string{}
	for {
		count, rest, err := ReadBlock(t, b)
		if err != nil {
			return nil, nil, err
		}
		b = rest
		if count == 0 {
			return meta, b, nil
		}
		for range count {
			key, rest, err := ReadText(b)
			if err != nil {
				return nil, nil, err
			}
			value, rest, err := ReadText(rest)
			if err != nil {
				return nil, nil, err
			}
			meta[string(key)], b = string(value), rest
		}
	}
}

func inflate(codec string, datum []byte) ([]byte, error) {
	switch codec {
	case "", codecNull:
		return datum, nil
	case codecFlate:
		out, err := io.ReadAll(io.LimitReader(flate.NewReader(bytes.NewReader(datum)), maxInflated))
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrData, err)
		}
		return out, nil
	}
	return nil, fmt.Errorf("%w: compression %q", ErrData, codec)
}
