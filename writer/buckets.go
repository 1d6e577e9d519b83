package writer

import (
	"maps"
	"slices"

	"github.com/couch2hudi/couch2hudi/hudi"
)

// buckets gives new keys to the file groups of their buckets: one a partition
// and bucket, whatever its size. Where there is one the keys go to its log,
// with what else the commit has for it; the first of a bucket go to a base file,
// because some readers see no group without one.
func (p *packer) buckets(fresh map[string][]*hudi.Located, known map[hudi.Location][]*hudi.Located) error {
	for _, partition := range slices.Sorted(maps.Keys(fresh)) {
		groups, err := hudi.BucketSlices(p.latest[partition], p.o.Buckets)
		if err != nil {
			return err
		}
		first := map[int][]*hudi.Located{}
		for _, r := range fresh[partition] {
			b := hudi.BucketBy(r.Key.Record, p.o.hashField(), p.o.Buckets)
			if s := groups[b]; s != nil {
				known[s.Location] = append(known[s.Location], r)
			} else {
				first[b] = append(first[b], r)
			}
		}
		for _, b := range slices.Sorted(maps.Keys(first)) {
			p.create(hudi.Location{Partition: partition, File: hudi.BucketFile(b, p.o.newID())}, first[b])
		}
	}
	return nil
}
