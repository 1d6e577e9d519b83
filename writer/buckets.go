package writer

import (
	"maps"
	"slices"

	"github.com/couch2hudi/couch2hudi/hudi"
)

// buckets gives new keys to the file groups of their buckets: one a partition
// and bucket, whatever its size. Where there is one the keys go to its log,
// with what else the commit has for it.
func (p *packer) buckets(fresh map[string][]*hudi.Located, known map[hudi.Location][]*hudi.Located) {
	for _, partition := range slices.Sorted(maps.Keys(fresh)) {
		records := fresh[partition]
		groups := map[int]hudi.FileID{}
		for _, s := range p.latest[partition] {
			if b, ok := hudi.BucketOf(s.File); ok {
				groups[b] = s.File
			}
		}
		first := map[int][]*hudi.Located{}
		for _, r := range records {
			b := hudi.Bucket(r.Key.Record, p.o.Buckets)
			if file, there := groups[b]; there {
				at := hudi.Location{Partition: partition, File: file}
				known[at] = append(known[at], r)
			} else {
				first[b] = append(first[b], r)
			}
		}
		for _, b := range slices.Sorted(maps.Keys(first)) {
			p.create(hudi.Location{Partition: partition, File: hudi.BucketFile(b, p.o.newID())}, first[b])
		}
	}
}
