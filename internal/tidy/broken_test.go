package tidy_test

import (
	"fmt"
	"strings"
)

// brokenCase is a module and what a rule must find in it, as "path:line" in order.
type brokenCase struct {
	files map[string]string
	want  []string
}

// goFile is a Go file of that package that imports those packages of the module.
func goFile(name string, imports ...string) string {
	var text strings.Builder
	fmt.Fprintf(&text, "// Package %s is.\npackage %[1]s\n", name)
	for _, i := range imports {
		fmt.Fprintf(&text, "import _ %q\n", module+"/"+i)
	}
	return text.String()
}

// library is a Go file that imports another module's package.
func library(name, imported string) string {
	return "package " + name + "\nimport _ \"" + imported + "\"\n"
}

// broken holds modules by the rule that they break.
func broken() map[string][]brokenCase {
	return map[string][]brokenCase{
		"imports follow the graph": {
			{map[string]string{
				"hudi/a.go":                 goFile("hudi"),
				"hudi/logfile/a.go":         goFile("logfile", "hudi", "storage"),
				"table/a.go":                goFile("table", "hudi", "storage", "changes"),
				"newroom/a.go":              goFile("newroom"),
				"cmd/couch2hudi/wire.go":    goFile("main", "hudi", "table", "storage/file"),
				"e2e/oracle/a.go":           goFile("oracle", "hudi", "table"),
				"storage/file/a.go":         goFile("file", "storage", "storage/mem"),
				"hudi/basefile/in_test.go":  goFile("basefile", "hudi", "storage/mem"),
				"reader/out_test.go":        goFile("reader_test", "reader", "storage", "storage/mem", "storage/storagetest", "internal/couchfake", "writer"),
				"changes/couchdb/o_test.go": goFile("couchdb_test", "changes/couchdb", "changes", "hudi"),
			}, []string{
				"changes/couchdb/o_test.go:5", "hudi/basefile/in_test.go:4", "hudi/logfile/a.go:4",
				"newroom/a.go:2", "reader/out_test.go:8", "storage/file/a.go:4", "table/a.go:5",
			}},
		},
		"only wire.go names drivers": {
			{map[string]string{
				"cmd/couch2hudi/wire.go":   goFile("main", "storage/file", "changes/couchdb"),
				"cmd/couch2hudi/ingest.go": goFile("main", "storage", "storage/file", "changes/kafka", "catalog/hms"),
				"pipeline/a.go":            goFile("pipeline", "changes/changestest"),
				"pipeline/a_test.go":       goFile("pipeline_test", "storage/mem"),
				"e2e/a.go":                 goFile("e2e", "storage/file"),
			}, []string{"cmd/couch2hudi/ingest.go:4", "cmd/couch2hudi/ingest.go:5", "cmd/couch2hudi/ingest.go:6", "pipeline/a.go:3"}},
		},
		"libraries have one door": {
			{map[string]string{
				"internal/avro/a.go":     library("avro", "github.com/hamba/avro/v2"),
				"hudi/a.go":              library("hudi", "github.com/hamba/avro/v2"),
				"hudi/a_test.go":         library("hudi_test", "github.com/hamba/avro/v2/ocf"),
				"table/a.go":             library("table", "log/slog"),
				"table/a_test.go":        library("table_test", "log/slog"),
				"pipeline/a.go":          library("pipeline", "log/slog"),
				"cmd/couch2hudi/main.go": library("main", "log/slog"),
				"cmd/couch2hudi/old.go":  library("main", "log"),
				"writer/a.go":            library("writer", "github.com/prometheus/client_golang/prometheus"),
			}, []string{"cmd/couch2hudi/old.go:2", "hudi/a.go:2", "hudi/a_test.go:2", "table/a.go:2", "writer/a.go:2"}},
		},
		"no init": {
			{map[string]string{"a/a.go": "package a\n\nfunc init() {}\n\ntype t int\n\nfunc (t) init() {}\n"}, []string{"a/a.go:3"}},
		},
		"files and functions are short": {
			{map[string]string{
				"a/long.go":      "package a\n" + strings.Repeat("\n", 600),
				"a/right.go":     "package a\n" + strings.Repeat("\n", 599),
				"a/func.go":      "package a\n\nfunc f() {\n" + strings.Repeat("\tf()\n", 71) + "}\n",
				"a/func70.go":    "package a\n\nfunc g() {\n" + strings.Repeat("\tg()\n", 70) + "}\n",
				"a/comments.go":  "package a\n\nfunc h() {\n" + strings.Repeat("\th()\n\t// why\n", 70) + "}\n",
				"a/trailing.go":  "package a\n\nfunc i() {\n" + strings.Repeat("\ti() // why\n", 71) + "}\n",
				"a/func_test.go": "package a\n\nfunc j() {\n" + strings.Repeat("\tj()\n", 100) + "}\n",
			}, []string{"a/func.go:3", "a/long.go:601", "a/trailing.go:3"}},
		},
		"exported names are documented": {brokenDocs()},
		"package names say something": {
			{map[string]string{"utils/a.go": goFile("strange"), "b/a.go": goFile("helpers"), "c/a_test.go": goFile("common_test"), "typesetting/a.go": goFile("typesetting")},
				[]string{"b/a.go:2", "c/a_test.go:2", "utils/a.go:2"}},
		},
		"tests are not skipped": {
			{map[string]string{
				"a/a_test.go": "package a\n\nimport \"testing\"\n\nfunc TestA(t *testing.T) {\n\tt.Skip(\"later\")\n}\n\nfunc BenchmarkA(b *testing.B) { b.SkipNow() }\n",
				"a/suite.go":  "package a\n\nimport \"testing\"\n\nfunc Run(tb testing.TB) { tb.Skipf(\"%d\", 1) }\n",
				"a/scan.go":   "package a\n\nfunc f(t interface{ Skip() }) { t.Skip() }\n",
			}, []string{"a/a_test.go:6", "a/a_test.go:9", "a/suite.go:5"}},
		},
		"gofmt": {
			{map[string]string{"a/a.go": "package a\n\nfunc f() {\n  f()\n}\n", "a/b.go": "package a\n"}, []string{"a/a.go:4"}},
		},
		"banned words": {brokenWords()},
	}
}

func brokenDocs() brokenCase {
	return brokenCase{map[string]string{
		"a/a.go": `// Package a is.
package a

func F() {}

// G does.
func G() {}

type T struct{}

func (T) M() {}

func (*T) String() string { return "" }

type hidden struct{}

func (hidden) M() {}

const C = 1

// All of these.
const (
	D = 1
	E = 2
)

var (
	V = 1 // V is.
	W = 2
)

const (
	none = 0
	// H and I are, a Jay is not.
	H = 1
	I = 2
	J = 3
)

// Several.
type (
	X int
	// Y is.
	Y int
)
`,
		"b/b.go":      "package b\n",
		"c/c.go":      "package c\n",
		"c/doc.go":    "// Package c is.\npackage c\n",
		"c/c_test.go": "package c\n\nfunc Exported() {}\n",
	}, []string{"a/a.go:11", "a/a.go:19", "a/a.go:29", "a/a.go:37", "a/a.go:4", "a/a.go:42", "a/a.go:9", "b/b.go:1"}}
}

// brokenWords spells what it must not say in two pieces.
func brokenWords() brokenCase {
	return brokenCase{map[string]string{
		"a/a.go":          "package a\n\n// TO" + "DO: later\n",
		"README.md":       "fine\nX" + "XX\nsee /wo" + "rk/main, and network/wo" + "rk/ and https://example.org/wo" + "rk/x\nNot imple" + "mented\n",
		"deploy/run.sh":   "cp /ro" + "ot/x .\nmktemp -d x.XXXXXX\nGOPRO" + "XY=https://proxy go build\n",
		"config.yml":      "url: http://10" + ".1.2.3:5984\nurl: http://localhost:5984\npath=/ho" + "me/me/x\n",
		"testdata/x.json": "TO" + "DO\n",
		wordsFile:         "package tidy_test // TO" + "DO\n",
	}, []string{"README.md:2", "README.md:3", "README.md:4", "a/a.go:3", "config.yml:1", "config.yml:3", "deploy/run.sh:1", "deploy/run.sh:3"}}
}
