package bloom

import (
	"math"
	"math/bits"
)

// The hash is a relative of MurmurHash2 with 32 bits, as Hadoop has it. It
// differs from the textbook in the last one to three bytes of a key: they are
// taken in big-endian order and are sign-extended before they are shifted.
const (
	mix      = 0x5bd1e995
	wordSize = 4
)

// chain holds what is the same in every round of hashing one key. A filter
// hashes a key k times, each time with the last hash as seed; the words of the
// key are mixed here once instead of k times.
type chain struct {
	words []uint32
	tail  uint32
	// size is the key's length in bytes: it enters the seed.
	size uint32
}

// load prepares a chain for a key; its words go into the memory of words.
func load[T string | []byte](words []uint32, key T) chain {
	c := chain{words: words[:0], size: uint32(len(key))}
	i := 0
	for ; i+wordSize <= len(key); i += wordSize {
		k := (uint32(key[i]) | uint32(key[i+1])<<8 | uint32(key[i+2])<<16 | uint32(key[i+3])<<24) * mix
		k ^= k >> 24
		c.words = append(c.words, k*mix)
	}
	for j := 0; i < len(key); i++ {
		c.tail ^= uint32(int32(int8(key[len(key)-1-j]))) << (8 * j)
		j++
	}
	return c
}

// next is the hash with the given seed.
func (c *chain) next(seed uint32) uint32 {
	h := seed ^ c.size
	for _, k := range c.words {
		h = h*mix ^ k
	}
	if c.size%wordSize != 0 {
		h = (h ^ c.tail) * mix
	}
	return finish(h)
}

func finish(h uint32) uint32 {
	h ^= h >> 13
	h *= mix
	return h ^ h>>15
}

// next4 is next for four keys of one length. One chain waits for its own
// multiplications nearly all of the time; four of them fill the gaps.
func next4(c *[lanes]chain, s0, s1, s2, s3 uint32) (h0, h1, h2, h3 uint32) {
	n := c[0].size
	h0, h1, h2, h3 = s0^n, s1^n, s2^n, s3^n
	w0 := c[0].words
	w1, w2, w3 := c[1].words[:len(w0)], c[2].words[:len(w0)], c[3].words[:len(w0)]
	for i, k := range w0 {
		h0 = h0*mix ^ k
		h1 = h1*mix ^ w1[i]
		h2 = h2*mix ^ w2[i]
		h3 = h3*mix ^ w3[i]
	}
	if n%wordSize != 0 {
		h0 = (h0 ^ c[0].tail) * mix
		h1 = (h1 ^ c[1].tail) * mix
		h2 = (h2 ^ c[2].tail) * mix
		h3 = (h3 ^ c[3].tail) * mix
	}
	return finish(h0), finish(h1), finish(h2), finish(h3)
}

// modulus takes remainders by a fixed divisor without dividing (Lemire, Kaser,
// Kurz, "Faster remainder by direct computation", 2019): exact for 32 bits.
type modulus struct{ inverse, divisor uint64 }

func newModulus(bits int32) modulus {
	d := uint64(bits)
	return modulus{inverse: math.MaxUint64/d + 1, divisor: d}
}

// position is the bit that a hash stands for: the remainder as Java takes it,
// of the signed hash, without its sign.
func (m modulus) position(h uint32) uint32 {
	sign := uint32(int32(h) >> 31)
	n := uint64((h ^ sign) - sign)
	hi, _ := bits.Mul64(m.inverse*n, m.divisor)
	return uint32(hi)
}
