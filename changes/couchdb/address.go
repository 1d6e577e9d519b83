package couchdb

import (
	"fmt"
	"net"
	"net/url"
	"strings"
)

// address is a database's URL taken apart. Its String holds no password, so
// that it can stand in any message.
type address struct {
	scheme, host string // "http" or "https", "host:port"
	prefix       string // the escaped path before the database, without a slash at its end
	db           string // the database's name, decoded
	user         string
	password     string
}

// parseAddress reads a source URL. The messages of package url repeat parts of
// their input, which may be a password, so none of them is passed on.
func parseAddress(text string) (address, error) {
	u, err := url.Parse(text)
	if err != nil {
		return address{}, fmt.Errorf("%w: URL cannot be read: percent-encode what is special in the user, password and database's name", ErrOptions)
	}
	a := address{host: u.Host, user: u.User.Username()}
	a.password, _ = u.User.Password()
	switch u.Scheme {
	case "http", "https":
		a.scheme = u.Scheme
	case "couchdb":
		a.scheme, a.host = "http", withPort(u, "5984")
	case "couchdbs":
		a.scheme, a.host = "https", withPort(u, "6984")
	default:
		return address{}, fmt.Errorf("%w: URL must begin with couchdb://, couchdbs://, http:// or https://", ErrOptions)
	}
	if u.Hostname() == "" {
		return address{}, fmt.Errorf("%w: URL names no host", ErrOptions)
	}
	if u.RawQuery != "" || u.Fragment != "" {
		return address{}, fmt.Errorf("%w: URL carries a query or fragment; a ? or # in a name is written %%3F or %%23", ErrOptions)
	}
	path := strings.TrimSuffix(u.EscapedPath(), "/")
	cut := strings.LastIndexByte(path, '/')
	if cut < 0 || cut == len(path)-1 {
		return address{}, fmt.Errorf("%w: URL names no database: %s://%s/DATABASE is needed", ErrOptions, u.Scheme, u.Host)
	}
	a.prefix = path[:cut]
	a.db, err = url.PathUnescape(path[cut+1:])
	if err != nil || strings.ContainsAny(a.db, ":?#") {
		return address{}, fmt.Errorf("%w: URL's database is not a name that CouchDB allows", ErrOptions)
	}
	return a, nil
}

func withPort(u *url.URL, port string) string {
	if u.Port() != "" || u.Hostname() == "" {
		return u.Host
	}
	return net.JoinHostPort(u.Hostname(), port)
}

// server is the server's root, without credentials.
func (a address) server() string { return a.scheme + "://" + a.host + a.prefix }

// String is the database's URL without credentials.
func (a address) String() string { return a.server() + "/" + escapeName(a.db) }

// escapeName escapes one path segment. CouchDB reads + in a path as a blank.
func escapeName(name string) string {
	return strings.ReplaceAll(url.PathEscape(name), "+", "%2B")
}
