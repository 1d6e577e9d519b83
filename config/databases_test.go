package config_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/couch2hudi/couch2hudi/config"
)

func TestDatabases(t *testing.T) {
	t.Setenv("TEST_PASSWORD", "s3cret/")
	c, err := config.Parse([]byte("source: {url: 'couchdb://ann:${TEST_PASSWORD}@h:5984/couch/', databases: [shop, 'user-*', 'eu/?', _users]}\ntable: {url: '/lake/{db}'}\n"))
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Validate(); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]bool{"shop": true, "shops": false, "user-": true, "user-a/b+c": true, "eu/x": true, "eu/xy": false, "_users": true, "_replicator": false} {
		if c.Source.Wants(name) != want {
			t.Errorf("%s: wanted %t", name, !want)
		}
	}
	all := config.Source{Databases: []string{"*"}}
	if all.Wants("_users") || !all.Wants("a/b") {
		t.Error("all databases are those of people")
	}
	if got := c.Source.Named(); !slices.Equal(got, []string{"shop", "_users"}) {
		t.Errorf("named: %q", got)
	}
	one := c.Database("user-a/b+c")
	u, err := config.ParseSourceURL(one.Source.URL)
	if err != nil || u.Database != "user-a/b+c" || u.Server != "http://h:5984/couch" || u.Password.Reveal() != "s3cret/" || one.Table.URL != "/lake/user-a%2Fb+c" {
		t.Errorf("%+v, %s, %v", u, one.Table.URL, err)
	}
	if err := one.Validate(); err != nil {
		t.Error(err)
	}
	t.Setenv("TEST_PASSWORD", "rotated")
	again, err := one.Source.Reread()
	if err != nil {
		t.Fatal(err)
	}
	if u, err := config.ParseSourceURL(again); err != nil || u.Password.Reveal() != "rotated" || u.Database != "user-a/b+c" {
		t.Errorf("%+v, %v", u, err)
	}
	for text, want := range map[string]string{
		"source: {url: http://h, databases: [a]}\ntable: {url: /x}":                                                       "{db}",
		"source: {url: http://h, databases: ['a[']}\ntable: {url: '/x/{db}'}":                                             "source.databases",
		"source: {url: http://h, databases: [a], max_connections: 0}\ntable: {url: '/x/{db}'}":                            "max_connections",
		"source: {url: http://h, databases: [a], deleted: drop}\ntable: {url: '/x/{db}'}":                                 "source.deleted",
		"source: {url: http://h, databases: [a]}\ntable: {url: '/x/{db}', name: n}":                                       "table.name",
		"source: {url: http://h, databases: [a], into: two}\ntable: {url: '/x/{db}'}":                                     "source.into",
		"source: {url: http://h/a, into: one}\ntable: {url: /x}":                                                          "source.databases",
		"source: {url: http://h, databases: [a], into: one}\ntable: {url: '/x/{db}'}":                                     "{db}",
		"source: {url: http://h, databases: [a], into: one, since: 3-x}\ntable: {url: /x}":                                "source.since",
		"source: {url: http://h, databases: [a], into: one, name: n}\ntable: {url: /x}":                                   "source.name",
		"source: {url: 'kafka://h:9092', databases: [a]}\ntable: {url: '/x/{db}'}":                                        "kind kafka",
		"source: {url: http://h, databases: [a]}\nroute: {field: f, others: drop}\ntables: [{name: a, table: {url: /a}}]": "tables",
	} {
		c, err := config.Parse([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Validate(); !errors.Is(err, config.ErrConfig) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", text, err)
		}
	}
}

func TestDatabasesIntoOne(t *testing.T) {
	c, err := config.Parse([]byte("source: {url: http://h:5984, databases: ['user-*'], into: one, since: now}\ntable: {url: /lake/all, name: users}\n"))
	if err != nil {
		t.Fatal(err)
	}
	one := c.Database("user-a/b")
	for _, c := range []config.Config{c, one} {
		if err := c.Validate(); err != nil {
			t.Error(err)
		}
		if _, shared := c.Shared(); !shared || c.Table.URL != "/lake/all" {
			t.Errorf("shared %t, %s", shared, c.Table.URL)
		}
	}
	if name, _ := one.Shared(); name != "user-a/b" {
		t.Errorf("of %q", name)
	}
}
