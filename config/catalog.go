package config

import (
	"errors"
	"net"
	"net/url"
	"slices"
	"strings"
	"time"
)

// Catalog says which metastores are told of a table, and when.
type Catalog struct {
	// Targets are hms://host:9083/db.table and glue://region/db.table; they may hold
	// passwords, hence Secrets. In a file for several tables {table} stands for a
	// table's name, in one for many databases {db} for a database's.
	Targets []Secret `yaml:"targets"`
	// Interval is how long after one sync the next of the same target begins at the
	// earliest.
	Interval Duration `yaml:"interval"`
	// On is "commits", after which a metastore knows of every commit; "changes", where
	// it is left alone unless columns or partitions changed; or "off".
	On string `yaml:"on"`
}

// After which commits metastores are told.
const (
	CatalogCommits = "commits"
	CatalogChanges = "changes"
	CatalogOff     = "off"
)

// Kinds of metastores.
const (
	KindHMS  = "hms"
	KindGlue = "glue"
)

const fieldTargets = "catalog.targets"

// metastorePort is where Hive's metastores listen.
const metastorePort = "9083"

func defaultCatalog() Catalog { return Catalog{Interval: Duration(time.Minute), On: CatalogCommits} }

func (c *Catalog) resolve() error {
	resolved := slices.Clone(c.Targets)
	for i, t := range c.Targets {
		text, err := resolve(t.Reveal())
		if err != nil {
			return &FieldError{Field: fieldTargets, Err: err}
		}
		resolved[i] = Secret(text)
	}
	c.Targets = resolved
	return nil
}

// Validate is Config.Validate for this part.
func (c *Catalog) Validate() error {
	errs := []error{oneOf("catalog.on", c.On, CatalogCommits, CatalogChanges, CatalogOff), between("catalog.interval", c.Interval, 0, Duration(24*time.Hour))}
	seen := map[string]bool{}
	for _, t := range c.Targets {
		u, err := ParseTargetURL(t)
		if err == nil && seen[u.String()] {
			err = wrong(fieldTargets, "%s is there twice", u)
		}
		seen[u.String()] = true
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// of is the section with what a placeholder stands for put in.
func (c *Catalog) of(mark, name string) Catalog {
	n := *c
	n.Targets = slices.Clone(c.Targets)
	for i, t := range c.Targets {
		n.Targets[i] = Secret(strings.ReplaceAll(t.Reveal(), mark, metastoreName(name)))
	}
	return n
}

// without are the targets that a placeholder is missing from: they would be one name
// for several tables.
func (c *Catalog) without(mark string) error {
	for _, t := range c.Targets {
		if !strings.Contains(t.Reveal(), mark) {
			return wrong(fieldTargets, "one is for all tables, and has no %s for their names", mark)
		}
	}
	return nil
}

// metastoreName is a name as metastores take it: lower case letters, digits and
// underscores.
func metastoreName(name string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			return r
		}
		return '_'
	}, strings.ToLower(name))
}

// TargetURL is a metastore and a table's name there, taken apart.
type TargetURL struct {
	// Kind is one of the kinds of metastores.
	Kind string
	// Addresses are host:port of Hive metastores; Region is Glue's, "" for the one of
	// the environment.
	Addresses []string
	Region    string
	// Database and Name are the table's, in lower case.
	Database, Name string
	User           string
	Password       Secret
	// query is encoded, so that only String shows a TargetURL.
	query string
}

// Option is what the URL's query says of a name, "" when nothing.
func (u TargetURL) Option(name string) string {
	values, err := url.ParseQuery(u.query)
	if err != nil { // ParseTargetURL has read it
		return ""
	}
	return values.Get(name)
}

// String is the URL for messages, without user, password and query.
func (u TargetURL) String() string {
	at := u.Region
	if u.Kind == KindHMS {
		at = strings.Join(u.Addresses, ",")
	}
	return u.Kind + "://" + at + "/" + u.Database + "." + u.Name
}

// ParseTargetURL takes hms://host:9083,host:9083/database.table or
// glue://region/database.table apart. Its errors hold no part of the URL but the
// scheme.
func ParseTargetURL(text Secret) (TargetURL, error) {
	scheme, rest, _ := strings.Cut(text.Reveal(), "://")
	if scheme != KindHMS && scheme != KindGlue {
		return TargetURL{}, wrong(fieldTargets, "write hms://host:9083/database.table or glue://region/database.table")
	}
	hosts, tail, _ := strings.Cut(rest, "/")
	user := ""
	if at := strings.LastIndexByte(hosts, '@'); at >= 0 {
		user, hosts = hosts[:at+1], hosts[at+1:]
	}
	u, err := url.Parse(scheme + "://" + user + "h/" + tail)
	if err != nil {
		return TargetURL{}, wrong(fieldTargets, "a URL of %s:// cannot be read", scheme)
	}
	t := TargetURL{Kind: scheme, User: u.User.Username(), query: u.RawQuery}
	password, _ := u.User.Password()
	t.Password = Secret(password)
	var split bool
	t.Database, t.Name, split = strings.Cut(strings.ToLower(strings.Trim(u.Path, "/")), ".")
	if !split || !metastoreWord(t.Database) || !metastoreWord(t.Name) {
		return TargetURL{}, wrong(fieldTargets, "%s://…/database.table: letters, digits and underscores in both names", scheme)
	}
	known := []string{"auth", "principal", "tls", "location"}
	if scheme == KindGlue {
		known = []string{"endpoint", "catalog", "profile", "location"}
		t.Region = hosts
		if t.User != "" {
			return TargetURL{}, wrong(fieldTargets, "glue:// takes no user: credentials come from where AWS's own tools find them")
		}
	} else if err := t.addresses(hosts); err != nil {
		return TargetURL{}, err
	}
	return t, t.options(known)
}

func metastoreWord(s string) bool { return s != "" && metastoreName(s) == s && len(s) <= 128 }

func (u *TargetURL) addresses(hosts string) error {
	for host := range strings.SplitSeq(hosts, ",") {
		if _, _, err := net.SplitHostPort(host); err != nil {
			host = net.JoinHostPort(strings.Trim(host, "[]"), metastorePort)
		}
		if strings.HasPrefix(host, ":") {
			return wrong(fieldTargets, "hms:// names no host")
		}
		u.Addresses = append(u.Addresses, host)
	}
	return nil
}

func (u *TargetURL) options(known []string) error {
	values, err := url.ParseQuery(u.query)
	if err != nil {
		return wrong(fieldTargets, "the query of a %s:// URL cannot be read", u.Kind)
	}
	for name := range values {
		if !slices.Contains(known, name) {
			return wrong(fieldTargets, "%s:// knows %s, not %q", u.Kind, strings.Join(known, ", "), name)
		}
	}
	if u.Kind == KindHMS {
		if auth := u.Option("auth"); auth != "" && auth != "nosasl" && auth != "plain" && auth != "kerberos" {
			return wrong(fieldTargets, "auth=%s: write nosasl, plain or kerberos", auth)
		}
		if u.Option("principal") != "" && u.Option("auth") != "kerberos" {
			return wrong(fieldTargets, "principal= is for auth=kerberos alone")
		}
		if on := u.Option("tls"); on != "" && on != "true" && on != "false" {
			return wrong(fieldTargets, "tls=%s: write true or false", on)
		}
	}
	return nil
}
