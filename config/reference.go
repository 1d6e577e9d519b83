package config

import (
	"fmt"
	"os"
	"strings"
)

// References keep secrets out of the file:
//
//	${NAME}          the environment variable
//	${file:/a/path}  the file's content, without a line break at its end
//	file:/a/path     the same, when it is the whole value
//
// In the user and password of a URL what a reference stands for is inserted
// percent-encoded, so that a password may hold any character; anywhere else it
// is inserted as it is. What is inserted is not searched for references again.

// resolve replaces the references in a value. Its errors name the reference,
// never what it stands for.
func resolve(text string) (string, error) {
	if name, ok := strings.CutPrefix(text, filePrefix); ok {
		return readSecret(name)
	}
	return interpolate(text)
}

// interpolate is resolve for a value that may be a file's URL itself.
func interpolate(text string) (string, error) {
	var b strings.Builder
	rest := text
	for {
		literal, after, found := strings.Cut(rest, "${")
		b.WriteString(literal)
		if !found {
			return b.String(), nil
		}
		name, tail, closed := strings.Cut(after, "}")
		if !closed {
			return "", fmt.Errorf("%w: ${ without }", ErrReference)
		}
		value, err := lookup(name)
		if err != nil {
			return "", err
		}
		if inUserinfo(b.String(), tail) {
			value = percentEncode(value)
		}
		b.WriteString(value)
		rest = tail
	}
}

const filePrefix = "file:"

func lookup(name string) (string, error) {
	if path, ok := strings.CutPrefix(name, filePrefix); ok {
		return readSecret(path)
	}
	value, ok := os.LookupEnv(name)
	if !ok {
		return "", fmt.Errorf("%w: environment variable %q is not set", ErrReference, name)
	}
	return value, nil
}

func readSecret(path string) (string, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return "", fmt.Errorf("%w: %w", ErrReference, err)
	}
	text := strings.TrimSuffix(strings.TrimSuffix(string(data), "\n"), "\r")
	if text == "" {
		return "", fmt.Errorf("%w: file %q is empty", ErrReference, path)
	}
	return text, nil
}

// inUserinfo says whether a place between two parts of a URL is before the "@"
// of its authority. The part before has its references resolved; those in the
// part after hold slashes of their own, which are none of the URL.
func inUserinfo(before, after string) bool {
	_, authority, ok := strings.Cut(before, "://")
	if !ok || strings.ContainsAny(authority, "/?#@") {
		return false
	}
	for after != "" {
		literal, rest, _ := strings.Cut(after, "${")
		if i := strings.IndexAny(literal, "@/?#"); i >= 0 {
			return literal[i] == '@'
		}
		_, after, _ = strings.Cut(rest, "}")
	}
	return false
}

// percentEncode encodes all that is not unreserved in RFC 3986.
func percentEncode(s string) string {
	const hex = "0123456789ABCDEF"
	var b strings.Builder
	for i := range len(s) {
		c := s[i]
		if c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.IndexByte("-._~", c) >= 0 {
			b.WriteByte(c)
			continue
		}
		b.WriteByte('%')
		b.WriteByte(hex[c>>4])
		b.WriteByte(hex[c&15])
	}
	return b.String()
}

// Reread is the source's URL with its references resolved again, for a secret
// that was rotated. A URL that came from elsewhere than the file is returned
// as it is.
func (s *Source) Reread() (Secret, error) {
	if s.reread == nil {
		return s.URL, nil
	}
	return (*s.reread)(s.URL)
}

// remember keeps for Reread what the file has, and what it stood for at first:
// a flag may have replaced the URL since.
func (s *Source) remember(written string) {
	first := s.URL
	again := func(current Secret) (Secret, error) {
		if current != first {
			return current, nil
		}
		text, err := resolve(written)
		if err != nil {
			return "", &FieldError{Field: fieldSource, Err: err}
		}
		return Secret(text), nil
	}
	s.reread = &again
}
