package config

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

// Parse reads a config file on top of the defaults and resolves the references
// in source.url, source.auth, table.url, columns.salt, catalog.targets and produce.to. A key that does not exist is
// an error, with its path and line; a key without a value keeps its default. It does not
// Validate: flags come in between.
func Parse(data []byte) (Config, error) {
	c := Default()
	f, err := parser.ParseBytes(data, 0)
	if err != nil {
		return Config{}, parseError(nil, err)
	}
	root, err := document(f)
	if err != nil || root == nil {
		return c, err
	}
	// Once with all keys, for the unknown ones; then without those that have
	// no value, which would else overwrite a default.
	if err = yaml.NodeToValue(root, new(Config), yaml.Strict()); err == nil {
		if prune(root) {
			return c, nil
		}
		err = yaml.NodeToValue(root, &c, yaml.Strict())
	}
	if err != nil {
		return Config{}, parseError(root, err)
	}
	if err := c.resolve(); err != nil {
		return Config{}, err
	}
	return c, nil
}

// document is the one document of a file, nil for an empty one.
func document(f *ast.File) (ast.Node, error) {
	var root ast.Node
	for _, d := range f.Docs {
		switch {
		case d.Body == nil || d.Body.Type() == ast.NullType || d.Body.Type() == ast.CommentType:
		case root != nil:
			return nil, &FieldError{Line: d.Body.GetToken().Position.Line, Err: fmt.Errorf("%w: a second document", ErrSyntax)}
		default:
			root = d.Body
		}
	}
	return root, nil
}

// prune takes the keys without a value out of mappings. It says whether
// nothing is left.
func prune(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.NullNode:
		return true
	case *ast.MappingValueNode:
		return prune(n.Value)
	case *ast.MappingNode:
		n.Values = slices.DeleteFunc(n.Values, func(v *ast.MappingValueNode) bool { return prune(v.Value) })
		return len(n.Values) == 0
	}
	return false
}

func (c *Config) resolve() error {
	written := c.Source.URL.Reveal()
	url, err := resolve(written)
	if err != nil {
		return &FieldError{Field: fieldSource, Err: err}
	}
	c.Source.URL = Secret(url)
	c.Source.remember(written)
	auth := c.Source.Auth
	if c.Source.Auth, err = auth.resolve(); err != nil {
		return err
	}
	again := auth.resolve
	c.Source.rereadAuth = &again
	salt, err := resolve(c.Columns.Salt.Reveal())
	if err != nil {
		return &FieldError{Field: "columns.salt", Err: err}
	}
	c.Columns.Salt = Secret(salt)
	if err := c.Produce.resolve(); err != nil {
		return err
	}
	if err := c.Catalog.resolve(); err != nil {
		return err
	}
	if c.Table.URL, err = interpolate(c.Table.URL); err != nil {
		return &FieldError{Field: fieldTable, Err: err}
	}
	return nil
}

// parseError says where the YAML is wrong. The library's own message quotes
// the lines around it, secrets and all, so it is not used.
func parseError(root ast.Node, err error) error {
	var own *FieldError
	if errors.As(err, &own) {
		return own
	}
	var y yaml.Error
	if !errors.As(err, &y) || y.GetToken() == nil {
		return &FieldError{Err: fmt.Errorf("%w: the value of some key does not fit", ErrValue)}
	}
	at := y.GetToken().Position
	e := &FieldError{Field: path(root, at), Line: at.Line}
	var unknown *yaml.UnknownFieldError
	var twice *yaml.DuplicateKeyError
	var syntax *yaml.SyntaxError
	switch {
	case errors.As(err, &unknown):
		e.Err = ErrUnknownKey
	case errors.As(err, &twice):
		e.Err = fmt.Errorf("%w: the key stands twice", ErrSyntax)
	case errors.As(err, &syntax):
		e.Err = fmt.Errorf("%w: column %d", ErrSyntax, at.Column)
	default:
		e.Err = fmt.Errorf("%w: it has another type", ErrValue)
	}
	return e
}

// path is the path of the key or value at a position, like "commit.max_rows".
func path(root ast.Node, at *token.Position) string {
	if root == nil {
		return ""
	}
	v := &finder{at: at}
	ast.Walk(v, root)
	return field(v.path)
}

// field is a YAML path in our words.
func field(path string) string { return strings.TrimPrefix(path, "$.") }

// scalar reads the text of a node for a type of ours.
func scalar(n ast.Node, read func([]byte) error) error {
	at := n.GetToken()
	text := at.Value
	if n.Type() == ast.NullType {
		return nil
	}
	if err := read([]byte(text)); err != nil {
		return &FieldError{Field: field(n.GetPath()), Line: at.Position.Line, Err: err}
	}
	return nil
}

// UnmarshalYAML is UnmarshalText, with the place of the error.
func (d *Duration) UnmarshalYAML(n ast.Node) error { return scalar(n, d.UnmarshalText) }

// UnmarshalYAML is UnmarshalText, with the place of the error.
func (s *Size) UnmarshalYAML(n ast.Node) error { return scalar(n, s.UnmarshalText) }

// finder looks for the node at a position.
type finder struct {
	at   *token.Position
	path string
}

// Visit looks at one node.
func (v *finder) Visit(n ast.Node) ast.Visitor {
	if p := n.GetToken().Position; v.path == "" && p.Line == v.at.Line && p.Column == v.at.Column {
		v.path = n.GetPath()
	}
	return v
}
