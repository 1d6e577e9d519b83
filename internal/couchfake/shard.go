package couchfake

import "sort"

// blockSize is how many entries of a shard's log share one count of dead entries.
const blockSize = 1024

// shard is one of the q parts of a database: a log of versions, by update number. Guarded by the database's lock.
type shard struct {
	token  uint64            // names this copy of the shard within a seq
	origin map[uint64]uint64 // tokens of earlier copies, and up to which of their update numbers this copy knows
	update uint64
	log    []*version
	dead   []int32 // entries of each block that are gone
	gone   int     // their sum
}

// append puts a version at the end of the log.
func (s *shard) append(v *version) {
	s.update++
	v.update = s.update
	if len(s.log)%blockSize == 0 {
		s.dead = append(s.dead, 0)
	}
	s.log = append(s.log, v)
}

// bury marks a version as replaced, and rewrites the log when most of it is dead. Readers hold update numbers, never positions.
func (s *shard) bury(v *version) {
	v.gone = true
	s.dead[s.after(v.update-1)/blockSize]++
	s.gone++
	if s.gone > 4*blockSize && s.gone > len(s.log)/2 {
		s.rewrite()
	}
}

func (s *shard) rewrite() {
	kept := make([]*version, 0, len(s.log)-s.gone+blockSize)
	for _, v := range s.log {
		if !v.gone {
			kept = append(kept, v)
		}
	}
	s.log, s.gone = kept, 0
	s.dead = make([]int32, (len(kept)+blockSize-1)/blockSize)
}

// after is the position of the first entry behind an update number.
func (s *shard) after(update uint64) int { return after(s.log, update) }

func after(log []*version, update uint64) int {
	return sort.Search(len(log), func(i int) bool { return log[i].update > update })
}

// pending counts the documents behind an update number.
func (s *shard) pending(update uint64) int {
	i := s.after(update)
	n := len(s.log) - i
	for i < len(s.log) && i%blockSize != 0 {
		if s.log[i].gone {
			n--
		}
		i++
	}
	for b := (i + blockSize - 1) / blockSize; b < len(s.dead); b++ {
		n -= int(s.dead[b])
	}
	return n
}

// resume is where a seq that names token and an update number stands in this copy.
func (s *shard) resume(token, update uint64) uint64 {
	known := s.update
	if token != s.token {
		var ok bool
		if known, ok = s.origin[token]; !ok {
			return 0
		}
	}
	return min(update, known)
}

// replace makes this another copy of the shard, one that knows of the seqs of the old copy only up to an update number.
func (s *shard) replace(token, known uint64) {
	next := map[uint64]uint64{s.token: min(known, s.update)}
	for t, upTo := range s.origin {
		next[t] = min(upTo, known)
	}
	s.token, s.origin = token, next
}
