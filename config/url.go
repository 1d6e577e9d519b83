package config

import (
	"net/url"
	"path/filepath"
	"strings"
)

// SourceURL is a source's URL taken apart.
type SourceURL struct {
	// Kind is "couchdb".
	Kind string
	// Server is the server's http or https URL without user, password and
	// database; it has no slash at its end.
	Server string
	// Database is the database's name, decoded: a slash in it is written %2F
	// in the URL.
	Database string
	User     string
	Password Secret
}

const fieldSource, fieldTable = "source.url", "table.url"

// ParseSourceURL reads couchdb://user:password@host:5984/db, couchdbs:// for
// TLS, or http(s)://host/db; what stands between host and database is the path
// of a proxy. Its errors hold no part of the URL but the scheme.
func ParseSourceURL(text Secret) (SourceURL, error) {
	u, err := url.Parse(text.Reveal())
	if err != nil {
		// The parser's own words may hold the password.
		return SourceURL{}, wrong(fieldSource, "it cannot be read as a URL; write a / ? # %% or @ of a password as %%2F %%3F %%23 %%25 %%40")
	}
	scheme, port := u.Scheme, ""
	switch scheme {
	case "couchdb":
		scheme, port = "http", "5984"
	case "couchdbs":
		scheme, port = "https", "6984"
	case "http", "https":
	case "":
		return SourceURL{}, wrong(fieldSource, "it has no scheme; write couchdb://host:5984/db")
	default:
		return SourceURL{}, wrong(fieldSource, "scheme %q; write couchdb://, couchdbs://, http:// or https://", scheme)
	}
	switch {
	case u.Hostname() == "":
		return SourceURL{}, wrong(fieldSource, "it names no host")
	case u.RawQuery != "" || u.Fragment != "":
		return SourceURL{}, wrong(fieldSource, "nothing may follow the database's name")
	}
	path := strings.TrimSuffix(u.EscapedPath(), "/")
	prefix, name := path, ""
	if i := strings.LastIndexByte(path, '/'); i >= 0 {
		prefix, name = path[:i], path[i+1:]
	}
	if name, err = url.PathUnescape(name); err != nil || name == "" {
		return SourceURL{}, wrong(fieldSource, "it names no database; write couchdb://host:5984/db")
	}
	host := u.Host
	if port != "" && u.Port() == "" {
		host = strings.TrimSuffix(host, ":") + ":" + port
	}
	password, _ := u.User.Password()
	return SourceURL{Kind: "couchdb", Server: scheme + "://" + host + prefix, Database: name,
		User: u.User.Username(), Password: Secret(password)}, nil
}

// ParseTableURL is the path of a table on this machine: file:///path or a bare
// path, which may be relative.
func ParseTableURL(text string) (path string, err error) {
	if text == "" {
		return "", &FieldError{Field: fieldTable, Err: ErrRequired}
	}
	scheme, _, isURL := strings.Cut(text, "://")
	if !isURL {
		return filepath.Clean(text), nil
	}
	if scheme != "file" {
		return "", wrong(fieldTable, "scheme %q; write file:///path or a path", scheme)
	}
	u, err := url.Parse(text)
	switch {
	case err != nil:
		return "", wrong(fieldTable, "%q cannot be read as a URL", text)
	case u.Host != "" && u.Host != "localhost":
		return "", wrong(fieldTable, "%q names the host %q; write file:///path with three slashes", text, u.Host)
	case u.RawQuery != "" || u.Fragment != "":
		return "", wrong(fieldTable, "%q: write a ? or # of the path as %%3F or %%23", text)
	case u.Path == "" || u.Path == "/":
		return "", wrong(fieldTable, "%q names no folder", text)
	}
	return filepath.Clean(u.Path), nil
}
