package tidy_test

import (
	"maps"
	"slices"
	"strconv"
	"strings"
)

// graph says which packages of the module each package may import. Read it
// from the top: vocabulary and doors know nothing, the state knows the
// vocabulary, and both halves, what sources say and how tables are written,
// meet only in pipeline. A new package gets its line here first.
func graph() map[string][]string {
	return map[string][]string{
		"changes":             {},
		"changes/couchdb":     {"changes"},
		"changes/kafka":       {"changes"},
		"changes/ndjson":      {"changes"},
		"changes/changestest": {"changes"},

		"storage":             {},
		"storage/file":        {"storage"},
		"storage/mem":         {"storage"},
		"storage/cloud":       {"storage"},
		"storage/hdfs":        {"storage", "internal/kerberos"},
		"storage/storagetest": {"storage"},

		"config":             {},
		"filter":             {},
		"hudi":               {},
		"internal/bloom":     {},
		"internal/couchfake": {},
		"internal/s3fake":    {},
		"internal/golden":    {"storage"},
		"internal/hdfsfake":  {"storage/hdfs"},
		"internal/kerberos":  {},
		"internal/avro":      {},
		"internal/teststore": {"storage", "storage/file", "storage/mem", "storage/cloud", "storage/hdfs", "storage/storagetest", "internal/hdfsfake", "internal/s3fake"},
		"internal/tidy":      {},

		"commitmeta":     {"hudi", "internal/avro"},
		"hudi/logfile":   {"hudi", "internal/avro"},
		"hudi/basefile":  {"hudi", "internal/avro", "internal/bloom"},
		"normalize":      {"changes", "filter", "hudi"},
		"hudi/timeline":  {"hudi", "commitmeta", "storage", "hudi/logfile", "hudi/basefile"},
		"table":          {"hudi", "hudi/timeline", "commitmeta", "storage"},
		"reader":         {"hudi", "hudi/basefile", "hudi/logfile", "hudi/timeline", "commitmeta", "table"},
		"index":          {"hudi", "hudi/basefile", "internal/bloom", "table", "reader"},
		"index/keycache": {"hudi", "hudi/basefile", "hudi/timeline", "commitmeta", "index", "reader", "table"},
		"writer":         {"hudi", "hudi/basefile", "hudi/logfile", "commitmeta", "table", "reader"},
		"compaction":     {"hudi", "hudi/timeline", "hudi/basefile", "commitmeta", "table", "reader", "writer"},
		"rebucket":       {"hudi", "hudi/basefile", "commitmeta", "table", "reader"},

		"catalog":             {"hudi", "hudi/timeline", "commitmeta", "table"},
		"catalog/hms":         {"catalog", "internal/kerberos"},
		"catalog/glue":        {"catalog"},
		"catalog/catalogtest": {"catalog"},

		"pipeline": {"changes", "normalize", "hudi", "commitmeta", "table", "index", "reader", "writer", "compaction", "rebucket"},
		"status":   {"pipeline"},
	}
}

// mayImportAll says which packages tie everything together.
func mayImportAll(dir string) bool {
	return dir == "cmd/couch2hudi" || dir == "e2e" || strings.HasPrefix(dir, "e2e/")
}

// suites are what tests of any package may lean on, besides drivers.
func suites() []string {
	return []string{"changes/changestest", "storage/storagetest", "catalog/catalogtest", "internal/couchfake", "internal/golden", "internal/hdfsfake", "internal/s3fake", "internal/teststore"}
}

// isIndex says whether a package is a further index, which package index does not
// know: tests above may put it into its place.
func isIndex(dir string) bool { return strings.HasPrefix(dir, "index/") }

// isDriver says whether a package is one of several behind one interface.
func isDriver(dir string) bool {
	for _, parent := range []string{"changes/", "storage/", "catalog/"} {
		if strings.HasPrefix(dir, parent) {
			return !slices.Contains(suites(), dir)
		}
	}
	return false
}

// reach is all that dir may import, and what that may import in turn.
func reach(dir string) map[string]bool {
	all := map[string]bool{}
	var visit func(string)
	visit = func(d string) {
		for _, next := range graph()[d] {
			if !all[next] {
				all[next] = true
				visit(next)
			}
		}
	}
	visit(dir)
	return all
}

// imports yields the packages of this module that a source imports.
func (t *tree) imports(s source, yield func(dir string, f func(format string, args ...any) finding)) {
	for _, spec := range s.ast.Imports {
		full, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			continue // the parser has seen to it
		}
		if dir, ok := strings.CutPrefix(full, module+"/"); ok {
			yield(dir, func(format string, args ...any) finding { return t.at(s, spec.Pos(), format, args...) })
		}
	}
}

func checkGraph(t *tree) (found []finding) {
	known := graph()
	for _, s := range t.sources {
		allowed, ok := known[s.dir]
		if !ok && !mayImportAll(s.dir) {
			found = append(found, t.at(s, s.ast.Package, "package %s is not in the graph: say in graph_test.go what it may import", s.dir))
			continue
		}
		if ok {
			found = append(found, t.checkImports(s, allowed)...)
		}
	}
	return found
}

// checkImports: a package keeps to its line; its external tests may also use
// whatever lies below it, drivers and suites.
func (t *tree) checkImports(s source, allowed []string) (found []finding) {
	below := reach(s.dir)
	t.imports(s, func(dir string, at func(string, ...any) finding) {
		switch {
		case slices.Contains(allowed, dir):
		case s.external && (dir == s.dir || below[dir] || isDriver(dir) || isIndex(dir) || slices.Contains(suites(), dir)):
		case s.test && !s.external:
			found = append(found, at("%s may not import %s; a test that needs it belongs into package %s_test", s.dir, dir, s.ast.Name.Name))
		case s.external:
			found = append(found, at("tests of %s may import what lies below it (%s), drivers and suites, not %s",
				s.dir, strings.Join(slices.Sorted(maps.Keys(below)), ", "), dir))
		default:
			found = append(found, at("%s may import only [%s], not %s", s.dir, strings.Join(allowed, ", "), dir))
		}
	})
	return found
}

// wire is the one file that knows which drivers there are.
const wire = "cmd/couch2hudi/wire.go"

func checkDrivers(t *tree) (found []finding) {
	for _, s := range t.sources {
		if s.test || s.path == wire || strings.HasPrefix(s.dir, "e2e") || slices.Contains(suites(), s.dir) {
			continue
		}
		t.imports(s, func(dir string, at func(string, ...any) finding) {
			if isDriver(dir) || slices.Contains(suites(), dir) {
				found = append(found, at("%s is imported: only %s names drivers, and only tests use suites", dir, wire))
			}
		})
	}
	return found
}

// door is a library that only some packages may import.
type door struct {
	library string
	why     string
	// tests says that tests are held to it too.
	tests   bool
	allowed func(dir string) bool
}

func doors() []door {
	in := func(dirs ...string) func(string) bool {
		return func(dir string) bool {
			return slices.ContainsFunc(dirs, func(d string) bool { return dir == d || strings.HasPrefix(dir, d+"/") })
		}
	}
	return []door{
		{"github.com/hamba/avro", "internal/avro is the one door to the Avro library", true, in("internal/avro")},
		{"log/slog", "only cmd, status and pipeline hold a logger; return an error, or tell an observer", false, in("cmd", "status", "pipeline")},
		{"log", "log with log/slog", true, in()},
		{"github.com/prometheus", "only status knows metrics", false, in("status")},
	}
}

func checkDoors(t *tree) (found []finding) {
	all := doors()
	for _, s := range t.sources {
		for _, spec := range s.ast.Imports {
			library, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				continue // the parser has seen to it
			}
			for _, d := range all {
				whole := library == d.library || strings.HasPrefix(library, d.library+"/") && d.library != "log"
				if whole && !d.allowed(s.dir) && (d.tests || !s.test) {
					found = append(found, t.at(s, spec.Pos(), "%s imports %s: %s", s.dir, library, d.why))
				}
			}
		}
	}
	return found
}
