package reader

import (
	"fmt"
	"iter"
	"slices"

	"github.com/couch2hudi/couch2hudi/hudi"
	"github.com/couch2hudi/couch2hudi/hudi/basefile"
	"github.com/couch2hudi/couch2hudi/table"
)

// pushed is the part of a predicate that saves reading. What may be left out
// where is decided in docs/adr/0025-push-down.md: conditions on the key and the
// partition everywhere, since all versions of a row have the same; conditions
// on other columns only where nothing is merged, since a version that does not
// meet them may hide another one that does.
type pushed struct {
	// keys are the record keys that can be in the result, nil for all that meet
	// the tests on the key.
	keys *basefile.KeySet
	key  []test
	// partition are the tests on the partition path.
	partition []test
	// onKey and others are what the base file may leave out: always, and only
	// in a slice without logs.
	onKey, others []basefile.Hint
}

// pushDown splits a filter.
func pushDown(v *table.View, f *Filter) *pushed {
	p := &pushed{}
	key := rawKey(v.Table())
	for i := range f.tests {
		t := &f.tests[i]
		switch {
		case t.name == hudi.MetaPartitionPath:
			p.partition = append(p.partition, *t)
			continue
		case t.name == hudi.MetaRecordKey || (key != "" && t.name == key && t.class == classString):
			p.onRecordKey(*t)
		}
		if t.op != opIsNull && t.op != opNotEqual && t.class != classNone {
			p.others = append(p.others, basefile.Hint{Column: t.name, May: t.may})
		}
	}
	return p
}

// after leaves rows out, too, whose commit is not later than a time.
func (p *pushed) after(begin hudi.Time) *pushed {
	if begin == "" {
		return p
	}
	n := *p
	n.others = append(slices.Clone(p.others), basefile.Hint{Column: hudi.MetaCommitTime, May: func(_, greatest hudi.Value) bool {
		last, err := hudi.ParseTime(greatest.Text())
		return err != nil || len(last) != len(begin) || last.After(begin)
	}})
	return &n
}

// rawKey is the column whose value is the record key as it stands, "" when the
// table's keys are made in another way.
func rawKey(t *table.Table) string {
	p := t.Properties()
	fields := p.List(hudi.PropKeyFields)
	if len(fields) != 1 {
		return ""
	}
	const ours = "org.apache.hudi.keygen."
	switch p.Get(hudi.PropKeyGenerator) {
	case ours + "SimpleKeyGenerator", ours + "NonpartitionedKeyGenerator", ours + "TimestampBasedKeyGenerator":
		return fields[0]
	case "":
		if kind := p.Get(hudi.PropKeyGeneratorType); kind == "SIMPLE" || kind == "NON_PARTITION" || kind == "TIMESTAMP" {
			return fields[0]
		}
	}
	return ""
}

// onRecordKey takes a condition on the key.
func (p *pushed) onRecordKey(t test) {
	t.name, t.column = hudi.MetaRecordKey, -1
	p.key = append(p.key, t)
	if t.op != opIsNull && t.op != opNotNull && t.op != opNotEqual {
		p.onKey = append(p.onKey, basefile.Hint{Column: hudi.MetaRecordKey, May: t.may})
	}
	if t.op != opEqual && t.op != opIn {
		return
	}
	var keys []string
	for i := range t.operands {
		if key := t.operands[i].text; p.keys == nil || p.keys.Has(key) {
			keys = append(keys, key)
		}
	}
	p.keys = basefile.NewKeySet(keys)
}

// wants says whether the versions of a key can be in the result.
func (p *pushed) wants(key string) bool {
	if p.keys != nil && !p.keys.Has(key) {
		return false
	}
	for i := range p.key {
		if !p.key[i].holds(hudi.String(key)) {
			return false
		}
	}
	return true
}

// wantsKey says whether the versions of a key are to be merged.
func (o *Options) wantsKey(key string) bool {
	if o.Keys != nil && !o.Keys.Has(key) {
		return false
	}
	return o.push == nil || o.push.wants(key)
}

// within are those of the partitions that the options ask for.
func (o *Options) within(partitions []string) []string {
	return slices.DeleteFunc(slices.Clone(partitions), func(p string) bool {
		if len(o.Partitions) > 0 && !slices.Contains(o.Partitions, p) {
			return true
		}
		if o.push == nil {
			return false
		}
		for i := range o.push.partition {
			if !o.push.partition[i].holds(hudi.String(p)) {
				return true
			}
		}
		return false
	})
}

// rows are the rows of the slice's base file that have to be merged.
func (m *merger) rows(f *basefile.File) (iter.Seq2[*hudi.Record, error], error) {
	p := m.o.push
	switch {
	case m.o.Keys != nil:
		return f.Find(m.o.Keys, m.target, m.order), nil
	case p == nil:
		return f.Records(m.target, m.order), nil
	case p.keys != nil:
		keys, err := p.candidates(f)
		if err != nil {
			return nil, err
		}
		if keys.Len() == 0 {
			return func(func(*hudi.Record, error) bool) {}, nil
		}
		return f.Find(keys, m.target, m.order), nil
	}
	hints := p.onKey
	if len(m.slice.Logs) == 0 {
		hints = append(slices.Clone(hints), p.others...)
	}
	return f.Select(hints, m.target, m.order), nil
}

// candidates are the keys asked for that a base file may hold by the key range
// and the filter in its footer.
func (p *pushed) candidates(f *basefile.File) (*basefile.KeySet, error) {
	footer := f.Footer()
	ranged := footer.MinKey != "" || footer.MaxKey != ""
	keys := slices.DeleteFunc(p.keys.Keys(), func(key string) bool {
		return ranged && (hudi.CompareUTF16(key, footer.MinKey) < 0 || hudi.CompareUTF16(key, footer.MaxKey) > 0)
	})
	if len(keys) == 0 {
		return basefile.NewKeySet(nil), nil
	}
	filter, err := f.Bloom()
	if err != nil {
		return nil, fmt.Errorf("filter of keys: %w", err)
	}
	if filter != nil {
		keys = slices.DeleteFunc(keys, func(key string) bool { return !filter.Contains(key) })
	}
	return basefile.NewKeySet(keys), nil
}
