package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"math/big"
	"slices"
	"sort"
	"strconv"
	"strings"
	"unicode"
)

// defaultPartition is the folder value of rows that have no partition value.
const defaultPartition = "__HIVE_DEFAULT_PARTITION__"

// document is the state of one document as its database has it: what the table
// is to be equal to. Leaves are all leaf revisions, the winner first.
type document struct {
	ID      string
	Leaves  []string
	Deleted bool
	Body    []byte
}

// fieldKind is how a top-level field of the documents became a column: long,
// double, string, boolean, json (arrays and objects as JSON text), or mixed
// (whatever comes, as text).
type fieldKind string

// modelColumn is a column for a field of the documents.
type modelColumn struct {
	name string
	kind fieldKind
}

// modelOptions is how the table is configured.
type modelOptions struct {
	partition string // field that partitions the table; empty: none
	layout    string // Go layout of the partition's value, UTC; empty: the value's own text
	hard      bool   // deletions take the row away
	dropDoc   bool
	bare      bool   // folders are named by the value alone, unescaped
	stay      bool   // a row remains in its first partition
	scoped    bool   // a document has a row in each partition that it was ever in
	buckets   int    // of the bucket index; 0: bloom
	noCache   bool   // keys are looked for in the table each time
	fileBytes int    // at which a base file is full; 0: the default
	cdc       string // what change files hold; empty: there are none
	changelog bool   // files tell what was done to each row
}

// tableModel is what the table must show, computed from the documents alone and
// without any of the code under test: plain maps and encoding/json. It takes
// the state of the documents commit by commit, as tombstones leave it.
type tableModel struct {
	options modelOptions
	columns map[string]modelColumn    // by field
	rows    map[string]row            // by slot: the live view
	base    map[string]map[string]row // what base files hold, by file group and key
	fresh   []row                     // new in their partition, and in no base file so far
	// stood are the file groups whose base file holds a key, by key and
	// partition; told says that apply is given the base files of each commit.
	stood   map[string]map[string]string
	told    bool
	again   int            // base files that were written again
	lost    map[string]row // by key: the versions that another writer deleted
	commits []string       // instants, ascending
	at      []map[string]row
}

func newModel(o modelOptions) *tableModel {
	return &tableModel{options: o, rows: map[string]row{}, base: map[string]map[string]row{}, stood: map[string]map[string]string{},
		lost: map[string]row{}, columns: map[string]modelColumn{}}
}

// apply is one commit: the documents that changed since the last one, each in
// its newest state, and the base files that it wrote, if the model is told.
// A document may be given again unchanged.
func (m *tableModel) apply(instant string, documents []document, files ...baseFile) error {
	changed := slices.DeleteFunc(slices.Clone(documents), m.has)
	if err := m.infer(changed); err != nil {
		return err
	}
	for _, d := range changed {
		r, err := m.row(d)
		if err != nil {
			return fmt.Errorf("document %q: %w", d.ID, err)
		}
		r[colCommitTime] = instant
		m.put(d, r)
	}
	m.commits, m.at = append(m.commits, instant), append(m.at, maps.Clone(m.rows))
	return m.settle(instant, files)
}

// put puts a document's row into the table. A key that is new in a partition
// comes to a base file, one that is known there, or was and left its base row
// behind, to a log. A deletion says nothing of the partition: of several rows
// the newest stays as the tombstone.
func (m *tableModel) put(d document, r row) {
	partition := r[colPartition].(string)
	if d.Deleted {
		for _, old := range m.rowsOf(d.ID) {
			delete(m.rows, m.slot(d.ID, old[colPartition].(string)))
		}
	}
	if m.options.hard && d.Deleted {
		return
	}
	if m.stood[d.ID][partition] == "" {
		m.fresh = append(m.fresh, r)
	}
	m.rows[m.slot(d.ID, partition)] = r
	delete(m.lost, d.ID)
}

// erase takes a row away as another writer's delete of the order given does: only
// what is newer comes to the table again.
func (m *tableModel) erase(id string, order int64) {
	r := maps.Clone(m.rows[id])
	r["_rev_order"] = order
	m.lost[id] = r
	delete(m.rows, id)
}

// has says whether the table shows the document in this very state, or would not
// take it.
func (m *tableModel) has(d document) bool {
	if r, ok := m.lost[d.ID]; ok && generations(d.Leaves) <= r["_rev_order"].(int64) {
		return true
	}
	old, known := m.newest(d.ID)
	if m.options.hard && d.Deleted {
		return !known
	}
	if m.options.scoped && !d.Deleted {
		r := row{}
		if members, err := membersOf(d.Body); err == nil {
			m.place(r, members)
			old, known = m.rows[m.slot(d.ID, r[colPartition].(string))]
		}
	}
	return known && old["_rev"] == d.Leaves[0] && old["_rev_order"] == generations(d.Leaves)
}

// generations is the sum of the leaves' generations.
func generations(leaves []string) int64 {
	var sum int64
	for _, leaf := range leaves {
		text, _, _ := strings.Cut(leaf, "-")
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			panic(fmt.Sprintf("revision %q: %v", leaf, err)) // the test gave none
		}
		sum += n
	}
	return sum
}

// snapshot is what a reader of the whole table sees now.
func (m *tableModel) snapshot() []row { return m.complete(values(m.rows)) }

// asOf is what a reader of the whole table sees at a commit.
func (m *tableModel) asOf(instant string) []row {
	return m.complete(values(m.at[sort.SearchStrings(m.commits, instant)]))
}

// incremental is what a reader of the commits after begin, up to and with end,
// sees: of each document the state at end, when that range wrote it.
func (m *tableModel) incremental(begin, end string) []row {
	var out []row
	for _, r := range m.asOf(end) {
		if r[colCommitTime].(string) > begin {
			out = append(out, r)
		}
	}
	return out
}

// spans are all pairs of a commit, or the beginning, and a later commit.
func (m *tableModel) spans() [][2]string {
	var out [][2]string
	for i, begin := range append([]string{"000"}, m.commits...) {
		for _, end := range m.commits[i:] {
			out = append(out, [2]string{begin, end})
		}
	}
	return out
}

// fewSpans are each commit alone, all together, and all but the first or the last.
func (m *tableModel) fewSpans() [][2]string {
	last := len(m.commits) - 1
	out := [][2]string{{"000", m.commits[last]}, {m.commits[0], m.commits[last]}, {"000", m.commits[max(0, last-1)]}}
	begin := "000"
	for _, end := range m.commits {
		out = append(out, [2]string{begin, end})
		begin = end
	}
	return out
}

func values(rows map[string]row) []row {
	out := make([]row, 0, len(rows))
	for _, r := range rows {
		out = append(out, r)
	}
	return out
}

// complete gives rows the columns that came after them, as nulls: a reader
// shows a table in its newest schema.
func (m *tableModel) complete(rows []row) []row {
	for _, r := range rows {
		for _, c := range m.columns {
			if _, ok := r[c.name]; !ok {
				r[c.name] = nil
			}
		}
	}
	return rows
}

// infer makes columns for the fields that a commit is the first to have, by all
// values that its live documents give them.
func (m *tableModel) infer(changed []document) error {
	seen := map[string]map[fieldKind]bool{}
	var order []string
	for _, d := range changed {
		if d.Deleted {
			continue
		}
		members, err := membersOf(d.Body)
		if err != nil {
			return fmt.Errorf("document %q: %w", d.ID, err)
		}
		for _, f := range members {
			kind := narrowest(f.value)
			if _, known := m.columns[f.name]; known || kind == "" || strings.HasPrefix(f.name, "_") {
				continue
			}
			if seen[f.name] == nil {
				seen[f.name] = map[fieldKind]bool{}
				order = append(order, f.name)
			}
			seen[f.name][kind] = true
		}
	}
	for _, field := range order {
		m.columns[field] = modelColumn{name: m.free(field), kind: common(seen[field])}
	}
	return nil
}

// narrowest is the kind of one value; empty for null and for numbers that no
// column can hold as they are.
func narrowest(raw json.RawMessage) fieldKind {
	for _, kind := range []fieldKind{"boolean", "long", "double", "string", "json"} {
		if v, fits := kind.cell(raw); fits && v != nil {
			return kind
		}
	}
	return ""
}

// common is the kind that holds all that were seen.
func common(kinds map[fieldKind]bool) fieldKind {
	if len(kinds) == 2 && kinds["long"] && kinds["double"] {
		return "double"
	}
	for kind := range kinds {
		if len(kinds) == 1 {
			return kind
		}
	}
	return "mixed"
}

// free is the column name of a field: what Avro allows, and no name twice.
func (m *tableModel) free(field string) string {
	legal := strings.Map(func(r rune) rune {
		if r == '_' || r < 128 && (unicode.IsLetter(r) || unicode.IsDigit(r)) {
			return r
		}
		return '_'
	}, field)
	if legal == "" || legal[0] >= '0' && legal[0] <= '9' {
		legal = "_" + legal
	}
	name := legal
	for n := 2; m.taken(name); n++ {
		name = fmt.Sprintf("%s_%d", legal, n)
	}
	return name
}

func (m *tableModel) taken(name string) bool {
	for _, c := range m.columns {
		if strings.EqualFold(c.name, name) {
			return true
		}
	}
	return strings.EqualFold(name, "pt") && m.options.partition != ""
}

// row is the row of a document: envelope, columns, what did not fit them, and
// the document as received.
func (m *tableModel) row(d document) (row, error) {
	r := row{colKey: d.ID, "_id": d.ID, "_rev": d.Leaves[0], "_deleted": d.Deleted, "_op": "u",
		"_leaves": nil, "_attachments": nil, "_rescued": nil}
	r["_rev_order"] = generations(d.Leaves)
	if len(d.Leaves) > 1 {
		r["_leaves"] = asJSON(d.Leaves)
	}
	if !m.options.dropDoc {
		r["_doc"] = string(d.Body)
	}
	r = m.complete([]row{r})[0]
	if d.Deleted {
		r["_op"] = "d"
		m.leave(r)
		return r, nil
	}
	members, err := membersOf(d.Body)
	if err != nil {
		return nil, err
	}
	m.fill(r, members)
	m.place(r, members)
	if old, known := m.newest(d.ID); known && m.options.stay {
		r["pt"], r[colPartition] = old["pt"], old[colPartition]
	}
	return r, nil
}

// member is one top-level member of a document.
type member struct {
	name  string
	value json.RawMessage
}

// membersOf takes a document apart, in its order; of a name that comes twice
// the last value counts.
func membersOf(body []byte) ([]member, error) {
	d := json.NewDecoder(bytes.NewReader(body))
	if _, err := d.Token(); err != nil {
		return nil, err
	}
	var out []member
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return nil, err
		}
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			return nil, err
		}
		out = slices.DeleteFunc(out, func(m member) bool { return m.name == name })
		out = append(out, member{name.(string), value})
	}
	return out, nil
}

// fill puts the members into their columns, and into _rescued what does not fit.
func (m *tableModel) fill(r row, members []member) {
	var rescued []string
	for _, f := range members {
		if f.name == "_attachments" {
			r["_attachments"] = string(f.value)
		}
		if strings.HasPrefix(f.name, "_") {
			continue
		}
		c, ok := m.columns[f.name]
		v, fits := c.kind.cell(f.value)
		if ok && fits {
			r[c.name] = v
		} else if string(f.value) != "null" {
			rescued = append(rescued, asJSON(f.name)+":"+string(f.value))
		}
	}
	if len(rescued) > 0 {
		r["_rescued"] = "{" + strings.Join(rescued, ",") + "}"
	}
}

// cell is a JSON value in a column of this kind, or false when it does not fit.
// A number fits only when nothing of it is rounded away.
func (k fieldKind) cell(raw json.RawMessage) (any, bool) {
	var v any
	if err := decodeNumbers(raw, &v); err != nil {
		return nil, false
	}
	switch v := v.(type) {
	case nil:
		return nil, true
	case string:
		return v, k == "string" || k == "mixed"
	case bool:
		if k == "boolean" {
			return v, true
		}
	case json.Number:
		switch k {
		case "long":
			n, err := strconv.ParseInt(v.String(), 10, 64)
			return n, err == nil
		case "double":
			return exactDouble(v.String())
		}
	default:
		if k == "json" {
			return string(raw), true
		}
	}
	return string(raw), k == "mixed"
}

// exactDouble is the double of a number's text when the double, printed as short
// as it can be told apart, is the same number again. A whole number without
// fraction or exponent also has to be one that doubles count by ones.
func exactDouble(text string) (float64, bool) {
	x, err := strconv.ParseFloat(text, 64)
	said, valid := new(big.Rat).SetString(text)
	if err != nil || !valid {
		return 0, false
	}
	if !strings.ContainsAny(text, ".eE") && math.Abs(x) > 1<<53 {
		return 0, false
	}
	again, _ := new(big.Rat).SetString(strconv.FormatFloat(x, 'g', -1, 64))
	return x, again.Cmp(said) == 0
}

// asJSON is compact JSON with HTML characters as they are; keys are sorted.
func asJSON(v any) string {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		panic(err) // of strings and raw messages that were decoded before
	}
	return strings.TrimSuffix(b.String(), "\n")
}
