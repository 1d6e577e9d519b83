package couchdb

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"time"
)

// Options say what to follow and how. The zero value of each field but URL is
// its default.
type Options struct {
	// URL is the database: couchdb://user:password@host:5984/db, couchdbs://
	// for TLS, or http(s)://. A slash in the database's name is written %2F.
	URL string
	// User and Password take precedence over those in URL.
	User, Password string
	// PasswordFile is read at the start and whenever the server refuses the
	// credentials; it takes precedence over Password. One line break at its
	// end is not part of the password.
	PasswordFile string
	// Credentials, when set, takes precedence over what URL, User, Password,
	// Secret and Token hold. It is called at the start and whenever the server
	// refuses the credentials.
	Credentials func(context.Context) (Credentials, error)
	// Auth is AuthBasic by default.
	Auth Auth
	// Secret is the server's secret for AuthProxy. Without one no token is
	// sent, which is for servers with proxy_use_secret = false.
	Secret string
	// ProxyHash is the hash of the token of AuthProxy: HashSHA1 by default, or
	// HashSHA256.
	ProxyHash string
	// Roles are those of the user of AuthProxy.
	Roles []string
	// Token is for AuthJWT and AuthIAM.
	Token string
	// TokenFile holds the token and takes precedence over it. It is read anew
	// for every request.
	TokenFile string

	// Incarnation is the instance_start_time that the position to resume from
	// came with; another one makes Next return changes.ErrRecreated. Empty
	// takes the first one that the server shows.
	Incarnation string
	// Heartbeat is the interval at which the server is asked to prove that an
	// idle feed is alive; three of them missing end the feed. 10 s by default.
	Heartbeat time.Duration
	// Timeout is how long any other response may stay silent. 60 s by default.
	Timeout time.Duration
	// BatchRows is the largest number of rows asked for in one response.
	// 10,000 by default.
	BatchRows int
	// Parallel is how many requests for documents run side by side while the
	// follower is behind: the feed is then read without documents, which costs the
	// server little, and they are asked for by _bulk_get. 1 by default, which reads
	// them with the feed.
	Parallel int
	// MaxRowsPerSecond bounds how many rows a second are read while the follower is
	// behind, over any time of more than a second, to spare the server. A live feed,
	// whose rows come as they are written, is not held back. 0 for no bound.
	MaxRowsPerSecond int
	// SeqInterval asks for a sequence only on each k-th row while the follower
	// is behind. 1,000 by default; 1 asks for one on every row.
	SeqInterval int
	// IncludeDesign also yields design documents.
	IncludeDesign bool
	// Selector is a Mango selector as JSON: the server leaves out what it does not
	// match, deletions and documents that stop matching among it. Purges are not
	// looked for then. Empty for none.
	Selector string
	// MaxRowBytes is the largest row that is read; a larger one is an error
	// that names the document. 64 MiB by default.
	MaxRowBytes int

	// Transport carries the requests. By default one is made, with TLS when
	// that is set. A transport that is given is not closed.
	Transport http.RoundTripper
	// TLS is the configuration of the transport that is made by default.
	TLS *tls.Config
	// TLSFiles are added to TLS. They need a URL with TLS.
	TLSFiles TLSFiles
	// Events are told what happens.
	Events Events

	// Sleep waits for a pause between two attempts; for tests. By default it
	// sleeps until the time is over or the context is done.
	Sleep func(context.Context, time.Duration) error
	// Jitter returns a number in [0, 1) that spreads the pauses; for tests.
	Jitter func() float64
}

// ErrOptions marks options that cannot be used.
var ErrOptions = errors.New("invalid couchdb options")

const (
	defaultHeartbeat   = 10 * time.Second
	defaultTimeout     = time.Minute
	defaultBatchRows   = 10_000
	defaultSeqInterval = 1_000
	defaultMaxRowBytes = 64 << 20
)

// String describes the options without any secret in them.
func (o Options) String() string {
	where := "invalid URL"
	if a, err := parseAddress(o.URL); err == nil {
		where = a.String()
	}
	return fmt.Sprintf("couchdb.Options{URL: %s, Auth: %s}", where, o.withDefaults().Auth)
}

// GoString is String, so that %#v shows no secret either.
func (o Options) GoString() string { return o.String() }

func (o Options) withDefaults() Options {
	if o.Auth == "" {
		o.Auth = AuthBasic
	}
	if o.ProxyHash == "" {
		o.ProxyHash = HashSHA1
	}
	if o.Heartbeat == 0 {
		o.Heartbeat = defaultHeartbeat
	}
	if o.Timeout == 0 {
		o.Timeout = defaultTimeout
	}
	if o.BatchRows == 0 {
		o.BatchRows = defaultBatchRows
	}
	if o.Parallel == 0 {
		o.Parallel = 1
	}
	if o.SeqInterval == 0 {
		o.SeqInterval = defaultSeqInterval
	}
	if o.MaxRowBytes == 0 {
		o.MaxRowBytes = defaultMaxRowBytes
	}
	if o.Sleep == nil {
		o.Sleep = sleep
	}
	if o.Jitter == nil {
		o.Jitter = rand.Float64
	}
	return o
}

func (o Options) validate() error {
	switch {
	case !slices.Contains([]Auth{AuthBasic, AuthCookie, AuthProxy, AuthJWT, AuthIAM}, o.Auth):
		return fmt.Errorf("%w: Auth %q is not known", ErrOptions, o.Auth)
	case o.ProxyHash != HashSHA1 && o.ProxyHash != HashSHA256:
		return fmt.Errorf("%w: ProxyHash %q is neither %q nor %q", ErrOptions, o.ProxyHash, HashSHA1, HashSHA256)
	case strings.ContainsAny(strings.Join(o.Roles, ""), ",\r\n"):
		return fmt.Errorf("%w: a comma or line break within one of Roles", ErrOptions)
	case o.Heartbeat < time.Millisecond:
		return fmt.Errorf("%w: Heartbeat %v is shorter than a millisecond", ErrOptions, o.Heartbeat)
	case o.Timeout < 0:
		return fmt.Errorf("%w: Timeout %v is negative", ErrOptions, o.Timeout)
	case o.BatchRows < 1:
		return fmt.Errorf("%w: BatchRows %d is less than 1", ErrOptions, o.BatchRows)
	case o.Parallel < 1:
		return fmt.Errorf("%w: Parallel %d is less than 1", ErrOptions, o.Parallel)
	case o.MaxRowsPerSecond < 0:
		return fmt.Errorf("%w: MaxRowsPerSecond %d is negative", ErrOptions, o.MaxRowsPerSecond)
	case o.SeqInterval < 1:
		return fmt.Errorf("%w: SeqInterval %d is less than 1", ErrOptions, o.SeqInterval)
	case o.MaxRowBytes < 1:
		return fmt.Errorf("%w: MaxRowBytes %d is less than 1", ErrOptions, o.MaxRowBytes)
	}
	return nil
}

func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-timer.C:
		return nil
	}
}
