package bloom

// probeHashes is how many hashes of a key a Probe keeps: in a filter filled as
// designed half of the bits are set, so that they let one key in 256 through.
const probeHashes = 8

// Probe is a key with its first hashes, which are the same for all filters: to
// ask many filters for one key. It may be used concurrently.
type Probe struct {
	key    string
	hashes [probeHashes]uint32
}

// NewProbe hashes a key.
func NewProbe(key string) Probe {
	p := Probe{key: key}
	if key == "" {
		return p
	}
	var words [stackWords]uint32
	c := load(words[:0], key)
	h := uint32(0)
	for i := range p.hashes {
		h = c.next(h)
		p.hashes[i] = h
	}
	return p
}

// Key is the key that the Probe is made of.
func (p *Probe) Key() string { return p.key }

// MayContain is Contains for the key of a Probe.
func (f *Filter) MayContain(p *Probe) bool {
	if p.key == "" {
		return false
	}
	for _, row := range f.rows {
		if f.probed(p, row) {
			return f.Contains(p.key)
		}
	}
	return false
}

// probed says whether the bits of the Probe's hashes are set in a row.
func (f *Filter) probed(p *Probe, row []byte) bool {
	for _, h := range p.hashes[:min(int(f.hashes), probeHashes)] {
		at := f.mod.position(h)
		if row[at>>3]&(1<<(at&7)) == 0 {
			return false
		}
	}
	return true
}
