package tidy_test

import (
	"bytes"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

const module = "github.com/couch2hudi/couch2hudi"

// tree is the module as the rules see it.
type tree struct {
	fset    *token.FileSet
	files   []file
	sources []source
}

// file is any text file; path is relative to the module, with "/".
type file struct {
	path string
	text []byte
}

// source is a Go file.
type source struct {
	file
	ast *ast.File
	// dir is the package's folder, "." for the root.
	dir string
	// test says that it is a _test.go file, external that its package is too.
	test, external bool
}

// finding is one break of a rule.
type finding struct {
	path string
	line int
	what string
}

func (f finding) String() string { return fmt.Sprintf("%s:%d: %s", f.path, f.line, f.what) }

// at is a finding at a place of a source.
func (t *tree) at(s source, pos token.Pos, format string, args ...any) finding {
	return finding{s.path, t.fset.Position(pos).Line, fmt.Sprintf(format, args...)}
}

// rule finds what breaks it.
type rule struct {
	name  string
	check func(*tree) []finding
}

func rules() []rule {
	return []rule{
		{"imports follow the graph", checkGraph},
		{"only wire.go names drivers", checkDrivers},
		{"libraries have one door", checkDoors},
		{"no init", checkInit},
		{"files and functions are short", checkLengths},
		{"exported names are documented", checkDocs},
		{"package names say something", checkPackageNames},
		{"tests are not skipped", checkSkips},
		{"gofmt", checkFormat},
		{"banned words", checkWords},
	}
}

func TestHouse(t *testing.T) {
	tr, err := load(os.DirFS("../.."))
	if err != nil {
		t.Fatal(err)
	}
	if len(tr.sources) == 0 || len(tr.files) == len(tr.sources) {
		t.Fatalf("found %d sources among %d files: this is not the module", len(tr.sources), len(tr.files))
	}
	for _, r := range rules() {
		t.Run(r.name, func(t *testing.T) {
			for _, f := range r.check(tr) {
				t.Error(f)
			}
		})
	}
}

// load reads every text file, and parses every Go file whatever its build tags.
// Folders with a dot, testdata and what .gitignore names at the root are left
// out.
func load(fsys fs.FS) (*tree, error) {
	ignored, err := readIgnored(fsys)
	if err != nil {
		return nil, err
	}
	t := &tree{fset: token.NewFileSet()}
	err = fs.WalkDir(fsys, ".", func(name string, e fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case e.IsDir() && name != "." && (e.Name()[0] == '.' || e.Name() == "testdata" || e.Name() == "bin" || ignored(name+"/")):
			return fs.SkipDir
		case !e.Type().IsRegular() || name == ".git" || ignored(name): // .git is a file in a linked worktree
			return nil
		}
		text, err := fs.ReadFile(fsys, name)
		if err != nil {
			return err
		}
		if bytes.IndexByte(text, 0) >= 0 { // not a text
			return nil
		}
		return t.add(file{name, text})
	})
	return t, err
}

func (t *tree) add(f file) error {
	t.files = append(t.files, f)
	if path.Ext(f.path) != ".go" {
		return nil
	}
	parsed, err := parser.ParseFile(t.fset, f.path, f.text, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	test := strings.HasSuffix(f.path, "_test.go")
	t.sources = append(t.sources, source{
		file: f, ast: parsed, dir: path.Dir(f.path), test: test,
		external: test && strings.HasSuffix(parsed.Name.Name, "_test"),
	})
	return nil
}

// readIgnored understands the patterns that .gitignore holds here: "/folder/",
// "/file" and "*.suffix".
func readIgnored(fsys fs.FS) (func(name string) bool, error) {
	text, err := fs.ReadFile(fsys, ".gitignore")
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	var exact, suffixes []string
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		if rest, ok := strings.CutPrefix(line, "/"); ok {
			exact = append(exact, rest)
		} else if rest, ok := strings.CutPrefix(line, "*"); ok {
			suffixes = append(suffixes, rest)
		}
	}
	return func(name string) bool {
		return slices.Contains(exact, name) ||
			slices.ContainsFunc(suffixes, func(s string) bool { return strings.HasSuffix(name, s) })
	}, nil
}

// TestEveryRuleFindsWhatBreaksIt runs every rule on a small module that breaks
// it: a rule that finds nothing holds nothing.
func TestEveryRuleFindsWhatBreaksIt(t *testing.T) {
	cases := broken()
	for _, r := range rules() {
		if len(cases[r.name]) == 0 {
			t.Errorf("%s: no module breaks it", r.name)
		}
		for i, c := range cases[r.name] {
			fsys := fstest.MapFS{}
			for name, text := range c.files {
				fsys[name] = &fstest.MapFile{Data: []byte(text)}
			}
			tr, err := load(fsys)
			if err != nil {
				t.Errorf("%s, case %d: %v", r.name, i, err)
				continue
			}
			var got []string
			for _, f := range r.check(tr) {
				got = append(got, fmt.Sprintf("%s:%d", f.path, f.line))
			}
			slices.Sort(got)
			if !slices.Equal(got, c.want) {
				t.Errorf("%s, case %d: found %q, want %q: %v", r.name, i, got, c.want, r.check(tr))
			}
		}
	}
}

func TestLoadLeavesOut(t *testing.T) {
	fsys := fstest.MapFS{}
	for _, name := range []string{
		"a.go", "docs/a.md", ".golangci.yml", ".gitignore",
		".git/x.go", ".cache/x.go", "hudi/testdata/x.go", "bin/x.go", "demo/x.go", "x.test", "deploy/demo/kept.txt",
	} {
		fsys[name] = &fstest.MapFile{Data: []byte("package a\n")}
	}
	fsys[".gitignore"].Data = []byte("/demo/\n*.test\n")
	fsys["picture.png"] = &fstest.MapFile{Data: []byte("\x89PNG\x00")}
	tr, err := load(fsys)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, f := range tr.files {
		got = append(got, f.path)
	}
	if want := []string{".gitignore", ".golangci.yml", "a.go", "deploy/demo/kept.txt", "docs/a.md"}; !slices.Equal(got, want) {
		t.Errorf("loaded %q, want %q", got, want)
	}
	fsys["a.go"].Data = []byte("package")
	if _, err := load(fsys); err == nil {
		t.Error("a file that does not parse is passed over")
	}
}
