package bloom

// lanes is how many keys are hashed side by side.
const lanes = 4

// Builder collects the keys of a file whose number is not known before its
// end, and makes a filter of just the right size then. The keys themselves are
// kept: 30 hashes of a key would take more room than nearly any key. The zero
// Builder is ready for use.
type Builder struct {
	text []byte
	ends []uint32
	// chunks are full arenas: ends count within one, so that they fit 32 bits.
	chunks []arena
	count  int
}

type arena struct {
	text []byte
	ends []uint32
}

const arenaBytes = 1 << 20

// Add takes a key, copying it. The empty key is no key: it is left out.
func (b *Builder) Add(key string) {
	if key == "" {
		return
	}
	if len(b.text) > 0 && len(b.text)+len(key) > arenaBytes {
		b.chunks = append(b.chunks, arena{b.text, b.ends})
		b.text, b.ends = make([]byte, 0, arenaBytes), make([]uint32, 0, len(b.ends)+len(b.ends)/8)
	}
	b.text = append(b.text, key...)
	b.ends = append(b.ends, uint32(len(b.text)))
	b.count++
}

// Len is the number of keys so far.
func (b *Builder) Len() int { return b.count }

// Filter makes a dynamic filter of one row that holds all keys at the given
// false-positive rate.
func (b *Builder) Filter(p float64) *Filter {
	n := max(b.count, 1)
	f := NewDynamic(n, p, n)
	f.count = int32(b.count)
	fill := filler{f: f, groups: map[int]*group{}}
	for _, a := range append(b.chunks, arena{b.text, b.ends}) {
		start := uint32(0)
		for _, end := range a.ends {
			fill.add(a.text[start:end])
			start = end
		}
	}
	fill.flush()
	return f
}

// filler hashes keys of one length four at a time.
type filler struct {
	f      *Filter
	groups map[int]*group
	c      [lanes]chain
}

type group struct {
	keys [lanes][]byte
	n    int
}

func (l *filler) add(key []byte) {
	g := l.groups[len(key)]
	if g == nil {
		g = &group{}
		l.groups[len(key)] = g
	}
	g.keys[g.n] = key
	if g.n++; g.n == lanes {
		l.four(g)
		g.n = 0
	}
}

func (l *filler) four(g *group) {
	for i := range g.keys {
		l.c[i] = load(l.c[i].words, g.keys[i])
	}
	row, mod := l.f.rows[0], l.f.mod
	var a, b, c, d uint32
	for range l.f.hashes {
		a, b, c, d = next4(&l.c, a, b, c, d)
		set(row, mod.position(a))
		set(row, mod.position(b))
		set(row, mod.position(c))
		set(row, mod.position(d))
	}
}

// flush hashes what is left of each length.
func (l *filler) flush() {
	for _, g := range l.groups {
		for _, key := range g.keys[:g.n] {
			l.c[0] = load(l.c[0].words, key)
			h := uint32(0)
			for range l.f.hashes {
				h = l.c[0].next(h)
				set(l.f.rows[0], l.f.mod.position(h))
			}
		}
	}
}
