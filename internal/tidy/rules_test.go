package tidy_test

import (
	"bytes"
	"go/ast"
	"go/format"
	"go/token"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

func checkInit(t *tree) (found []finding) {
	for _, s := range t.sources {
		for _, d := range s.ast.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && f.Recv == nil && f.Name.Name == "init" {
				found = append(found, t.at(s, f.Pos(), "func init: what happens at start is said in main"))
			}
		}
	}
	return found
}

const (
	maxFileLines     = 600
	maxFunctionLines = 70
)

func checkLengths(t *tree) (found []finding) {
	for _, s := range t.sources {
		if n := bytes.Count(s.text, []byte("\n")); n > maxFileLines {
			found = append(found, finding{s.path, maxFileLines + 1, "the file has " + strconv.Itoa(n) + " lines, at most " + strconv.Itoa(maxFileLines)})
		}
		if s.test {
			continue
		}
		for _, d := range s.ast.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok || f.Body == nil {
				continue
			}
			if n := t.bodyLines(s, f.Body); n > maxFunctionLines {
				found = append(found, t.at(s, f.Pos(), "func %s has %d lines, at most %d", f.Name.Name, n, maxFunctionLines))
			}
		}
	}
	return found
}

// bodyLines is how many lines a function has between its braces, less those
// that are comments only.
func (t *tree) bodyLines(s source, body *ast.BlockStmt) int {
	line := func(p token.Pos) int { return t.fset.Position(p).Line }
	n := line(body.Rbrace) - line(body.Lbrace) - 1
	lines := bytes.Split(s.text, []byte("\n"))
	for _, group := range s.ast.Comments {
		if group.Pos() < body.Lbrace || group.End() > body.Rbrace {
			continue
		}
		for _, c := range group.List {
			if bytes.HasPrefix(bytes.TrimSpace(lines[line(c.Pos())-1]), []byte("/")) {
				n -= line(c.End()) - line(c.Pos()) + 1
			}
		}
	}
	return n
}

// selfExplaining are methods whose doc could only repeat the standard library's.
func selfExplaining() []string {
	return []string{"Error", "Unwrap", "Is", "String", "Read", "Write", "ServeHTTP", "Len", "Less", "Swap"}
}

func checkDocs(t *tree) (found []finding) {
	packages := map[string]source{}
	for _, s := range t.sources {
		if s.test {
			continue
		}
		if before, seen := packages[s.dir]; !seen || before.ast.Doc == nil {
			packages[s.dir] = s
		}
		for _, d := range s.ast.Decls {
			found = append(found, t.checkDecl(s, d)...)
		}
	}
	for _, s := range packages {
		if s.ast.Doc.Text() == "" {
			found = append(found, t.at(s, s.ast.Package, "package %s has no package comment", s.dir))
		}
	}
	return found
}

func (t *tree) checkDecl(s source, d ast.Decl) (found []finding) {
	missing := func(name *ast.Ident, docs ...*ast.CommentGroup) {
		documented := slices.ContainsFunc(docs, func(c *ast.CommentGroup) bool { return c.Text() != "" })
		if name.IsExported() && !documented {
			found = append(found, t.at(s, name.Pos(), "%s is exported and has no doc comment", name.Name))
		}
	}
	switch d := d.(type) {
	case *ast.FuncDecl:
		method := d.Recv != nil
		if !method || receiverExported(d.Recv.List[0].Type) && !slices.Contains(selfExplaining(), d.Name.Name) {
			missing(d.Name, d.Doc)
		}
	case *ast.GenDecl:
		for _, spec := range d.Specs {
			switch spec := spec.(type) {
			case *ast.TypeSpec:
				if d.Lparen.IsValid() {
					missing(spec.Name, spec.Doc) // a group's doc says nothing of one type
				} else {
					missing(spec.Name, d.Doc)
				}
			case *ast.ValueSpec:
				for _, name := range spec.Names {
					missing(name, d.Doc, spec.Doc, spec.Comment, naming(d, name.Name))
				}
			}
		}
	}
	return found
}

// naming is a comment within a group that speaks of the name, which may stand
// at another of the group.
func naming(d *ast.GenDecl, name string) *ast.CommentGroup {
	word := regexp.MustCompile(`\b` + name + `\b`)
	for _, spec := range d.Specs {
		if v, ok := spec.(*ast.ValueSpec); ok && word.MatchString(v.Doc.Text()) {
			return v.Doc
		}
	}
	return nil
}

// receiverExported says whether a method's type is exported.
func receiverExported(e ast.Expr) bool {
	for {
		switch x := e.(type) {
		case *ast.StarExpr:
			e = x.X
		case *ast.IndexExpr:
			e = x.X
		case *ast.IndexListExpr:
			e = x.X
		case *ast.Ident:
			return x.IsExported()
		default:
			return false
		}
	}
}

// saysNothing are names that would fit any package.
func saysNothing() []string {
	return []string{"util", "utils", "common", "type", "types", "model", "models", "helper", "helpers", "constant", "constants", "misc", "shared", "lib", "base", "core"}
}

func checkPackageNames(t *tree) (found []finding) {
	for _, s := range t.sources {
		name := strings.TrimSuffix(s.ast.Name.Name, "_test")
		for _, n := range []string{name, path.Base(s.dir)} {
			if slices.Contains(saysNothing(), n) {
				found = append(found, t.at(s, s.ast.Package, "a package named %s: name it after what it holds", n))
				break
			}
		}
	}
	return found
}

func checkSkips(t *tree) (found []finding) {
	for _, s := range t.sources {
		if !imports(s, "testing") {
			continue
		}
		ast.Inspect(s.ast, func(n ast.Node) bool {
			sel, ok := n.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			x, ok := sel.X.(*ast.Ident)
			if ok && slices.Contains([]string{"t", "b", "f", "tb"}, x.Name) && slices.Contains([]string{"Skip", "Skipf", "SkipNow"}, sel.Sel.Name) {
				found = append(found, t.at(s, sel.Pos(), "%s.%s: a test that does not run holds nothing", x.Name, sel.Sel.Name))
			}
			return true
		})
	}
	return found
}

func imports(s source, library string) bool {
	return slices.ContainsFunc(s.ast.Imports, func(spec *ast.ImportSpec) bool {
		return spec.Path.Value == strconv.Quote(library)
	})
}

func checkFormat(t *tree) (found []finding) {
	for _, s := range t.sources {
		formatted, err := format.Source(s.text)
		if err != nil {
			found = append(found, finding{s.path, 1, err.Error()})
			continue
		}
		if line := firstDifference(s.text, formatted); line > 0 {
			found = append(found, finding{s.path, line, "not as gofmt writes it: run gofmt -w " + s.path})
		}
	}
	return found
}

// firstDifference is the first line that differs, or 0.
func firstDifference(a, b []byte) int {
	if bytes.Equal(a, b) {
		return 0
	}
	as, bs := bytes.Split(a, []byte("\n")), bytes.Split(b, []byte("\n"))
	for i := range min(len(as), len(bs)) {
		if !bytes.Equal(as[i], bs[i]) {
			return i + 1
		}
	}
	return min(len(as), len(bs)) + 1
}
