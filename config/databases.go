package config

import (
	"errors"
	"net/url"
	glob "path"
	"slices"
	"strings"
)

// What becomes of the rows of a database that was deleted.
const (
	GoneKeep   = "keep"
	GoneDelete = "delete"
)

// Where many databases go.
const (
	// IntoEach is a table for each of them.
	IntoEach = "each"
	// IntoOne is one table, whose record key is database and _id.
	IntoOne = "one"
)

// databasePlaceholder stands for the database's name in table.url.
const databasePlaceholder = "{db}"

// Wants says whether the source's databases name this one, by its name or by a
// pattern. Databases of the server itself, which begin with an underscore, are wanted
// by patterns that do so, too.
func (s *Source) Wants(name string) bool {
	return slices.ContainsFunc(s.Databases, func(p string) bool {
		return p == name || (strings.HasPrefix(p, "_") || !strings.HasPrefix(name, "_")) && matches(p, name)
	})
}

// Named are the databases that are named and not only meant by a pattern.
func (s *Source) Named() []string {
	return slices.DeleteFunc(slices.Clone(s.Databases), func(p string) bool { return strings.ContainsAny(p, `*?[\`) })
}

// matches is path.Match, to whom a slash is a letter like others.
func matches(pattern, name string) bool {
	ok, err := glob.Match(strings.ReplaceAll(pattern, "/", "\x00"), strings.ReplaceAll(name, "/", "\x00"))
	return ok && err == nil
}

// Database is the configuration of one of the source's databases, as of one alone.
func (c *Config) Database(name string) Config {
	one := *c
	one.Source.Databases, one.database = nil, name
	one.Source.URL = Secret(databaseURL(c.Source.URL.Reveal(), name))
	again := func(current Secret) (Secret, error) {
		if current != one.Source.URL {
			return current, nil
		}
		server, err := c.Source.Reread()
		return Secret(databaseURL(server.Reveal(), name)), err
	}
	one.Source.reread = &again
	one.Table.URL = strings.ReplaceAll(c.Table.URL, databasePlaceholder, url.PathEscape(name))
	one.Catalog = c.Catalog.of(databasePlaceholder, name)
	return one
}

// Shared says whether the table takes many databases, of which the configuration may be
// of one, then named.
func (c *Config) Shared() (database string, shared bool) {
	return c.database, c.Source.Into == IntoOne
}

func databaseURL(server, name string) string {
	return strings.TrimSuffix(server, "/") + "/" + strings.ReplaceAll(url.PathEscape(name), "+", "%2B")
}

// severalDatabases checks what only concerns many databases.
func (c *Config) severalDatabases() error {
	s := &c.Source
	errs := []error{between("source.max_connections", s.MaxConnections, 1, 256), oneOf("source.deleted", s.Deleted, GoneKeep, GoneDelete), oneOf("source.into", s.Into, IntoEach, IntoOne)}
	for _, p := range s.Databases {
		if _, err := glob.Match(p, "x"); err != nil || p == "" {
			errs = append(errs, wrong("source.databases", "%q is no name and no pattern such as user-*", p))
		}
	}
	switch {
	case len(s.Databases) == 0 && s.Into == IntoOne && c.database == "":
		errs = append(errs, wrong("source.into", "it is one, and there are no source.databases"))
	case len(s.Databases) == 0:
		return errors.Join(errs...)
	case len(c.Tables) > 0:
		errs = append(errs, wrong("source.databases", "there are tables, too: many databases go into a table each, or one database into several tables"))
	case s.Into == IntoOne && strings.Contains(c.Table.URL, databasePlaceholder):
		errs = append(errs, wrong(fieldTable, "source.into is one, and it has %s, which stands for the name of each database", databasePlaceholder))
	case s.Into == IntoOne && s.Since != "0" && s.Since != "now":
		errs = append(errs, wrong("source.since", "it is for all of source.databases: write 0 or now"))
	case s.Into == IntoOne && s.Name == "":
		return errors.Join(errs...)
	case s.Into != IntoOne && !strings.Contains(c.Table.URL, databasePlaceholder):
		errs = append(errs, wrong(fieldTable, "it is for all of source.databases, and has no %s for their names", databasePlaceholder))
	case s.Into != IntoOne && c.Catalog.without(databasePlaceholder) != nil:
		errs = append(errs, c.Catalog.without(databasePlaceholder))
	case c.Table.Name != "" && s.Into != IntoOne:
		errs = append(errs, wrong("table.name", "it would be that of every database's table; leave it out"))
	case s.Name != "":
		errs = append(errs, wrong("source.name", "it would be that of every database; leave it out"))
	}
	return errors.Join(errs...)
}
