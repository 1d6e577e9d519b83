package config

import (
	"net/url"
	"path/filepath"
	"slices"
	"strings"
)

// Kinds of sources.
const (
	KindCouchDB = "couchdb"
	KindKafka   = "kafka"
	KindNDJSON  = "ndjson"
)

// SourceURL is a source's URL taken apart.
type SourceURL struct {
	// Kind is one of the kinds of sources. Which of the fields below are set
	// goes by it.
	Kind string
	// Server is a CouchDB server's http or https URL without user, password and
	// database, with no slash at its end; or Kafka's brokers, host:port each,
	// with commas between them.
	Server string
	// Database is the database's name, decoded: a slash in it is written %2F
	// in the URL. Of Kafka it is the topic's name.
	Database string
	// Path is the folder of an NDJSON source.
	Path     string
	User     string
	Password Secret
	// query is what follows the question mark: encoded, so that a SourceURL can
	// be compared.
	query string
}

// Option is what the URL's query says of a name, "" when nothing.
func (u SourceURL) Option(name string) string {
	values, err := url.ParseQuery(u.query)
	if err != nil { // ParseSourceURL has read it
		return ""
	}
	return values.Get(name)
}

// String is the URL for messages, without user, password and query.
func (u SourceURL) String() string {
	switch u.Kind {
	case KindKafka:
		return "kafka://" + u.Server + "/" + u.Database
	case KindNDJSON:
		return "ndjson://" + u.Path
	}
	return u.Server + "/" + u.Database
}

const fieldSource, fieldTable = "source.url", "table.url"

// sourceOptions are the names that the query of each kind's URL may hold.
func sourceOptions(kind string) []string {
	switch kind {
	case KindKafka:
		return []string{"group", "sasl", "tls"}
	case KindNDJSON:
		return []string{"format", "consumed", "leaves"}
	}
	return nil
}

// ParseSourceURL reads couchdb://user:password@host:5984/db, couchdbs:// for
// TLS, or http(s)://host/db, where what stands between host and database is the
// path of a proxy; kafka://broker:9092,broker:9092/topic; or ndjson:///folder.
// Its errors hold no part of the URL but the scheme.
func ParseSourceURL(text Secret) (SourceURL, error) {
	scheme, _, _ := strings.Cut(text.Reveal(), "://")
	switch scheme {
	case KindKafka:
		return parseKafkaURL(text)
	case KindNDJSON:
		return parseFolderURL(text)
	}
	return parseCouchURL(text)
}

func parseCouchURL(text Secret) (SourceURL, error) {
	u, err := parseURL(text)
	if err != nil {
		return SourceURL{}, err
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
		return SourceURL{}, wrong(fieldSource, "scheme %q; write couchdb://, couchdbs://, http://, https://, kafka:// or ndjson://", scheme)
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
	return SourceURL{Kind: KindCouchDB, Server: scheme + "://" + host + prefix, Database: name,
		User: u.User.Username(), Password: Secret(password)}, nil
}

func parseURL(text Secret) (*url.URL, error) {
	u, err := url.Parse(text.Reveal())
	if err != nil {
		// The parser's own words may hold the password.
		return nil, wrong(fieldSource, "it cannot be read as a URL; write a / ? # %% or @ of a password as %%2F %%3F %%23 %%25 %%40")
	}
	return u, nil
}

// parseKafkaURL: a URL has one host, so the brokers are taken out of it first.
func parseKafkaURL(text Secret) (SourceURL, error) {
	const form = "write kafka://broker:9092,broker:9092/topic"
	rest := strings.TrimPrefix(text.Reveal(), KindKafka+"://")
	end := strings.IndexAny(rest, "/?#")
	if end < 0 {
		end = len(rest)
	}
	at := strings.LastIndexByte(rest[:end], '@') + 1
	var brokers []string
	for broker := range strings.SplitSeq(rest[at:end], ",") {
		u, err := url.Parse("tcp://" + broker)
		if err != nil || u.Hostname() == "" || u.Host != broker {
			return SourceURL{}, wrong(fieldSource, "a broker is no host:port; "+form)
		}
		if u.Port() == "" {
			broker = strings.TrimSuffix(broker, ":") + ":9092"
		}
		brokers = append(brokers, broker)
	}
	u, err := parseURL(Secret(KindKafka + "://" + rest[:at] + "brokers" + rest[end:]))
	if err != nil {
		return SourceURL{}, err
	}
	s := SourceURL{Kind: KindKafka, Server: strings.Join(brokers, ","), Database: strings.Trim(u.Path, "/"), User: u.User.Username()}
	if s.Database == "" || strings.Contains(s.Database, "/") {
		return SourceURL{}, wrong(fieldSource, "it names no topic; "+form)
	}
	password, _ := u.User.Password()
	s.Password = Secret(password)
	return s, s.takeQuery(u)
}

func parseFolderURL(text Secret) (SourceURL, error) {
	u, err := parseURL(text)
	switch {
	case err != nil:
		return SourceURL{}, err
	case u.User != nil || u.Host != "" && u.Host != "localhost":
		return SourceURL{}, wrong(fieldSource, "it names a host; write ndjson:///folder with three slashes")
	case u.Path == "" || u.Path == "/":
		return SourceURL{}, wrong(fieldSource, "it names no folder; write ndjson:///folder")
	}
	s := SourceURL{Kind: KindNDJSON, Path: filepath.Clean(u.Path)}
	return s, s.takeQuery(u)
}

// takeQuery reads the options of a URL.
func (u *SourceURL) takeQuery(from *url.URL) error {
	if from.Fragment != "" {
		return wrong(fieldSource, "write a # of the %s URL as %%23", u.Kind)
	}
	values, err := url.ParseQuery(from.RawQuery)
	if err != nil {
		return wrong(fieldSource, "what follows the ? cannot be read")
	}
	allowed := sourceOptions(u.Kind)
	for name, all := range values {
		if !slices.Contains(allowed, name) || len(all) > 1 {
			return wrong(fieldSource, "after the ? of a %s URL may stand, once each: %s", u.Kind, strings.Join(allowed, ", "))
		}
	}
	u.query = values.Encode()
	return nil
}
