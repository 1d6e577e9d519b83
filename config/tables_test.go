package config_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/couch2hudi/couch2hudi/config"
)

const several = `
source: {url: "http://h/db"}
route:
  field: meta.kind
  others: rest
table:
  url: /lake/{table}
  index: bucket
  buckets: 4
columns: {max_columns: 50, salt: "${TEST_SALT}"}
tables:
  - name: orders
    values: [order, 7]
    table:
      partition: {field: createdAt, format: yyyyMMdd}
      buckets: 64
    columns:
      declare: [{name: total, type: "decimal(12,2)"}]
  - name: people
    table:
      url: ${TEST_FOLDER}/persons
      name: persons
      deletes: hard
    retain: 48h
    columns: {keep_doc: false, salt: "${TEST_OTHER}"}
  - name: rest
    index:
`

func TestSeveralTables(t *testing.T) {
	t.Setenv("TEST_FOLDER", "/data")
	t.Setenv("TEST_SALT", "${not_a_reference}")
	t.Setenv("TEST_OTHER", "pepper")
	c, err := config.Parse([]byte(several))
	if err != nil {
		t.Fatal(err)
	}
	c.Table.Deletes = "tombstone"
	c.Retain = config.Duration(3e12) // as by a flag
	if err := c.Validate(); err != nil {
		t.Fatal(err)
	}
	all, err := c.Several()
	if err != nil || len(all) != 3 {
		t.Fatalf("%d tables, %v", len(all), err)
	}
	orders, people, rest := all[0], all[1], all[2]
	if orders.Table.URL != "/lake/orders" || orders.Table.Name != "orders" || orders.Table.Buckets != 64 || orders.Table.Index != "bucket" ||
		orders.Table.Partition.Field != "createdAt" || orders.Table.Partition.Timezone != "UTC" || len(orders.Columns.Declare) != 1 ||
		orders.Columns.MaxColumns != 50 || !orders.Columns.KeepDoc || orders.Columns.Salt.Reveal() != "${not_a_reference}" || orders.Retain != c.Retain {
		t.Errorf("orders: %+v", orders)
	}
	if people.Table.URL != "/data/persons" || people.Table.Name != "persons" || people.Table.Deletes != "hard" || people.Table.Buckets != 4 ||
		people.Columns.KeepDoc || people.Columns.Salt.Reveal() != "pepper" || people.Columns.MaxColumns != 50 || people.Retain.String() != "48h0m0s" || people.Table.Partition.Field != "" {
		t.Errorf("people: %+v", people)
	}
	if rest.Table.URL != "/lake/rest" || len(rest.Tables) != 0 || len(rest.Columns.Declare) != 0 {
		t.Errorf("rest: %+v", rest)
	}
	if !slices.Equal(c.Tables[0].Values, []string{"order", "7"}) || !slices.Equal(c.Tables[1].Values, []string{"people"}) {
		t.Errorf("values: %q, %q", c.Tables[0].Values, c.Tables[1].Values)
	}
	one, ok, err := c.Entry("people")
	if err != nil || !ok || one.Table.URL != "/data/persons" {
		t.Errorf("%t, %v", ok, err)
	}
	if _, ok, _ := c.Entry("nobody"); ok {
		t.Error("there is a table nobody")
	}
}

func TestSeveralTablesWrong(t *testing.T) {
	for text, want := range map[string]string{
		"tables: [{name: a, tabel: {}}]":      "tables[0].tabel: unknown key",
		"tables: [{name: a, retain: 3}]":      "tables[0].retain: bad value",
		"tables: [{name: a, values: {b: 1}}]": "tables[0]",
	} {
		if _, err := config.Parse([]byte(text)); !errors.Is(err, config.ErrConfig) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", text, err)
		}
	}
	const good = "source: {url: http://h/db}\nroute: {field: type, others: drop}\n"
	for text, want := range map[string]string{
		good: "tables: required",
		"source: {url: http://h/db}\ntables: [{name: a, table: {url: /a}}]\n":                    "route.field: required",
		good + "tables: [{table: {url: /a}}]":                                                    "tables[0].name: required",
		good + "tables: [{name: a/b, table: {url: /a}}]":                                         "letters",
		good + "tables: [{name: drop, table: {url: /a}}]":                                        "taken",
		good + "tables: [{name: a}]":                                                             "tables[0] a: table.url: required",
		good + "tables: [{name: a, table: {url: /a}}, {name: b, table: {url: /a/}}]":             "that of a, too",
		good + "tables: [{name: a, table: {url: /a}}, {name: b, values: [a], table: {url: /b}}]": `"a" is of a, too`,
		good + "tables: [{name: a, table: {url: /a, index: tree}}]":                              "tables[0] a: table.index: bad value",
		good + "tables: [{name: a, columns: {max_columns: 0}, table: {url: /a}}]":                "tables[0] a: columns.max_columns",
		good + "table: {url: /x}\ntables: [{name: a, table: {url: /a}}]":                         "table.url",
		strings.Replace(good, "drop", "b", 1) + "tables: [{name: a, table: {url: /a}}]":          "route.others",
	} {
		c, err := config.Parse([]byte(text))
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if err := c.Validate(); !errors.Is(err, config.ErrConfig) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s:\n%v\nwant %s", text, err, want)
		}
	}
}
