package config

import (
	"net/url"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Schemes of tables.
const (
	SchemeFile  = "file"
	SchemeS3    = "s3"
	SchemeGCS   = "gs"
	SchemeAzure = "azblob"
	SchemeHDFS  = "hdfs"
)

// TableURL is the URL of a table taken apart.
type TableURL struct {
	// Scheme is one of the schemes of tables.
	Scheme string
	// Host is the bucket or container, or the name node with its port, of which
	// there may be several with commas between; empty for files, and for the name
	// node that Hadoop's configuration names.
	Host string
	// User is who HDFS is to take us for; empty for others.
	User string
	// Path is the folder of files: an operating system's path, which may be
	// relative. Of all others it is what comes after the host, decoded, without the
	// slashes around it; empty for the bucket itself.
	Path string
	// query is what follows the question mark: encoded, so that a TableURL can be
	// compared.
	query string
}

// ParseTableURL takes the URL of a table apart: file:///path or a bare path,
// s3://bucket/prefix?region=NAME, gs://bucket/prefix, azblob://container/prefix or
// hdfs://[user@]namenode:port/path. What the query may hold is the store's affair.
func ParseTableURL(text string) (TableURL, error) {
	if text == "" {
		return TableURL{}, &FieldError{Field: fieldTable, Err: ErrRequired}
	}
	scheme, _, isURL := strings.Cut(text, "://")
	if !isURL {
		return TableURL{Scheme: SchemeFile, Path: filepath.Clean(text)}, nil
	}
	known := []string{SchemeFile, SchemeS3, SchemeGCS, SchemeAzure, SchemeHDFS}
	if !slices.Contains(known, scheme) {
		return TableURL{}, wrong(fieldTable, "scheme %q; write a path, or a URL with %s", scheme, strings.Join(known, ", "))
	}
	u, err := url.Parse(text)
	if err != nil {
		return TableURL{}, wrong(fieldTable, "it cannot be read as a URL")
	}
	if scheme == SchemeFile {
		return parseFileURL(text, u)
	}
	return parseStoreURL(text, u)
}

func parseFileURL(text string, u *url.URL) (TableURL, error) {
	switch {
	case u.Host != "" && u.Host != "localhost":
		return TableURL{}, wrong(fieldTable, "%q names the host %q; write file:///path with three slashes", text, u.Host)
	case u.RawQuery != "" || u.Fragment != "":
		return TableURL{}, wrong(fieldTable, "%q: write a ? or # of the path as %%3F or %%23", text)
	case u.Path == "" || u.Path == "/":
		return TableURL{}, wrong(fieldTable, "%q names no folder", text)
	}
	return TableURL{Scheme: SchemeFile, Path: filepath.Clean(u.Path)}, nil
}

func parseStoreURL(text string, u *url.URL) (TableURL, error) {
	path := strings.Trim(u.Path, "/")
	values, err := url.ParseQuery(u.RawQuery)
	switch {
	case u.User != nil && (u.Scheme != SchemeHDFS || hasPassword(u.User)):
		return TableURL{}, wrong(fieldTable, "it holds a user or a password: credentials come from where the store's own tools find them, see docs/stores.md")
	case u.Host == "" && u.Scheme != SchemeHDFS:
		return TableURL{}, wrong(fieldTable, "%q names no bucket or host after %s://", text, u.Scheme)
	case u.Fragment != "":
		return TableURL{}, wrong(fieldTable, "%q: write a # of the path as %%23", text)
	case err != nil:
		return TableURL{}, wrong(fieldTable, "its query cannot be read; write name=value&name=value")
	}
	for part := range strings.SplitSeq(path, "/") {
		if path != "" && (part == "" || part == "." || part == "..") {
			return TableURL{}, wrong(fieldTable, "%q: the path has a part %q", text, part)
		}
	}
	for name, all := range values {
		if len(all) > 1 {
			return TableURL{}, wrong(fieldTable, "its query has %s twice", name)
		}
	}
	return TableURL{Scheme: u.Scheme, Host: u.Host, User: u.User.Username(), Path: path, query: values.Encode()}, nil
}

func hasPassword(u *url.Userinfo) bool {
	_, has := u.Password()
	return has
}

// Local says whether the table is in a folder of this machine, which is Path then.
func (u TableURL) Local() bool { return u.Scheme == SchemeFile }

// Query is what follows the question mark.
func (u TableURL) Query() url.Values {
	values, err := url.ParseQuery(u.query)
	if err != nil { // ParseTableURL has read it
		return url.Values{}
	}
	return values
}

// Parameters that we take out of the query before the store sees it.
const (
	ParamTrust    = "trust_single_writer"
	ParamTimeout  = "timeout"
	ParamPatience = "patience"
	ParamLease    = "lease"
)

// Tuning is what a URL says of how its store is used.
type Tuning struct {
	// Trusted says that there is one writer, for stores that cannot keep out others.
	Trusted bool
	// Timeout is how long a request may take, Patience how long a failed one is tried
	// again; 0 for the store's default.
	Timeout, Patience time.Duration
	// Lease is how long a writer's lease stands that it does not renew; 0 for the
	// default. Processes may say different times: who waits takes the longer one.
	Lease time.Duration
}

// ShortestLease is what renewals over a network can keep up with.
const ShortestLease = time.Second

// Split takes the parameters that are ours out of the query.
func (u TableURL) Split() (Tuning, url.Values, error) {
	var t Tuning
	var err error
	query := u.Query()
	if text := query.Get(ParamTrust); text != "" {
		if t.Trusted, err = strconv.ParseBool(text); err != nil {
			return t, nil, wrong(fieldTable, "%s=%s: write true or false", ParamTrust, text)
		}
	}
	for name, to := range map[string]*time.Duration{ParamTimeout: &t.Timeout, ParamPatience: &t.Patience, ParamLease: &t.Lease} {
		if text := query.Get(name); text != "" {
			if *to, err = time.ParseDuration(text); err != nil || *to <= 0 {
				return t, nil, wrong(fieldTable, "%s=%s: write a duration such as 30s", name, text)
			}
		}
		query.Del(name)
	}
	query.Del(ParamTrust)
	if t.Lease > 0 && t.Lease < ShortestLease {
		return t, nil, wrong(fieldTable, "%s=%s: write a second or more, as 1m", ParamLease, t.Lease)
	}
	return t, query, nil
}

// Address is the table's URL with what else the config says of its store.
func (t *Table) Address() string {
	u, err := ParseTableURL(t.URL)
	if !t.TrustSingleWriter || err != nil || u.Local() || u.Scheme == SchemeHDFS {
		return t.URL
	}
	mark := "?"
	if strings.Contains(t.URL, "?") {
		mark = "&"
	}
	if u.Query().Has(ParamTrust) {
		return t.URL
	}
	return t.URL + mark + ParamTrust + "=true"
}

// String is the URL without its query: which table it is, not how it is reached. Of
// files it is the path.
func (u TableURL) String() string {
	if u.Local() {
		return u.Path
	}
	return (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: "/" + u.Path}).String()
}

// Location is the table's address as other engines write it, and the beginning of
// the absolute paths in some files of a table: s3a:// for S3. It is empty where an
// engine's address needs more than the URL says, as Azure's does.
func (u TableURL) Location() string {
	switch u.Scheme {
	case SchemeFile:
		return u.Path
	case SchemeS3:
		return strings.TrimSuffix("s3a://"+u.Host+"/"+u.Path, "/")
	case SchemeAzure:
		return ""
	}
	return strings.TrimSuffix(u.Scheme+"://"+u.Host+"/"+u.Path, "/")
}
