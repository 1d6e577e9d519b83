package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/couch2hudi/couch2hudi/hudi"
	"github.com/couch2hudi/couch2hudi/normalize"
)

// suggestFixes prints declarations that give each rescued value a column. A column
// of the table keeps its type, so what it cannot hold gets one beside it; a field
// without a column gets one.
func (d described) suggestFixes(out io.Writer) error {
	var b strings.Builder
	taken := map[string]bool{}
	for _, c := range d.Columns() {
		taken[strings.ToLower(c.Name)] = true
	}
	within := map[string]bool{}
	for _, f := range d.audit.Fields() {
		if f.Rescued == 0 {
			continue
		}
		if f.Inside != "" {
			if !within[f.Inside] {
				within[f.Inside] = true
				x := fix{name: free(normalize.DeclaredName(f.Inside)+"_json", taken), path: d.pathOf(f.Inside), typ: "json"}
				fmt.Fprintf(&b, "    - {%s} # %d values of %s rescued: %s; they stay in _rescued too\n", x.text(), f.Rescued, f.Path, f.Kinds.Words())
			}
			continue
		}
		x := fix{name: f.Path, path: f.Path}
		if len(f.Columns) > 0 {
			i, _ := d.Lookup(f.Columns[0])
			x.beside(&d.Columns()[i], &f, taken)
			within[f.Field] = x.typ == "json" // which has the parts too
		} else {
			x.fresh(&f, taken)
		}
		fmt.Fprintf(&b, "    - {%s} # %s rescued: %s%s\n", x.text(), shareWords(f.Rescued, f.Held+f.Rescued), f.Kinds.Words(), x.why)
	}
	rows := "sampled rows"
	if d.whole {
		rows = "rows"
	}
	head := fmt.Sprintf("# Of %d live %s. For what is written from now on; run --replay --rewrite writes all again.\ncolumns:\n  declare:\n", d.audit.Rows(), rows)
	if b.Len() == 0 {
		head = fmt.Sprintf("# Of %d live %s no value is rescued.\n", d.audit.Rows(), rows)
	}
	_, err := io.WriteString(out, head+b.String())
	return err
}

// pathOf is the path of a field that a column was made of.
func (d described) pathOf(field string) string {
	for _, c := range d.Columns() {
		if o := normalize.Describe(&c); o.Field == field && o.Whole {
			return o.Path
		}
	}
	return field
}

// fix is one declaration.
type fix struct{ name, path, typ, format, mask, policy, why string }

func (x *fix) text() string {
	parts := []string{"name: " + yamlText(x.name)}
	for _, p := range [][2]string{{"path", x.path}, {"type", x.typ}, {"format", x.format}, {"mask", x.mask}, {"on_conflict", x.policy}} {
		if p[1] != "" && (p[0] != "path" || x.path != x.name) {
			parts = append(parts, p[0]+": "+yamlText(p[1]))
		}
	}
	return strings.Join(parts, ", ")
}

// beside says what to do with the misfits of a column that is there.
func (x *fix) beside(c *hudi.Column, f *normalize.Audited, taken map[string]bool) {
	o := normalize.Describe(c)
	x.name, x.typ, x.mask = c.Name, normalize.TypeOf(c), o.Mask
	if o.Format != normalize.FormatRFC3339 {
		x.format = o.Format
	}
	text := c.Kind == hudi.KindString && c.Type == ""
	switch {
	case o.Rule == normalize.RuleJSON || c.Kind == hudi.KindNested || text && f.Kinds.Numbers > 0 || normalize.DeclaredName(c.Name) != c.Name:
		// An inferred column of JSON, a list or a struct cannot be declared, nor one with an underscore in
		// front, and beside a text column numbers that fit nowhere have no place.
		*x = fix{name: free(normalize.DeclaredName(c.Name)+"_all", taken), path: o.Path, typ: "json", why: "; what the first column does not hold stays in _rescued too"}
	case text, f.Kinds.Numbers == 0 && f.Kinds.Different() <= 1:
		x.policy = normalize.NewColumn
	default:
		x.policy = normalize.AsString
	}
}

// fresh is a declaration of a field that has no column.
func (x *fix) fresh(f *normalize.Audited, taken map[string]bool) {
	name := f.Field
	if name == "" {
		name = f.Path
	}
	x.name = free(normalize.DeclaredName(name), taken)
	k := f.Kinds
	switch {
	case k.Booleans == f.Rescued:
		x.typ = "boolean"
	case k.Longs == f.Rescued:
		x.typ = "long"
	case k.Longs+k.Doubles == f.Rescued && k.Wide == 0:
		x.typ = "double"
	case k.Composites == f.Rescued:
		x.typ = "json"
	case f.Times == f.Rescued:
		x.typ = "timestamp"
	case f.Days == f.Rescued:
		x.typ = "date"
	case k.Strings == f.Rescued:
		x.typ = "string"
	default:
		x.typ, x.policy = "string", normalize.AsString
	}
}

// free is a column's name that no other column has.
func free(name string, taken map[string]bool) string {
	is := name
	for n := 2; taken[strings.ToLower(is)]; n++ {
		is = fmt.Sprintf("%s_%d", name, n)
	}
	taken[strings.ToLower(is)] = true
	return is
}
