package writer

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/couch2hudi/couch2hudi/hudi"
)

// ErrLocation marks a record whose place is not in the table: whoever located
// it saw another state.
var ErrLocation = errors.New("file group is not in the table")

// Assignment is one file to write.
type Assignment struct {
	// Slice is the file group: the latest slice of a known one, or only the
	// Location of a new one.
	Slice hudi.Slice
	// New says that the group is new and gets a base file. Rewrite says that
	// the slice gets a new base file with all its rows and the records. A known
	// group that is not rewritten gets a log file.
	New, Rewrite bool
	// Records go into the file, in this order; a rewritten file is in the order
	// of keys whatever theirs.
	Records []*hudi.Located
}

// State is what Assign knows of the table.
type State struct {
	// Latest are the latest slices of every partition that the records name.
	Latest map[string][]hudi.Slice
	// RowBytes is about how many bytes a row takes in the table's base files, 0
	// when nothing is known.
	RowBytes float64
	// CDC is what change files the table keeps.
	CDC hudi.CDCMode
	// Changelog says that files tell what was done to each row.
	Changelog bool
}

// Assign decides which file each record goes to. It is pure. Records of known
// file groups go to one new log file a group. New keys go to small base files,
// which are written again with all that the commit has for them, as far as
// Options.MaxRewrite allows, and to new base files; with Options.Buckets to the
// file group of their bucket, and it is a hudi.ErrBuckets when the groups of a
// partition are not those of the buckets. New base files are in the order of
// keys as UTF-16 units. The result is in the order of partitions and, within
// one, known groups before new ones.
func Assign(st State, rs []hudi.Located, o Options) ([]Assignment, error) {
	known, fresh := map[hudi.Location][]*hudi.Located{}, map[string][]*hudi.Located{}
	for i := range rs {
		at := rs[i].Location
		if at.File != "" {
			known[at] = append(known[at], &rs[i])
			continue
		}
		if rs[i].Delete {
			return nil, fmt.Errorf("%w: delete of %q has no place", ErrLocation, rs[i].Key.Record)
		}
		fresh[at.Partition] = append(fresh[at.Partition], &rs[i])
	}
	for _, records := range fresh {
		slices.SortFunc(records, func(a, b *hudi.Located) int {
			return hudi.CompareUTF16(a.Key.Record, b.Key.Record)
		})
	}
	p := &packer{o: o, latest: st.Latest, cdc: st.CDC, sizes: sizesOf(st.RowBytes, fresh), rewritten: map[hudi.Location]int{}}
	if o.Buckets > 0 {
		if err := p.buckets(fresh, known); err != nil {
			return nil, err
		}
	} else {
		if st.Changelog {
			p.updated = known
		}
		p.pack(fresh)
	}
	for at, records := range known {
		if err := p.update(at, records); err != nil {
			return nil, err
		}
	}
	slices.SortFunc(p.known, func(a, b Assignment) int { return compareLocation(a.Slice.Location, b.Slice.Location) })
	out := slices.Concat(p.known, p.created)
	slices.SortStableFunc(out, func(a, b Assignment) int {
		return strings.Compare(a.Slice.Partition, b.Slice.Partition)
	})
	for i := range out {
		if out[i].New && out[i].Slice.File == "" {
			out[i].Slice.File = o.newFile()
		}
	}
	return out, nil
}

func compareLocation(a, b hudi.Location) int {
	return cmp.Or(strings.Compare(a.Partition, b.Partition), strings.Compare(string(a.File), string(b.File)))
}

func find(list []hudi.Slice, at hudi.Location) (hudi.Slice, error) {
	for i := range list {
		if list[i].File == at.File {
			return list[i], nil
		}
	}
	return hudi.Slice{}, fmt.Errorf("%w: %q in partition %q", ErrLocation, at.File, at.Partition)
}

// update gives a known group its records: those that the commit rewrites take
// them then, all others get a log file.
func (p *packer) update(at hudi.Location, records []*hudi.Located) error {
	if i, ok := p.rewritten[at]; ok {
		p.known[i].Records = append(p.known[i].Records, records...)
		return nil
	}
	s, err := find(p.latest[at.Partition], at)
	if err != nil {
		return err
	}
	p.known = append(p.known, Assignment{Slice: s, Records: records})
	return nil
}

// create adds a new group of new keys.
func (p *packer) create(at hudi.Location, records []*hudi.Located) {
	p.created = append(p.created, Assignment{New: true, Records: records, Slice: hudi.Slice{Location: at}})
}
