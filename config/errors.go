package config

import (
	"errors"
	"fmt"
)

// ErrConfig marks every error of this package: somebody has to change the
// configuration.
var ErrConfig = errors.New("bad config")

// Causes of a FieldError.
var (
	// ErrSyntax: the file is not YAML.
	ErrSyntax = errors.New("not YAML")
	// ErrUnknownKey: there is no such key.
	ErrUnknownKey = errors.New("unknown key")
	// ErrRequired: the field has no value and no default.
	ErrRequired = errors.New("required")
	// ErrValue: the value is not one that the field takes.
	ErrValue = errors.New("bad value")
	// ErrReference: an environment variable or file that a value names cannot
	// be read.
	ErrReference = errors.New("reference cannot be resolved")
)

// FieldError says which field is wrong. It never holds a secret, nor any text
// of the file but keys.
type FieldError struct {
	// Field is the field's path, like "commit.max_rows"; empty for the file
	// as a whole.
	Field string
	// Line is where it stands in the file; 0 when it does not come from one.
	Line int
	Err  error
}

// Error is like "line 3: commit.max_rows: bad value: 0 is not at least 1".
func (e *FieldError) Error() string {
	text := e.Err.Error()
	if e.Field != "" {
		text = e.Field + ": " + text
	}
	if e.Line > 0 {
		text = fmt.Sprintf("line %d: %s", e.Line, text)
	}
	return text
}

// Unwrap is the cause, and ErrConfig.
func (e *FieldError) Unwrap() []error { return []error{e.Err, ErrConfig} }

// wrong is the error of a field whose value does not do.
func wrong(field, format string, args ...any) error {
	return &FieldError{Field: field, Err: fmt.Errorf("%w: %s", ErrValue, fmt.Sprintf(format, args...))}
}
