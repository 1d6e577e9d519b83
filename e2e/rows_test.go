package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"sort"
	"strconv"
	"strings"
)

// Hudi's meta columns that a reader may rely on.
const (
	colCommitTime = "_hoodie_commit_time"
	colKey        = "_hoodie_record_key"
	colPartition  = "_hoodie_partition_path"
)

// row is a table's row as an engine answered it, by column: nil, bool, string,
// int64, float64, or, for nested columns, what encoding/json makes of them with
// UseNumber.
type row map[string]any

// rowKey names a row within its table, for people and for maps.
func (r row) rowKey() string { return fmt.Sprintf("%v|%v", r[colPartition], r[colKey]) }

// typed makes of a JSON value the Go value of its column's type. A type that is
// not a scalar of ours leaves the value as it is.
func typed(v any, kind string) (any, error) {
	n, isNumber := v.(json.Number)
	text, isText := v.(string)
	switch {
	case v == nil:
		return nil, nil
	case kind == "long" && isNumber:
		return strconv.ParseInt(n.String(), 10, 64)
	case kind == "double" && isNumber:
		return strconv.ParseFloat(n.String(), 64)
	case kind == "double" && isText: // NaN and the infinities
		return strconv.ParseFloat(text, 64)
	case kind == "string" && isText, kind == "boolean" && reflect.TypeOf(v).Kind() == reflect.Bool:
		return v, nil
	case kind == "long" || kind == "double" || kind == "string" || kind == "boolean":
		return nil, fmt.Errorf("value %v (%T) is no %s", v, v, kind)
	}
	return v, nil
}

// decodeNumbers decodes JSON without rounding its numbers.
func decodeNumbers(data []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	return d.Decode(into)
}

// diff compares two sets of rows by partition and key, and tells the first
// differences so that a person sees what went wrong. Empty means equal. Columns
// named in ignore are not compared; all others are, in both directions.
func diff(want, got []row, ignore ...string) string {
	d := differ{ignore: map[string]bool{}}
	for _, c := range ignore {
		d.ignore[c] = true
	}
	d.compare(want, got)
	return d.report(len(want), len(got))
}

// differ collects differences; only the first of them are told.
type differ struct {
	ignore map[string]bool
	total  int
	lines  []string
}

const toldDifferences = 12

func (d *differ) tell(format string, args ...any) {
	d.total++
	if len(d.lines) < toldDifferences {
		d.lines = append(d.lines, fmt.Sprintf(format, args...))
	}
}

func (d *differ) compare(want, got []row) {
	wanted, seen := byKey(want), byKey(got)
	keys := make([]string, 0, len(wanted))
	for k := range wanted {
		keys = append(keys, k)
	}
	for k := range seen {
		if _, ok := wanted[k]; !ok {
			keys = append(keys, k)
		}
	}
	sort.Strings(keys)
	for _, k := range keys {
		w, g := wanted[k], seen[k]
		switch {
		case len(g) == 0:
			d.tell("%q is missing; want %s", k, brief(w[0]))
		case len(w) == 0:
			d.tell("%q is not expected; got %s", k, brief(g[0]))
		case len(w) != len(g):
			d.tell("%q occurs %d times; want %d", k, len(g), len(w))
		default:
			// A read-optimized view may hold a key twice; its rows are told apart by their commits.
			for i := range w {
				d.cells(k, w[i], g[i])
			}
		}
	}
}

// cells compares two rows, column by column.
func (d *differ) cells(key string, want, got row) {
	columns := make([]string, 0, len(want))
	for c := range want {
		columns = append(columns, c)
	}
	for c := range got {
		if _, ok := want[c]; !ok {
			columns = append(columns, c)
		}
	}
	sort.Strings(columns)
	for _, c := range columns {
		w, hasWant := want[c]
		g, hasGot := got[c]
		switch {
		case d.ignore[c]:
		case !hasGot:
			d.tell("%q: column %s is missing; want %s", key, c, show(w))
		case !hasWant:
			d.tell("%q: column %s is not expected; got %s", key, c, show(g))
		case !same(w, g):
			d.tell("%q: %s = %s; want %s", key, c, show(g), show(w))
		}
	}
}

func (d *differ) report(want, got int) string {
	if d.total == 0 {
		return ""
	}
	head := fmt.Sprintf("%d differences (%d rows; want %d)", d.total, got, want)
	if d.total > len(d.lines) {
		head += fmt.Sprintf(", the first %d", len(d.lines))
	}
	return head + ":\n  " + strings.Join(d.lines, "\n  ")
}

// same says whether two cells are equal. NaN equals NaN; 0 and -0 differ, since
// an engine that loses the sign has changed the value.
func same(a, b any) bool {
	x, ok := a.(float64)
	y, also := b.(float64)
	if ok && also {
		return math.Float64bits(x) == math.Float64bits(y) || (math.IsNaN(x) && math.IsNaN(y))
	}
	return reflect.DeepEqual(a, b)
}

func byKey(rows []row) map[string][]row {
	m := make(map[string][]row, len(rows))
	for _, r := range rows {
		m[r.rowKey()] = append(m[r.rowKey()], r)
	}
	for _, same := range m {
		sort.SliceStable(same, func(i, j int) bool { return fmt.Sprint(same[i][colCommitTime]) < fmt.Sprint(same[j][colCommitTime]) })
	}
	return m
}

// show prints a cell with its type, cut to a length that a terminal bears.
func show(v any) string {
	const most = 160
	s := fmt.Sprintf("%v", v)
	switch v := v.(type) {
	case nil:
		return "null"
	case string:
		s = strconv.Quote(v)
	case float64:
		s = "double " + strconv.FormatFloat(v, 'g', -1, 64)
	case int64:
		s = "long " + s
	}
	if len(s) > most {
		s = s[:most] + fmt.Sprintf("… (%d bytes)", len(s))
	}
	return s
}

func brief(r row) string {
	parts := make([]string, 0, 3)
	for _, c := range []string{colCommitTime, "_rev", "_deleted"} {
		if v, ok := r[c]; ok {
			parts = append(parts, c+"="+show(v))
		}
	}
	return strings.Join(parts, " ")
}
