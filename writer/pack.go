package writer

import (
	"cmp"
	"maps"
	"slices"

	"github.com/couch2hudi/couch2hudi/hudi"
)

// packer decides where new keys go.
type packer struct {
	o      Options
	latest map[string][]hudi.Slice
	cdc    hudi.CDCMode
	// updated are groups that are not written again: in a base file a row before an
	// update has no place.
	updated map[hudi.Location][]*hudi.Located
	sizes   sizes
	// known are the groups that are there, created the new ones; rewritten are
	// the places in known of those that are written again.
	known, created []Assignment
	rewritten      map[hudi.Location]int
}

// A base file below this part of Options.FileBytes is small: Hudi's own 100 MB
// of 120.
const smallNum, smallDen = 5, 6

// full is the size from which on a base file takes no more new keys.
func (o Options) full() int64 { return max(1, o.fileBytes()*smallNum/smallDen) }

// small is a file group that can take new keys.
type small struct {
	slice hudi.Slice
	// cost is what rewriting it reads: the bytes of its base file and logs.
	cost int64
}

// pack finds a place for the new keys of each partition, in the order of keys:
// what fills a file is a new group; the rest goes to small groups, those first
// that cost least, as long as all that the commit rewrites stays within
// MaxRewrite; what is left then is a new group, too (docs/adr/0016).
func (p *packer) pack(fresh map[string][]*hudi.Located) {
	rest := map[string][]*hudi.Located{}
	bytes := int64(0)
	for partition, records := range fresh {
		rest[partition] = p.whole(partition, records)
		bytes += p.sizes.of(rest[partition])
	}
	budget := p.o.budget(bytes)
	var all []small
	for partition, records := range rest {
		if len(records) > 0 {
			all = append(all, p.smallOf(p.latest[partition], budget)...)
		}
	}
	slices.SortFunc(all, func(a, b small) int {
		return cmp.Or(cmp.Compare(a.cost, b.cost), compareLocation(a.slice.Location, b.slice.Location))
	})
	for _, s := range all {
		if s.cost > budget {
			break
		}
		records := rest[s.slice.Partition]
		n := p.sizes.fit(records, p.o.fileBytes()-s.slice.Base.Size)
		if n == 0 {
			continue
		}
		budget -= s.cost
		p.rewritten[s.slice.Location] = len(p.known)
		p.known = append(p.known, Assignment{Slice: s.slice, Rewrite: true, Records: slices.Clone(records[:n])})
		rest[s.slice.Partition] = records[n:]
	}
	for _, partition := range slices.Sorted(maps.Keys(rest)) {
		if records := rest[partition]; len(records) > 0 {
			p.create(hudi.Location{Partition: partition}, records)
		}
	}
}

// budget is what a commit may rewrite to place so many bytes of new keys: so
// many times as much, so that each byte is written again a bounded number of
// times, and a commit costs what its own size says; but always a little.
func (o Options) budget(bytes int64) int64 {
	times, most := int64(rewriteFactor), o.maxRewrite()
	if o.Backlog {
		times, most = times/backlogShare, most/backlogShare
	}
	return min(most, max(times*bytes, leastRewrite))
}

const (
	rewriteFactor = 16
	leastRewrite  = 256 << 10
	// backlogShare is the part of that while more records wait.
	backlogShare = 4
)

// whole makes new groups of what fills them, and gives back the rest.
func (p *packer) whole(partition string, records []*hudi.Located) []*hudi.Located {
	for left := p.sizes.of(records); len(records) > 0 && left >= p.o.full(); {
		n := max(1, p.sizes.fit(records, p.o.fileBytes()))
		left -= p.sizes.of(records[:n])
		p.create(hudi.Location{Partition: partition}, records[:n])
		records = records[n:]
	}
	return records
}

// smallOf are the groups that may take new keys. One without a base file takes
// none: it is another writer's. One in a pending compaction neither: that
// reads the files it has now. Where change files hold no more than keys one with
// logs takes none: Hudi's readers take what was before from the base file alone.
func (p *packer) smallOf(list []hudi.Slice, budget int64) []small {
	var out []small
	for _, s := range list {
		if s.Base.Name == "" || s.Compacting != "" || s.Base.Size >= p.o.full() || p.cdc == hudi.CDCOpKeyOnly && len(s.Logs) > 0 ||
			p.updated[s.Location] != nil {
			continue
		}
		cost := s.Base.Size
		for _, log := range s.Logs {
			cost += log.Size
		}
		if cost <= budget {
			out = append(out, small{s, cost})
		}
	}
	return out
}

// sizes estimates what records take in a base file.
type sizes struct {
	// ratio is stored bytes to bytes in memory.
	ratio float64
}

const (
	// likelyRatio is assumed while the table has no base file to learn from.
	likelyRatio = 0.25
	// leastRatio, mostRatio bound what is learnt: one batch of odd documents
	// says little of the next.
	leastRatio, mostRatio = 1.0 / 64, 1.0
)

// sizesOf learns from the mean size of a stored row and that of a row of the
// batch.
func sizesOf(rowBytes float64, fresh map[string][]*hudi.Located) sizes {
	var held, rows float64
	for _, records := range fresh {
		for _, r := range records {
			held += float64(r.Size())
			rows++
		}
	}
	if rowBytes <= 0 || held <= 0 {
		return sizes{likelyRatio}
	}
	return sizes{min(max(rowBytes*rows/held, leastRatio), mostRatio)}
}

// of is about how many bytes records take.
func (s sizes) of(records []*hudi.Located) int64 {
	var held int64
	for _, r := range records {
		held += int64(r.Size())
	}
	return int64(float64(held) * s.ratio)
}

// fit is how many of the records, from the first on, take no more than most
// bytes.
func (s sizes) fit(records []*hudi.Located, most int64) int {
	held := 0.0
	for i, r := range records {
		if held += float64(r.Size()) * s.ratio; held > float64(most) {
			return i
		}
	}
	return len(records)
}
