package normalize

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/big"
	"strconv"
	"strings"

	"github.com/couch2hudi/couch2hudi/hudi"
)

// Declared is a column that the configuration asks for, or a value of documents
// that must not leave the process as it is.
type Declared struct {
	// Name is the column's. Empty is the path's last name, made legal.
	Name string
	// Path is where in documents the values stand: address.zip, tags[0],
	// ["a.b"].c. Empty is the field of the column's name. With a mask it may have
	// wildcards, *.ssn or contacts[*].email, and then makes no column.
	Path string
	// Type is boolean, long, double, string, json, timestamp, date or
	// decimal(p,s). Empty is string with a mask, else an error.
	Type string
	// Format is how timestamps and dates are written: rfc3339 (the default),
	// epoch-seconds, epoch-milliseconds, or a pattern like dd.MM.yyyy HH:mm.
	Format string
	// Required makes a live document without a value a conflict; it goes with
	// Fail alone.
	Required bool
	// Conflict is what is done with a value that does not fit; empty means
	// Options.Conflict.
	Conflict string
	// Mask is what is done to the values wherever they would leave the process:
	// MaskNone, MaskDrop, MaskHash or MaskRedact.
	Mask string
}

// What is done with a value that its column cannot hold exactly.
const (
	// Rescue puts it into _rescued.
	Rescue = "rescue"
	// AsString puts its text into a string column beside, name_string.
	AsString = "string"
	// NewColumn puts it into a column beside of the value's own type: name_long,
	// name_double, name_boolean, name_string, name_json.
	NewColumn = "new_column"
	// Fail stops the run.
	Fail = "fail"
)

// What is done with fields that have no column and are not declared.
const (
	// Inferred gives them a column by the values seen first.
	Inferred = "inferred"
	// Rescued puts them into _rescued.
	Rescued = "rescued"
	// Dropped leaves them out of everything but _doc.
	Dropped = "dropped"
)

// ErrDeclared says that a declaration means another type, place or mask for a
// column that the table has.
var ErrDeclared = errors.New("the table has the column otherwise than it is declared")

// ErrConflict says that a value does not fit a column whose policy is Fail.
var ErrConflict = errors.New("a value does not fit its column, and its policy is fail")

// declared is a Declared, checked.
type declared struct {
	Declared
	steps []step
	fit   fit
	// avro is the JSON of a logical type but for a decimal, whose has the table's
	// name in it.
	avro string
	// unmask says that a mask is taken back, bare that there is no column: a
	// mask alone.
	unmask, bare           bool
	moments                *moments
	precision, scale, size int
}

// compile checks the declarations.
func (o *Options) compile() ([]declared, error) {
	var all []declared
	taken := map[string]string{}
	for _, name := range reserved() {
		taken[strings.ToLower(name)] = "a column of every table"
	}
	if o.PartitionField != "" {
		taken[strings.ToLower(o.PartitionName)] = "the partition column"
	}
	paths := map[string]bool{}
	for _, d := range o.Declare {
		c, err := compile(d, o)
		if err != nil {
			return nil, fmt.Errorf("%w: declared column %q: %w", ErrOptions, d.label(), err)
		}
		if masked, twice := paths[c.Path]; twice && (masked || c.Mask != "") {
			return nil, fmt.Errorf("%w: path %q is declared twice, and masked", ErrOptions, c.Path)
		}
		paths[c.Path] = c.Mask != ""
		if !c.bare {
			if is := taken[strings.ToLower(c.Name)]; is != "" {
				return nil, fmt.Errorf("%w: declared column %q: the name is %s", ErrOptions, c.Name, is)
			}
			taken[strings.ToLower(c.Name)] = "that of another declared column"
		}
		all = append(all, c)
	}
	return all, nil
}

// label names a declaration for people.
func (d *Declared) label() string {
	if d.Name != "" {
		return d.Name
	}
	return d.Path
}

func compile(d Declared, o *Options) (c declared, err error) {
	c.Declared = d
	if d.Path == "" {
		c.steps = []step{{key: d.Name, index: -1}}
	} else if c.steps, err = parsePath(d.Path); err != nil {
		return c, err
	}
	c.Path = pathText(c.steps)
	if c.Name == "" {
		if last := c.steps[len(c.steps)-1]; last.index < 0 {
			c.Name = legalColumn(last.key)
		}
	}
	if err := c.masked(o); err != nil {
		return c, err
	}
	if c.bare {
		if d.Type != "" || d.Required || d.Conflict != "" {
			return c, errors.New("with mask drop, and on a path with a wildcard, there is no column: leave its type, nullable and on_conflict out")
		}
		c.Type = "string"
	}
	field := c.steps[0].key
	switch {
	case wild(c.steps) && !c.bare:
		return c, errors.New("a path with a wildcard means many values, and goes with a mask alone")
	case strings.HasPrefix(field, "_"):
		return c, fmt.Errorf("fields with an underscore in front, %q, are CouchDB's", field)
	case len(c.Path) > maxName:
		return c, fmt.Errorf("the path has %d bytes, at most %d go into a schema", len(c.Path), maxName)
	case !c.bare && (c.Name == "" || legalColumn(c.Name) != c.Name || c.Name[0] == '_' || len(c.Name) > maxName):
		return c, errors.New("a column's name has letters, digits and underscores, and begins with a letter")
	case c.Mask != "" && o.PartitionField != "" && (field == o.PartitionField || len(c.steps) == 1 && c.steps[0].wild):
		return c, fmt.Errorf("field %q names the partition, which folders show: it cannot be masked", o.PartitionField)
	}
	if c.Conflict == "" {
		c.Conflict = o.Conflict
	}
	if err := checkPolicy(c.Conflict); err != nil {
		return c, err
	}
	if c.Required && c.Conflict != Fail {
		return c, errors.New("not nullable goes with on_conflict fail: a row is held back by nothing else")
	}
	return c, c.typed()
}

func checkPolicy(p string) error {
	switch p {
	case Rescue, AsString, NewColumn, Fail:
		return nil
	}
	return fmt.Errorf("policy %q for conflicts: it is %s, %s, %s or %s", p, Rescue, AsString, NewColumn, Fail)
}

// typed reads Type and Format.
func (c *declared) typed() (err error) {
	name, args, _ := strings.Cut(strings.TrimSuffix(c.Type, ")"), "(")
	if c.Format != "" && name != "timestamp" && name != "date" {
		return fmt.Errorf("a format goes with timestamp and date, not with %q", c.Type)
	}
	switch name {
	case "boolean":
		c.fit = fitBoolean
	case "long":
		c.fit = fitLong
	case "double":
		c.fit = fitDouble
	case "string":
		c.fit = fitText
		if c.Conflict == AsString && c.Mask == "" {
			c.fit = fitMixed
		}
	case "json":
		c.fit = fitAny
	case "timestamp":
		c.fit, c.avro = fitTimestamp, typeTimestamp
		if c.Format == "" {
			c.Format = FormatRFC3339
		}
		c.moments, err = newMoments(c.Format, false)
	case "date":
		c.fit, c.avro = fitDate, typeDate
		if c.Format == "" {
			c.Format = formatDay
		}
		c.moments, err = newMoments(c.Format, true)
	case "decimal":
		c.fit = fitDecimal
		err = c.decimal(args)
	default:
		return fmt.Errorf("type %q: it is boolean, long, double, string, json, timestamp, date or decimal(p,s)", c.Type)
	}
	if args != "" && c.fit != fitDecimal {
		return fmt.Errorf("type %q", c.Type)
	}
	return err
}

const (
	typeTimestamp = `{"type":"long","logicalType":"timestamp-micros"}`
	typeDate      = `{"type":"int","logicalType":"date"}`
	// maxPrecision is the most digits of a decimal that all engines have.
	maxPrecision = 38
)

func (c *declared) decimal(args string) error {
	p, s, _ := strings.Cut(args, ",")
	var err1, err2 error
	c.precision, err1 = strconv.Atoi(strings.TrimSpace(p))
	c.scale, err2 = strconv.Atoi(strings.TrimSpace(s))
	if err1 != nil || err2 != nil || c.precision < 1 || c.precision > maxPrecision || c.scale < 0 || c.scale > c.precision {
		return fmt.Errorf("type %q: write decimal(10,2): at most %d digits, the second number of them behind the point", c.Type, maxPrecision)
	}
	c.size = decimalSize(c.precision)
	return nil
}

// decimalSize is the least number of bytes whose two's complement holds every
// number of so many digits.
func decimalSize(precision int) int {
	limit := new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(precision)), nil)
	return int(math.Ceil(float64(limit.BitLen()+1) / 8)) //nolint:mnd // bits of a byte
}

// column is the declared column in a table of that schema. A decimal is a fixed
// named as Spark names it (docs/format/basefile.md): its name has to be unique.
func (c *declared) column(s *hudi.Schema, format string) hudi.Column {
	note := columnNote{steps: c.steps, text: c.fit, declared: true, format: format, mask: c.Mask}
	h := hudi.Column{Name: c.Name, Kind: c.fit.kind(), Type: c.avro, Doc: note.doc(c.Name)}
	if c.fit == fitDecimal {
		h.Type = fmt.Sprintf(`{"type":"fixed","name":"fixed","namespace":"%s.%s.%s","size":%d,"logicalType":"decimal","precision":%d,"scale":%d}`,
			s.Namespace, s.Name, c.Name, c.size, c.precision, c.scale)
	}
	return h
}

// same says what stands against a column of the table being the declared one;
// empty for nothing.
func (c *declared) same(have, want *hudi.Column) string {
	note := parseNote(have.Doc, have.Name)
	switch {
	case !sameType(have, want):
		return fmt.Sprintf("it is of type %s there", typeWords(have))
	case pathText(note.steps) != c.Path || note.beside:
		return fmt.Sprintf("it holds the values of %s there", pathText(note.steps))
	case want.Kind == hudi.KindString && note.text != c.fit:
		return fmt.Sprintf("it is %s there", typeWords(have))
	case note.mask != "" && c.Mask == "" && !c.unmask:
		return "its values are masked there; declare the mask, or mask: none"
	}
	return ""
}

// TypeOf names a column's type as a declaration does.
func TypeOf(c *hudi.Column) string { return typeWords(c) }

func typeWords(c *hudi.Column) string {
	if c.Kind == hudi.KindNested {
		if s, err := parseShape(c); err == nil {
			return s.words()
		}
	}
	l := logicalOf(c)
	switch {
	case l.Logical == "timestamp-micros":
		return "timestamp"
	case l.Logical == "date":
		return "date"
	case l.Logical == "decimal":
		return fmt.Sprintf("decimal(%d,%d)", l.Precision, l.Scale)
	case c.Type != "":
		return c.Type
	}
	switch d := Describe(c); d.Rule {
	case RuleMixed:
		return "string, with on_conflict string"
	case RuleJSON, RuleAny:
		return d.Rule
	}
	return c.Kind.String()
}

// logical is what a type says beside its kind.
type logical struct {
	Logical   string `json:"logicalType"`
	Precision int    `json:"precision"`
	Scale     int    `json:"scale"`
	Size      int    `json:"size"`
}

func logicalOf(c *hudi.Column) (l logical) {
	if c.Type != "" && json.Unmarshal([]byte(c.Type), &l) != nil {
		return logical{Logical: c.Type}
	}
	return l
}

// sameType leaves out the names of types, which engines change.
func sameType(a, b *hudi.Column) bool {
	return a.Kind == b.Kind && (a.Type == "") == (b.Type == "") && logicalOf(a) == logicalOf(b)
}
