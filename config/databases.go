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
	one.Source.Databases = nil
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
	return one
}

func databaseURL(server, name string) string {
	return strings.TrimSuffix(server, "/") + "/" + strings.ReplaceAll(url.PathEscape(name), "+", "%2B")
}

// severalDatabases checks what only concerns many databases.
func (c *Config) severalDatabases() error {
	s := &c.Source
	errs := []error{between("source.max_connections", s.MaxConnections, 1, 256), oneOf("source.deleted", s.Deleted, GoneKeep, GoneDelete)}
	for _, p := range s.Databases {
		if _, err := glob.Match(p, "x"); err != nil || p == "" {
			errs = append(errs, wrong("source.databases", "%q is no name and no pattern such as user-*", p))
		}
	}
	switch {
	case len(s.Databases) == 0:
		return errors.Join(errs...)
	case len(c.Tables) > 0:
		errs = append(errs, wrong("source.databases", "there are tables, too: many databases go into a table each, or one database into several tables"))
	case !strings.Contains(c.Table.URL, databasePlaceholder):
		errs = append(errs, wrong(fieldTable, "it is for all of source.databases, and has no %s for their names", databasePlaceholder))
	case c.Table.Name != "":
		errs = append(errs, wrong("table.name", "it would be that of every database's table; leave it out"))
	case s.Name != "":
		errs = append(errs, wrong("source.name", "it would be that of every database; leave it out"))
	}
	return errors.Join(errs...)
}
