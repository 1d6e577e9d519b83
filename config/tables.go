package config

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
)

// Route says which of Config.Tables a document is for.
type Route struct {
	// Field is where in documents their type stands, like type or meta.kind.
	Field string `yaml:"field"`
	// Others is what becomes of documents that no table's values name: the name of a
	// table that takes them, OthersDrop, or OthersFail.
	Others string `yaml:"others"`
}

// What becomes of documents that no table takes.
const (
	OthersDrop = "drop"
	OthersFail = "fail"
)

// Entry is one of several tables. What it does not say of a table it has from the
// sections of the file's top.
type Entry struct {
	// Name is the table's in logs, and its name in Hudi unless table.name says another.
	Name string
	// Values are those of Route.Field whose documents it takes; Name by default.
	Values []string
	node   ast.Node
}

// sections are those that an Entry may have of its own.
type sections struct {
	Name       string     `yaml:"name"`
	Values     []string   `yaml:"values"`
	Table      Table      `yaml:"table"`
	Columns    Columns    `yaml:"columns"`
	Index      Index      `yaml:"index"`
	Writer     Writer     `yaml:"writer"`
	Compaction Compaction `yaml:"compaction"`
	Retain     Duration   `yaml:"retain"`
	Clean      Clean      `yaml:"clean"`
	Timeline   Timeline   `yaml:"timeline"`
	Catalog    Catalog    `yaml:"catalog"`
}

// UnmarshalYAML reads an entry, whose sections wait for those of the top.
func (e *Entry) UnmarshalYAML(n ast.Node) error {
	var s sections
	if err := yaml.NodeToValue(n, &s, yaml.Strict()); err != nil {
		return parseError(n, err)
	}
	e.Name, e.Values, e.node = s.Name, s.Values, n
	if len(e.Values) == 0 {
		e.Values = []string{e.Name}
	}
	return nil
}

// placeholder stands for the entry's name in a table.url of the top.
const placeholder = "{table}"

// Several are the configurations of the entries of Tables, each as of a table alone.
func (c *Config) Several() ([]Config, error) {
	var all []Config
	var errs []error
	for i := range c.Tables {
		one, err := c.one(&c.Tables[i])
		errs = append(errs, inEntry(&c.Tables[i], i, err))
		all = append(all, one)
	}
	return all, errors.Join(errs...)
}

// Entry is the configuration of the entry of that name, false for none.
func (c *Config) Entry(name string) (Config, bool, error) {
	for i := range c.Tables {
		if c.Tables[i].Name == name {
			one, err := c.one(&c.Tables[i])
			return one, true, inEntry(&c.Tables[i], i, err)
		}
	}
	return Config{}, false, nil
}

// Among says that the configuration is that of an entry of another one.
func (c *Config) Among() (whole *Config, entry string, ok bool) {
	return c.among, c.entry, c.among != nil
}

func (c *Config) one(e *Entry) (Config, error) {
	one := *c
	one.Tables, one.Route = nil, Route{}
	one.among, one.entry = c, e.Name
	s := sections{Table: c.Table, Columns: c.Columns, Index: c.Index, Writer: c.Writer, Compaction: c.Compaction,
		Retain: c.Retain, Clean: c.Clean, Timeline: c.Timeline, Catalog: c.Catalog.of(placeholder, e.Name)}
	shared := slices.Clone(s.Catalog.Targets)
	s.Table.Name, s.Table.URL = "", ""
	if e.node != nil && !prune(e.node) {
		if err := yaml.NodeToValue(e.node, &s, yaml.Strict()); err != nil {
			return one, parseError(e.node, err)
		}
	}
	one.Table, one.Columns, one.Index, one.Writer = s.Table, s.Columns, s.Index, s.Writer
	one.Compaction, one.Retain, one.Clean, one.Timeline = s.Compaction, s.Retain, s.Clean, s.Timeline
	if !slices.Equal(s.Catalog.Targets, shared) { // the entry's own, not resolved yet
		if err := s.Catalog.resolve(); err != nil {
			return one, err
		}
	}
	one.Catalog = s.Catalog.of(placeholder, e.Name)
	if one.Table.Name == "" {
		one.Table.Name = e.Name
	}
	var err error
	if one.Table.URL, err = interpolate(one.Table.URL); err != nil {
		return one, &FieldError{Field: fieldTable, Err: err}
	}
	if one.Table.URL == "" && strings.Contains(c.Table.URL, placeholder) {
		one.Table.URL = strings.ReplaceAll(c.Table.URL, placeholder, e.Name)
	}
	if s.Columns.Salt != c.Columns.Salt {
		salt, err := resolve(s.Columns.Salt.Reveal())
		if err != nil {
			return one, &FieldError{Field: "columns.salt", Err: err}
		}
		one.Columns.Salt = Secret(salt)
	}
	return one, nil
}

// inEntry says which entry errors are of.
func inEntry(e *Entry, i int, err error) error {
	if err == nil {
		return nil
	}
	at := fmt.Sprintf("tables[%d]", i)
	if e.Name != "" {
		at += " " + e.Name
	}
	var all []error
	list := []error{err}
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		if _, single := err.(*FieldError); !single { //nolint:errorlint // what Join made, not what wraps it
			list = joined.Unwrap()
		}
	}
	for _, one := range list {
		var f *FieldError
		if !errors.As(one, &f) {
			all = append(all, fmt.Errorf("%s: %w", at, one))
			continue
		}
		all = append(all, &FieldError{Field: strings.TrimSuffix(at+": "+f.Field, ": "), Line: f.Line, Err: f.Err})
	}
	return errors.Join(all...)
}

// severally checks the entries and what they are routed by.
func (c *Config) severally() error {
	errs := []error{}
	if c.Route.Field == "" {
		errs = append(errs, &FieldError{Field: "route.field", Err: ErrRequired})
	}
	if c.Table.URL != "" && !strings.Contains(c.Table.URL, placeholder) {
		errs = append(errs, wrong(fieldTable, "it is for all of tables, and has no %s for their names", placeholder))
	}
	errs = append(errs, c.Catalog.without(placeholder))
	names, values, urls := map[string]bool{OthersDrop: true, OthersFail: true}, map[string]string{}, map[string]string{}
	all, err := c.Several()
	errs = append(errs, err)
	for i := range c.Tables {
		e := &c.Tables[i]
		at := fmt.Sprintf("tables[%d].", i)
		switch {
		case e.Name == "":
			errs = append(errs, &FieldError{Field: at + "name", Err: ErrRequired})
		case !nameText(e.Name, "-."):
			errs = append(errs, wrong(at+"name", "%q: letters, digits, underscores, dots and hyphens", e.Name))
		case names[e.Name]:
			errs = append(errs, wrong(at+"name", "%q is taken", e.Name))
		}
		names[e.Name] = true
		for _, v := range e.Values {
			if other, twice := values[v]; twice {
				errs = append(errs, wrong(at+"values", "%q is of %s, too", v, other))
			}
			values[v] = e.Name
		}
		one := &all[i]
		if u, err := ParseTableURL(one.Table.URL); err == nil {
			if other, twice := urls[u.String()]; twice {
				errs = append(errs, wrong(at+fieldTable, "it is that of %s, too", other))
			}
			urls[u.String()] = e.Name
		}
		errs = append(errs, inEntry(e, i, errors.Join(one.Table.validate(), one.tableSections())))
	}
	if c.Route.Others == "" || !names[c.Route.Others] {
		errs = append(errs, wrong("route.others", "%q is none of %s, %s and the names of tables", c.Route.Others, OthersDrop, OthersFail))
	}
	return errors.Join(errs...)
}

// tableSections checks all but the table's own section of what an Entry may have.
func (c *Config) tableSections() error {
	catalog := c.Catalog
	if len(c.Source.Databases) > 0 {
		catalog = catalog.of(databasePlaceholder, "x")
	}
	return errors.Join(catalog.Validate(), c.Columns.validate(), c.Index.validate(), c.Compaction.validate(), c.Clean.Validate(), c.Timeline.Validate(), c.ValidateRetain(),
		between("writer.max_rewrite", c.Writer.MaxRewrite, 0, 1<<34))
}
