package avro

// maxVarint is the longest encoding of 64 bits, in bytes.
const maxVarint = 10

// AppendLong appends the Avro encoding of an int or long: zigzag, then seven
// bits a byte, lowest first.
func AppendLong(dst []byte, v int64) []byte {
	u := uint64(v)<<1 ^ uint64(v>>63)
	for u >= 0x80 {
		dst = append(dst, byte(u)|0x80)
		u >>= 7
	}
	return append(dst, byte(u))
}

// ReadLong reads an int or long from the start of b: its value and its length in
// bytes, which is 0 when b holds none (cut short, or longer than 64 bits).
func ReadLong(b []byte) (v int64, n int) {
	if len(b) > 0 && b[0] < 0x80 {
		return int64(b[0]>>1) ^ -int64(b[0]&1), 1
	}
	return longSlow(b)
}

func longSlow(b []byte) (int64, int) {
	var u uint64
	for i := range min(len(b), maxVarint) {
		c := b[i]
		if i == maxVarint-1 && c > 1 {
			return 0, 0
		}
		u |= uint64(c&0x7f) << (7 * i)
		if c < 0x80 {
			return int64(u>>1) ^ -int64(u&1), i + 1
		}
	}
	return 0, 0
}
