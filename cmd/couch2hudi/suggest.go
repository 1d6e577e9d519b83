package main

import (
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/couch2hudi/couch2hudi/hudi"
	"github.com/couch2hudi/couch2hudi/normalize"
)

// suggest prints the columns of documents as declarations for a config. What a
// sample showed gives better types than inference dares to take: it sees texts
// alone.
func (d described) suggest(out io.Writer) error {
	sights := map[string]normalize.Sight{}
	for _, s := range d.sights {
		sights[s.Field] = s
	}
	var b strings.Builder
	b.WriteString("columns:\n  declare:\n")
	envelope := d.envelope()
	for _, c := range d.Columns() {
		if envelope[c.Name] != "" || envelope == nil {
			continue
		}
		o := normalize.Describe(&c)
		if o.Beside {
			continue // made by its field's policy
		}
		if c.Kind == hudi.KindNested {
			fmt.Fprintf(&b, "    # %s: %s, as columns.nested: struct makes it\n", c.Name, normalize.TypeOf(&c))
			continue
		}
		var parts []string
		add := func(key, value string) { parts = append(parts, key+": "+yamlText(value)) }
		add("name", c.Name)
		if o.Path != c.Name {
			add("path", o.Path)
		}
		typ, policy, why := declaredType(&c, &o, sights[o.Field])
		add("type", typ)
		if o.Format != "" && o.Format != normalize.FormatRFC3339 {
			add("format", o.Format)
		}
		if o.Mask != "" {
			add("mask", o.Mask)
		} else if policy != "" {
			add("on_conflict", policy)
		}
		fmt.Fprintf(&b, "    - {%s}", strings.Join(parts, ", "))
		if why != "" {
			b.WriteString(" # " + why)
		}
		b.WriteByte('\n')
	}
	_, err := io.WriteString(out, b.String())
	return err
}

// declaredType is the type of a column in a declaration, the policy that it
// needs, and what a sample says for it.
func declaredType(c *hudi.Column, o *normalize.Origin, s normalize.Sight) (typ, policy, why string) {
	switch {
	case o.Rule == normalize.RuleMixed:
		return "string", normalize.AsString, "several kinds of values"
	case o.Rule != normalize.RuleText:
		return "json", "", ""
	case c.Type != "":
		return normalize.TypeOf(c), "", ""
	case s.Texts > 0 && s.Times == s.Values:
		return "timestamp", "", fmt.Sprintf("all %d texts seen are RFC 3339; Hive's real-time reader fails on timestamps", s.Values)
	case s.Texts > 0 && s.Days == s.Values:
		return "date", "", fmt.Sprintf("all %d texts seen are dates", s.Values)
	}
	return c.Kind.String(), "", ""
}

// yamlText quotes what YAML would take for something else than a text.
func yamlText(s string) string {
	for i, c := range []byte(s) {
		letter := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c == '_'
		if !letter && (i == 0 || (c < '0' || c > '9') && c != '.') {
			return strconv.Quote(s)
		}
	}
	switch strings.ToLower(s) {
	case "", "true", "false", "null", "yes", "no", "on", "off", "y", "n":
		return strconv.Quote(s)
	}
	return s
}
