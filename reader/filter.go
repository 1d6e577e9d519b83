package reader

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/couch2hudi/couch2hudi/hudi"
)

// Filter is a predicate bound to the columns of a schema.
type Filter struct{ tests []test }

// Bind finds the columns of a predicate in s, and among the meta columns, and
// brings its values into their types. The error is a WhereError.
func (w *Where) Bind(s *hudi.Schema) (*Filter, error) {
	f := &Filter{}
	if w == nil {
		return f, nil
	}
	for i := range w.conditions {
		t, err := bind(&w.conditions[i], s)
		if err != nil {
			return nil, err
		}
		f.tests = append(f.tests, t)
	}
	return f, nil
}

// Keeps says whether the predicate holds for a record with a row of the schema
// that the filter was bound to.
func (f *Filter) Keeps(r *hudi.Record) bool {
	for i := range f.tests {
		if t := &f.tests[i]; !t.holds(t.of(r)) {
			return false
		}
	}
	return true
}

// class is how the values of a column are compared.
type class uint8

const (
	classNone class = iota // with nothing but null
	classBoolean
	classInteger
	classFloat
	classDouble
	classString
)

// test is one bound condition.
type test struct {
	name string
	op   operator
	// column is the place in the row, -1 for a meta column.
	column   int
	class    class
	operands []operand
}

// operand is a value of a predicate in the type of its column.
type operand struct {
	text    string
	integer int64
	number  float64
	// exact says of a number that integer is it.
	exact   bool
	boolean bool
}

// isMeta says whether a column is one of those meta columns that records have.
func isMeta(name string) bool {
	return name == hudi.MetaCommitTime || name == hudi.MetaCommitSeqno || name == hudi.MetaRecordKey || name == hudi.MetaPartitionPath
}

// of is the value that the test looks at.
func (t *test) of(r *hudi.Record) hudi.Value {
	if t.column >= 0 {
		if t.column < len(r.Row) {
			return r.Row[t.column]
		}
		return hudi.Value{}
	}
	switch t.name {
	case hudi.MetaCommitTime:
		return hudi.String(string(r.CommitTime))
	case hudi.MetaCommitSeqno:
		return hudi.String(r.CommitSeqno)
	case hudi.MetaRecordKey:
		return hudi.String(r.Key.Record)
	default:
		return hudi.String(r.Key.Partition)
	}
}

func bind(c *condition, s *hudi.Schema) (test, error) {
	t := test{name: c.column, op: c.op, column: -1, class: classString}
	logical := ""
	if !isMeta(c.column) {
		i, ok := s.Lookup(c.column)
		if !ok {
			return t, &WhereError{Column: c.column, Position: c.at, Reason: "the table has no such column"}
		}
		t.column = i
		t.class, logical = classOf(&s.Columns()[i])
	}
	for _, l := range c.values {
		o, err := t.operand(&l, logical)
		if err != nil {
			return t, &WhereError{Column: c.column, Position: l.at, Reason: err.Error()}
		}
		t.operands = append(t.operands, o)
	}
	if t.class == classBoolean && len(t.operands) > 0 && t.op != opEqual && t.op != opNotEqual && t.op != opIn {
		return t, &WhereError{Column: c.column, Position: c.at, Reason: "a boolean takes =, !=, in and is null"}
	}
	return t, nil
}

// classOf is how a column's values compare, with its logical type.
func classOf(c *hudi.Column) (class, string) {
	logical := logicalType(c)
	switch c.Kind {
	case hudi.KindBoolean:
		return classBoolean, logical
	case hudi.KindInt, hudi.KindLong:
		return classInteger, logical
	case hudi.KindFloat:
		return classFloat, logical
	case hudi.KindDouble:
		return classDouble, logical
	case hudi.KindString:
		return classString, logical
	default:
		return classNone, logical
	}
}

// logicalType is the name of a column's logical type, "" when it has none.
func logicalType(c *hudi.Column) string {
	var t struct {
		Name string `json:"logicalType"`
	}
	if c.Type == "" || json.Unmarshal([]byte(c.Type), &t) != nil {
		return "" // a type with another one inside
	}
	return t.Name
}

var classNames = [...]string{classNone: "", classBoolean: "true or false", classInteger: "a number", classFloat: "a number",
	classDouble: "a number", classString: "a string in quotes"}

// operand brings a literal into the column's type.
func (t *test) operand(l *literal, logical string) (operand, error) {
	o := operand{text: l.text}
	switch {
	case t.class == classNone:
		return o, errors.New("bytes, decimals and nested values can be asked for null only")
	case t.class == classInteger && l.kind == literalString && logical != "":
		n, err := moment(l.text, logical)
		o.integer, o.exact = n, true
		return o, err
	case t.class == classString && l.kind == literalString:
		return o, nil
	case t.class == classBoolean && l.kind == literalBoolean:
		o.boolean = l.text == "true"
		return o, nil
	case l.kind != literalNumber || t.class == classString || t.class == classBoolean:
		return o, fmt.Errorf("the column takes %s, not %q", classNames[t.class], l.text)
	}
	var err error
	const doubleBits, base = 64, 10
	if o.number, err = strconv.ParseFloat(l.text, doubleBits); err != nil {
		return o, fmt.Errorf("%q is no number that a column can hold", l.text)
	}
	if t.class == classFloat {
		o.number = float64(float32(o.number))
	}
	if n, err := strconv.ParseInt(strings.TrimPrefix(l.text, "+"), base, doubleBits); err == nil {
		o.integer, o.exact = n, true
	}
	return o, nil
}

// moment is a date or a point in time as a column of that logical type stores it.
func moment(text, logical string) (int64, error) {
	const day = 24 * time.Hour
	if logical == "date" {
		at, err := time.Parse(time.DateOnly, text)
		if err != nil {
			return 0, fmt.Errorf("the column takes a date such as '2026-01-31' or the number of days, not %q", text)
		}
		return at.Unix() / int64(day/time.Second), nil
	}
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return 0, fmt.Errorf("the column takes a time such as '2026-01-31T12:00:00Z' or a number, not %q", text)
	}
	switch {
	case strings.HasSuffix(logical, "timestamp-millis"):
		return at.UnixMilli(), nil
	case strings.HasSuffix(logical, "timestamp-micros"):
		return at.UnixMicro(), nil
	}
	return 0, fmt.Errorf("the column (%s) takes a number, not %q", logical, text)
}

// holds says whether a value meets the condition.
func (t *test) holds(v hudi.Value) bool {
	if v.IsNull() || t.op == opIsNull || t.op == opNotNull {
		return v.IsNull() == (t.op == opIsNull) // a comparison with null is never true
	}
	for i := range t.operands {
		c, ordered := t.compare(v, &t.operands[i])
		if !ordered {
			return t.op == opNotEqual // NaN
		}
		if t.op.meets(c) {
			return true
		}
	}
	return false
}

// meets says whether the outcome of a comparison is what the operator asks for.
func (o operator) meets(c int) bool {
	switch o {
	case opNotEqual:
		return c != 0
	case opLess:
		return c < 0
	case opAtMost:
		return c <= 0
	case opGreater:
		return c > 0
	case opAtLeast:
		return c >= 0
	default:
		return c == 0
	}
}

// compare orders a value that is not null and an operand; NaN is not ordered.
func (t *test) compare(v hudi.Value, o *operand) (c int, ordered bool) {
	switch t.class {
	case classInteger:
		if o.exact {
			return cmp.Compare(v.Long(), o.integer), true
		}
		return compareNumber(v.Long(), o.number), true
	case classFloat:
		f := float64(v.Float())
		return cmp.Compare(f, o.number), !math.IsNaN(f)
	case classDouble:
		f := v.Double()
		return cmp.Compare(f, o.number), !math.IsNaN(f)
	case classBoolean:
		switch {
		case v.Boolean() == o.boolean:
			return 0, true
		case o.boolean:
			return -1, true // as bounds have it, false is the least
		}
		return 1, true
	default:
		return strings.Compare(v.Text(), o.text), true
	}
}

// compareNumber orders an integer and a number that may have a fraction or lie
// beyond all integers, exactly.
func compareNumber(n int64, f float64) int {
	const beyond = 1 << 63
	switch {
	case f >= beyond:
		return -1
	case f < -beyond:
		return 1
	}
	whole := math.Trunc(f)
	if c := cmp.Compare(n, int64(whole)); c != 0 {
		return c
	}
	return cmp.Compare(0, f-whole)
}

// may says whether a value that meets the condition may lie between two, both
// included. Bounds may be wider than the values.
func (t *test) may(least, greatest hudi.Value) bool {
	for i := range t.operands {
		low, ordered := t.compare(least, &t.operands[i])
		high, also := t.compare(greatest, &t.operands[i])
		if !ordered || !also {
			return true
		}
		switch t.op {
		case opEqual, opIn:
			if low <= 0 && high >= 0 {
				return true
			}
		case opLess, opAtMost:
			return t.op.meets(low)
		case opGreater, opAtLeast:
			return t.op.meets(high)
		default:
			return true
		}
	}
	return len(t.operands) == 0
}
