package e2e

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf16"

	"github.com/couch2hudi/couch2hudi/hudi/basefile"
)

// baseFile is a base file that a commit wrote, by its write stats: the file
// group, and which keys are in it. What their rows are to be, the model knows.
type baseFile struct {
	partition, group string
	keys             []string
}

// settle puts the rows of a commit into the base files that it wrote: those that
// are new in their partition and, where a group's base file was written again,
// the present rows of all its keys. When files are not told each commit counts
// as having written one, of its new rows.
func (m *tableModel) settle(instant string, files []baseFile) error {
	waiting := map[string]row{}
	for _, r := range m.fresh {
		key, partition := r[colKey].(string), r[colPartition].(string)
		waiting[partition+"|"+key] = r
		if !m.told {
			m.hold(key, r, instant)
		}
	}
	m.fresh = nil
	if !m.told {
		return nil
	}
	before := len(m.base)
	for _, f := range files {
		if err := m.settleFile(instant, f, waiting); err != nil {
			return err
		}
	}
	if m.options.buckets > 0 {
		return m.settleBuckets(instant, waiting, before+len(files))
	}
	if len(waiting) > 0 {
		return fmt.Errorf("commit %s: %q are new and in no base file", instant, slices.Collect(maps.Keys(waiting)))
	}
	return nil
}

// settleFile fills a group with a base file's rows.
func (m *tableModel) settleFile(instant string, f baseFile, waiting map[string]row) error {
	old := m.base[f.group]
	if old != nil {
		m.again++
	}
	m.base[f.group] = map[string]row{}
	for _, key := range f.keys {
		r, live := m.rows[m.slot(key, f.partition)]
		if !live || r[colPartition] != f.partition {
			return fmt.Errorf("commit %s: %q is in a base file of partition %q and should not be", instant, key, f.partition)
		}
		if at := m.stood[key][f.partition]; at != f.group && waiting[f.partition+"|"+key] == nil {
			return fmt.Errorf("commit %s: %q came from group %s to %s", instant, key, at, f.group)
		}
		m.hold(key, r, f.group)
		delete(waiting, f.partition+"|"+key)
	}
	return m.forget(instant, f, old)
}

// settleBuckets checks that each bucket of a partition has one group, which has
// its keys alone; keys that wait have one, and are in its log.
func (m *tableModel) settleBuckets(instant string, waiting map[string]row, groups int) error {
	if len(m.base) != groups {
		return fmt.Errorf("commit %s: a bucket's base file was written again", instant)
	}
	group := map[string]string{}
	for name, rows := range m.base {
		for key, r := range rows {
			at := m.bucket(key, r)
			if group[at] != "" && group[at] != name || !strings.HasPrefix(name, at+"-") {
				return fmt.Errorf("commit %s: %q of bucket %s is in group %s, others in %s", instant, key, at, name, group[at])
			}
			group[at] = name
		}
	}
	for _, r := range waiting {
		if at := m.bucket(r[colKey].(string), r); group[at] == "" {
			return fmt.Errorf("commit %s: %q is in no base file, nor has its bucket %s one", instant, r[colKey], at)
		}
	}
	return nil
}

// bucket is the partition and the bucket of a key, as ids of file groups begin:
// Java's hash of the key as the one element of a list. No key of the tests is
// one that Hudi takes apart.
func (m *tableModel) bucket(key string, r row) string {
	hash := int32(0)
	for _, unit := range utf16.Encode([]rune(key)) {
		hash = 31*hash + int32(unit)
	}
	return fmt.Sprintf("%s/%08d", r[colPartition], int((31+hash)&math.MaxInt32)%m.options.buckets)
}

// hold puts a row into the base file of a group.
func (m *tableModel) hold(key string, r row, group string) {
	if m.base[group] == nil {
		m.base[group] = map[string]row{}
	}
	if m.stood[key] == nil {
		m.stood[key] = map[string]string{}
	}
	m.base[group][key], m.stood[key][r[colPartition].(string)] = r, group
}

// forget checks that a base file that was written again has lost no row of the
// old one, and drops what was hidden there: a key that was deleted or moved away
// is new when it comes back.
func (m *tableModel) forget(instant string, f baseFile, old map[string]row) error {
	for key := range old {
		if m.base[f.group][key] != nil {
			continue
		}
		if r, live := m.rows[m.slot(key, f.partition)]; live && r[colPartition] == f.partition {
			return fmt.Errorf("commit %s: the new base file of %s lacks %q", instant, f.group, key)
		}
		delete(m.stood[key], f.partition)
	}
	return nil
}

// readOptimized is what base files alone show while nothing was compacted: each
// key as it was when its group's base file was last written.
func (m *tableModel) readOptimized() []row {
	var out []row
	for _, rows := range m.base {
		out = append(out, values(rows)...)
	}
	return m.complete(out)
}

// baseFilesOf reads from a table which base files a commit wrote.
func baseFilesOf(table, instant string) ([]baseFile, error) {
	data, err := os.ReadFile(filepath.Join(table, ".hoodie", instant+".deltacommit"))
	if err != nil {
		return nil, err
	}
	var commit struct {
		Stats map[string][]struct {
			FileID string `json:"fileId"`
			Path   string `json:"path"`
		} `json:"partitionToWriteStats"`
	}
	if err := json.Unmarshal(data, &commit); err != nil {
		return nil, err
	}
	var out []baseFile
	for partition, stats := range commit.Stats {
		for _, s := range stats {
			if !strings.HasSuffix(s.Path, ".parquet") {
				continue
			}
			keys, err := keysIn(filepath.Join(table, s.Path))
			if err != nil {
				return nil, err
			}
			out = append(out, baseFile{partition, partition + "/" + s.FileID, keys})
		}
	}
	return out, nil
}

// keysIn are the keys of a base file.
func keysIn(path string) ([]string, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	f, err := basefile.Open(file, info.Size())
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	var keys []string
	for key, err := range f.Keys() {
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		keys = append(keys, strings.Clone(key))
	}
	return keys, nil
}
