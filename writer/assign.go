package writer

import (
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
	// Slice is the file group: the latest slice of a known one, which gets a
	// log file, or only the Location of a new one, which gets a base file.
	Slice hudi.Slice
	// New says that the group is new.
	New bool
	// Records go into the file, in this order.
	Records []*hudi.Record
}

// Assign decides which file each record goes to. It is pure. Records of known
// file groups go to one new log file a group; new keys to base files, in the
// order of keys as UTF-16 units, a file being full at Options.FileBytes. The
// slices are the latest of every partition that the records name. The result
// is in the order of partitions and, within one, logs before base files.
func Assign(latest map[string][]hudi.Slice, rs []hudi.Located, o Options) ([]Assignment, error) {
	known, fresh := map[hudi.Location][]*hudi.Record{}, map[string][]*hudi.Record{}
	for i := range rs {
		at := rs[i].Location
		if at.File != "" {
			known[at] = append(known[at], &rs[i].Record)
			continue
		}
		if rs[i].Delete {
			return nil, fmt.Errorf("%w: delete of %q has no place", ErrLocation, rs[i].Key.Record)
		}
		fresh[at.Partition] = append(fresh[at.Partition], &rs[i].Record)
	}
	out := make([]Assignment, 0, len(known)+len(fresh))
	for at, records := range known {
		s, err := find(latest[at.Partition], at)
		if err != nil {
			return nil, err
		}
		out = append(out, Assignment{Slice: s, Records: records})
	}
	slices.SortFunc(out, func(a, b Assignment) int { return compareLocation(a.Slice.Location, b.Slice.Location) })
	for partition, records := range fresh {
		out = append(out, o.pack(partition, records)...)
	}
	slices.SortStableFunc(out, func(a, b Assignment) int {
		return strings.Compare(a.Slice.Partition, b.Slice.Partition)
	})
	for i := range out {
		if out[i].New {
			out[i].Slice.File = o.newFile()
		}
	}
	return out, nil
}

func compareLocation(a, b hudi.Location) int {
	if c := strings.Compare(a.Partition, b.Partition); c != 0 {
		return c
	}
	return strings.Compare(string(a.File), string(b.File))
}

func find(list []hudi.Slice, at hudi.Location) (hudi.Slice, error) {
	for i := range list {
		if list[i].File == at.File {
			return list[i], nil
		}
	}
	return hudi.Slice{}, fmt.Errorf("%w: %q in partition %q", ErrLocation, at.File, at.Partition)
}

// pack cuts the new keys of a partition into base files.
func (o Options) pack(partition string, records []*hudi.Record) []Assignment {
	slices.SortFunc(records, func(a, b *hudi.Record) int {
		return hudi.CompareUTF16(a.Key.Record, b.Key.Record)
	})
	var out []Assignment
	start, size, most := 0, int64(0), o.fileBytes()
	for i, r := range records {
		n := int64(r.Size())
		if i > start && size+n > most {
			out = append(out, newGroup(partition, records[start:i]))
			start, size = i, 0
		}
		size += n
	}
	return append(out, newGroup(partition, records[start:]))
}

func newGroup(partition string, records []*hudi.Record) Assignment {
	return Assignment{New: true, Records: records, Slice: hudi.Slice{Location: hudi.Location{Partition: partition}}}
}
