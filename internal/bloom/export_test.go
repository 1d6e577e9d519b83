package bloom

// Hash is one round of hashing, for the vectors.
func Hash(key string, seed uint32) uint32 {
	c := load(nil, []byte(key))
	return c.next(seed)
}

// Position is the bit of a hash, for the vectors.
func Position(h uint32, bits int32) uint32 { return newModulus(bits).position(h) }
