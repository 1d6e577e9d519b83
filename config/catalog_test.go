package config_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/couch2hudi/couch2hudi/config"
)

func TestParseTargetURL(t *testing.T) {
	for text, want := range map[string]string{
		"hms://h/Shop.Orders":                       "hms h:9083 shop orders",
		"hms://h1,h2:1,[::1]:2,[::1]/s.o":           "hms h1:9083,h2:1,[::1]:2,[::1]:9083 s o",
		"hms://u:p%40@h:1/s.o?auth=plain&tls=true":  "hms h:1 s o u p@ auth=plain",
		"glue://eu-west-1/s.o_1":                    "glue eu-west-1 s o_1",
		"glue:///s.o?endpoint=http://127.0.0.1:1/x": "glue  s o endpoint=http://127.0.0.1:1/x",
	} {
		u, err := config.ParseTargetURL(config.Secret(text))
		parts := []string{u.Kind, strings.Join(u.Addresses, ",") + u.Region, u.Database, u.Name}
		if u.User != "" {
			parts = append(parts, u.User, u.Password.Reveal())
		}
		for _, name := range []string{"auth", "endpoint"} {
			if v := u.Option(name); v != "" {
				parts = append(parts, name+"="+v)
			}
		}
		got := strings.Join(parts, " ")
		if err != nil || got != want {
			t.Errorf("%s: %s, %v", text, got, err)
		}
		if strings.Contains(fmt.Sprintf("%s %v", u, u), "p@") {
			t.Errorf("%s: shows a password", text)
		}
	}
	for _, text := range []string{"", "h:9083/s.o", "http://h/s.o", "hms://h/s", "hms://h/s.", "hms://h/.o", "hms://h/s.o.p", "hms://h/s.o-p", "hms:///s.o", "hms://:9083/s.o",
		"hms://h/s.o?auth=digest", "hms://h/s.o?principal=hive/h", "hms://h/s.o?auth=plain&principal=hive/h", "hms://h/s.o?tls=yes", "hms://h/s.o?region=x", "glue://r/s.o?auth=plain", "glue://u:p@r/s.o", "hms://h/{table}.o"} {
		if u, err := config.ParseTargetURL(config.Secret(text)); !errors.Is(err, config.ErrConfig) {
			t.Errorf("%s: %v, %v", text, u, err)
		}
	}
}

func TestCatalogValidate(t *testing.T) {
	for text, want := range map[string]string{
		"{on: changes, interval: 0s, targets: ['hms://h/s.o', 'glue://r/s.o']}": "",
		"{on: never}":     "catalog.on",
		"{interval: 25h}": "catalog.interval",
		"{targets: ['hms://h/s.o', 'hms://H@h/s.o']}":   "catalog.targets",
		"{targets: ['hms://h/s.o', 'hms://h/{table}']}": "catalog.targets",
	} {
		c, err := config.Parse([]byte("source: {url: 'couchdb://h/db'}\ntable: {url: /t}\ncatalog: " + text))
		if err == nil {
			err = c.Validate()
		}
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}

// One list of targets is for several tables, or many databases, when it says where
// their names go; and secrets come from where the others do.
func TestCatalogPlaceholders(t *testing.T) {
	t.Setenv("METASTORE_PASSWORD", "s/c")
	c, err := config.Parse([]byte(`
source: {url: 'couchdb://h/db'}
table: {url: '/t/{table}'}
route: {field: type}
catalog: {targets: ['hms://u:${METASTORE_PASSWORD}@h/shop.{table}?auth=plain']}
tables:
  - {name: Big-Orders}
  - {name: people, catalog: {on: changes}}
  - {name: own, catalog: {targets: ['hms://u:${METASTORE_PASSWORD}@h/other.name?auth=plain']}}
`))
	if err == nil {
		err = c.Validate()
	}
	if err != nil {
		t.Fatal(err)
	}
	all, err := c.Several()
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{"shop.big_orders commits", "shop.people changes", "other.name commits"} {
		u, err := config.ParseTargetURL(all[i].Catalog.Targets[0])
		if got := u.Database + "." + u.Name + " " + all[i].Catalog.On; err != nil || got != want || u.Password != "s/c" {
			t.Errorf("%s, %v, want %s", got, err, want)
		}
	}
	c.Catalog.Targets = []config.Secret{"hms://h/shop.all"}
	if err := c.Validate(); err == nil || !strings.Contains(err.Error(), "{table}") {
		t.Errorf("one name for three tables: %v", err)
	}

	c, err = config.Parse([]byte("source: {url: 'couchdb://h', databases: ['user-*']}\ntable: {url: '/t/{db}'}\ncatalog: {targets: ['glue://r/users.{db}']}"))
	if err == nil {
		err = c.Validate()
	}
	if err != nil {
		t.Fatal(err)
	}
	one := c.Database("user-a/b")
	if got := one.Catalog.Targets[0].Reveal(); got != "glue://r/users.user_a_b" {
		t.Errorf("%s", got)
	}
	c.Catalog.Targets = []config.Secret{"hms://h/shop.all"}
	if err := c.Validate(); err == nil || !strings.Contains(err.Error(), "{db}") {
		t.Errorf("one name for many databases: %v", err)
	}
}
