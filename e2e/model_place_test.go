package e2e

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// slot is where the live view has a document's row of a partition.
func (m *tableModel) slot(id, partition string) string {
	if m.options.scoped {
		return partition + "|" + id
	}
	return id
}

// rowsOf are the rows of a document.
func (m *tableModel) rowsOf(id string) []row {
	if !m.options.scoped {
		if r, ok := m.rows[id]; ok {
			return []row{r}
		}
		return nil
	}
	var out []row
	for _, r := range m.rows {
		if r[colKey] == id {
			out = append(out, r)
		}
	}
	return out
}

// newest is the row of a document's newest version.
func (m *tableModel) newest(id string) (newest row, ok bool) {
	for _, r := range m.rowsOf(id) {
		if !ok || r["_rev_order"].(int64) > newest["_rev_order"].(int64) {
			newest, ok = r, true
		}
	}
	return newest, ok
}

// place gives a live row its partition, by the field and format of the options.
func (m *tableModel) place(r row, members []member) {
	if m.options.partition == "" {
		r[colPartition] = ""
		return
	}
	var value string
	ok := false
	for _, f := range members {
		if f.name == m.options.partition {
			value, ok = m.options.value(f.value)
		}
	}
	if ok && m.options.bare {
		ok = escaped(value) == value && value[0] != '_' && value[0] != '.'
	}
	if !ok {
		r["pt"], r[colPartition] = nil, m.options.folder(defaultPartition)
		return
	}
	r["pt"], r[colPartition] = value, m.options.folder(value)
}

// folder is the folder of a value.
func (o modelOptions) folder(value string) string {
	if o.bare {
		return value
	}
	return "pt=" + escaped(value)
}

// value is what a field's value makes of the partition.
func (o modelOptions) value(raw json.RawMessage) (string, bool) {
	if o.layout != "" {
		return partitionValue(raw, o.layout)
	}
	var text string
	err := json.Unmarshal(raw, &text)
	return text, err == nil && text != ""
}

// escaped is a folder's name as Hive and Hudi write it: what a path or a shell
// may stumble over becomes a percent sign and two digits.
func escaped(value string) string {
	var b strings.Builder
	for _, c := range []byte(value) {
		if c < ' ' || c == 0x7f || strings.IndexByte("\"#%'*/:=?\\{[]^", c) >= 0 {
			fmt.Fprintf(&b, "%%%02X", c)
		} else {
			b.WriteByte(c)
		}
	}
	return b.String()
}

// leave leaves a deleted document where it was: its body, if any, does not move it.
func (m *tableModel) leave(r row) {
	if m.options.partition == "" {
		r[colPartition] = ""
		return
	}
	id := r[colKey].(string)
	old, known := m.newest(id)
	if !known {
		old, known = m.lost[id]
	}
	if known {
		r["pt"], r[colPartition] = old["pt"], old[colPartition]
		return
	}
	r["pt"], r[colPartition] = nil, m.options.folder(defaultPartition)
}

// partitionValue understands RFC 3339, dates, and epochs in seconds or, from
// twelve digits on, milliseconds. Numbers that read as a date, like 20240105,
// could be meant either way and count as none.
func partitionValue(raw json.RawMessage, layout string) (string, bool) {
	var v any
	if decodeNumbers(raw, &v) != nil {
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
		_, isDate := time.Parse("20060102", v.String())
		switch {
		case err != nil || isDate == nil:
			return "", false
		case n >= 1e11 || n <= -1e11:
			return time.UnixMilli(n).UTC().Format(layout), true
		default:
			return time.Unix(n, 0).UTC().Format(layout), true
		}
	}
	return "", false
}
