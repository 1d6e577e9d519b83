package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/big"
	"sort"
	"strconv"
	"strings"
	"time"
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

// modelColumn says that a top-level field of the documents is a column: its
// kind is long, double, string or boolean. A field of arrays or objects is a
// string column that holds JSON text (nested).
type modelColumn struct {
	field, name, kind string
	nested            bool
}

// modelOptions is how the table is configured.
type modelOptions struct {
	columns   []modelColumn
	partition string // field that partitions the table; empty: none
	layout    string // Go layout of the partition's value, UTC
	dropDoc   bool
}

// tableModel is what the table must show, computed from the documents alone and
// without any of the code under test: plain maps and encoding/json. It takes
// the state of the documents commit by commit, as tombstones leave it.
type tableModel struct {
	options modelOptions
	rows    map[string]row // by key: the live view
	base    []row          // what base files hold: each row as it came to its partition
	commits []string       // instants, ascending
	at      []map[string]row
}

func newModel(o modelOptions) *tableModel {
	return &tableModel{options: o, rows: map[string]row{}}
}

// apply is one commit: the documents that changed since the last one, each in
// its newest state. A document may be given again unchanged.
func (m *tableModel) apply(instant string, changed []document) error {
	for _, d := range changed {
		r, err := m.row(d)
		if err != nil {
			return fmt.Errorf("document %q: %w", d.ID, err)
		}
		old, known := m.rows[d.ID]
		if known && old["_rev_order"] == r["_rev_order"] && old["_rev"] == r["_rev"] {
			continue
		}
		r[colCommitTime] = instant
		m.rows[d.ID] = r
		if !known || old[colPartition] != r[colPartition] {
			m.base = append(m.base, r)
		}
	}
	state := make(map[string]row, len(m.rows))
	for k, r := range m.rows {
		state[k] = r
	}
	m.commits, m.at = append(m.commits, instant), append(m.at, state)
	return nil
}

// snapshot is what a reader of the whole table sees now.
func (m *tableModel) snapshot() []row { return values(m.rows) }

// asOf is what a reader of the whole table sees at a commit.
func (m *tableModel) asOf(instant string) []row {
	return values(m.at[sort.SearchStrings(m.commits, instant)])
}

// readOptimized is what base files alone show while nothing was compacted and
// no base file was written again: the first state of each key in each partition.
func (m *tableModel) readOptimized() []row { return m.base }

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

func values(rows map[string]row) []row {
	out := make([]row, 0, len(rows))
	for _, r := range rows {
		out = append(out, r)
	}
	return out
}

// row is the row of a document: envelope, columns, what did not fit them, and
// the document as received.
func (m *tableModel) row(d document) (row, error) {
	r := row{colKey: d.ID, "_id": d.ID, "_rev": d.Leaves[0], "_deleted": d.Deleted, "_op": "u",
		"_leaves": nil, "_attachments": nil, "_rescued": nil}
	var sum int64
	for _, leaf := range d.Leaves {
		generation, _, _ := strings.Cut(leaf, "-")
		n, err := strconv.ParseInt(generation, 10, 64)
		if err != nil {
			return nil, fmt.Errorf("revision %q: %w", leaf, err)
		}
		sum += n
	}
	r["_rev_order"] = sum
	if len(d.Leaves) > 1 {
		r["_leaves"] = asJSON(d.Leaves)
	}
	if !m.options.dropDoc {
		r["_doc"] = string(d.Body)
	}
	for _, c := range m.options.columns {
		r[c.name] = nil
	}
	if d.Deleted {
		r["_op"] = "d"
		m.stay(r)
		return r, nil
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(d.Body, &fields); err != nil {
		return nil, err
	}
	if a, ok := fields["_attachments"]; ok {
		r["_attachments"] = string(a)
	}
	m.fill(r, fields)
	m.place(r, fields)
	return r, nil
}

// fill puts the fields into their columns, and into _rescued what does not fit.
func (m *tableModel) fill(r row, fields map[string]json.RawMessage) {
	rescued := map[string]json.RawMessage{}
	for _, c := range m.options.columns {
		raw, ok := fields[c.field]
		if !ok || string(raw) == "null" {
			continue
		}
		if v, fits := c.value(raw); fits {
			r[c.name] = v
		} else {
			rescued[c.field] = raw
		}
	}
	if len(rescued) > 0 {
		r["_rescued"] = asJSON(rescued)
	}
}

// value is the cell of a JSON value, or false when it does not fit the column.
// A number fits only when nothing of it is rounded away.
func (c modelColumn) value(raw json.RawMessage) (any, bool) {
	var v any
	if err := decodeNumbers(raw, &v); err != nil {
		return nil, false
	}
	switch v := v.(type) {
	case string:
		return v, c.kind == "string" && !c.nested
	case bool:
		return v, c.kind == "boolean"
	case json.Number:
		return c.number(v.String())
	}
	return string(raw), c.nested
}

func (c modelColumn) number(text string) (any, bool) {
	switch c.kind {
	case "long":
		n, err := strconv.ParseInt(text, 10, 64)
		return n, err == nil
	case "double":
		x, err := strconv.ParseFloat(text, 64)
		if err != nil {
			return nil, false
		}
		if strings.ContainsAny(text, ".eE") {
			return x, true
		}
		whole, _ := new(big.Float).SetPrec(2000).SetString(text)
		return x, whole != nil && whole.Cmp(big.NewFloat(x)) == 0
	}
	return nil, false
}

// place gives a live row its partition, by the field and format of the options.
func (m *tableModel) place(r row, fields map[string]json.RawMessage) {
	if m.options.partition == "" {
		r[colPartition] = ""
		return
	}
	value, ok := partitionValue(fields[m.options.partition], m.options.layout)
	if !ok {
		r["pt"], r[colPartition] = nil, "pt="+defaultPartition
		return
	}
	r["pt"], r[colPartition] = value, "pt="+value
}

// stay leaves a deleted document where it was: its body, if any, does not move it.
func (m *tableModel) stay(r row) {
	if m.options.partition == "" {
		r[colPartition] = ""
		return
	}
	if old, known := m.rows[r[colKey].(string)]; known {
		r["pt"], r[colPartition] = old["pt"], old[colPartition]
		return
	}
	r["pt"], r[colPartition] = nil, "pt="+defaultPartition
}

// partitionValue understands RFC 3339, dates, and epochs in seconds or, from
// 1e11 on, milliseconds.
func partitionValue(raw json.RawMessage, layout string) (string, bool) {
	var v any
	if raw == nil || decodeNumbers(raw, &v) != nil {
		return "", false
	}
	switch v := v.(type) {
	case string:
		for _, accepted := range []string{time.RFC3339Nano, time.DateOnly} {
			if at, err := time.Parse(accepted, v); err == nil {
				return at.UTC().Format(layout), true
			}
		}
	case json.Number:
		n, err := strconv.ParseInt(v.String(), 10, 64)
		switch {
		case err != nil:
			return "", false
		case n >= 1e11:
			return time.UnixMilli(n).UTC().Format(layout), true
		default:
			return time.Unix(n, 0).UTC().Format(layout), true
		}
	}
	return "", false
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
