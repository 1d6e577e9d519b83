package couchdb

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-kivik/kivik/v4"
	kivikcouch "github.com/go-kivik/kivik/v4/couchdb"
	"github.com/go-kivik/kivik/v4/couchdb/chttp"
)

const userAgent = "couch2hudi"

// client talks to one database. Its session is replaced when the server
// refuses the credentials.
type client struct {
	opts  Options
	where address
	door  *door

	mu  sync.Mutex
	now *session
}

// session is one log-in: an HTTP client whose transport authenticates, and
// kivik's client over that very transport and cookie jar.
type session struct {
	http *http.Client
	db   *kivik.DB
	// named: credentials are sent. checked: the server knows them.
	named   bool
	checked atomic.Bool
}

// settings lets several options be passed where one is taken.
type settings []kivik.Option

func (s settings) Apply(target any) {
	for _, o := range s {
		o.Apply(target)
	}
}

func newClient(o Options, where address) *client {
	return &client{opts: o, where: where, door: newDoor(o, where)}
}

// session is the current session; the first call begins one.
func (c *client) session(ctx context.Context) (*session, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.now == nil {
		s, err := c.login(ctx)
		if err != nil {
			return nil, err
		}
		c.now = s
	}
	return c.now, nil
}

// login reads the credentials and begins a session with them. The cookie
// itself is asked for by the first request.
func (c *client) login(ctx context.Context) (*session, error) {
	credentials, err := c.opts.credentials(ctx, c.where)
	if err != nil {
		return nil, err
	}
	through, option, named := c.authenticate(credentials)
	options := settings{kivikcouch.OptionUserAgent(userAgent)}
	if option != nil {
		options = append(options, option)
	}
	authenticated, err := chttp.New(&http.Client{Transport: through}, c.where.server(), options)
	if err != nil {
		return nil, c.fail("connect to", err)
	}
	shared := authenticated.Client
	kv, err := kivik.New("couch", c.where.server(), kivikcouch.OptionHTTPClient(shared), kivikcouch.OptionUserAgent(userAgent))
	if err != nil {
		return nil, c.fail("connect to", err)
	}
	return &session{http: shared, db: kv.DB(c.where.db), named: named}, nil
}

// with runs a call, and once more with a new session when the credentials
// were refused: the session may have expired or the secret been rotated.
func (c *client) with(ctx context.Context, call func(*session) error) error {
	s, err := c.session(ctx)
	if err != nil {
		return err
	}
	if err = c.run(ctx, s, call); !refusedLogin(err) {
		return err
	}
	c.mu.Lock()
	if c.now == s {
		c.now = nil // another call may have logged in meanwhile
	}
	c.mu.Unlock()
	if s, err = c.session(ctx); err != nil {
		return err
	}
	c.opts.Events.loggedIn()
	return c.run(ctx, s, call)
}

// run is a call in a session that the server is known to take for ours.
func (c *client) run(ctx context.Context, s *session, call func(*session) error) error {
	if err := c.check(ctx, s); err != nil {
		return err
	}
	return call(s)
}

// info is what identifies a database.
type info struct {
	Name        string          `json:"db_name"`
	Incarnation string          `json:"instance_start_time"`
	PurgeSeq    json.RawMessage `json:"purge_seq"`
}

// info reads GET /db.
func (c *client) info(ctx context.Context) (info, error) {
	var found info
	err := c.with(ctx, func(s *session) error {
		ctx, cancel := context.WithTimeoutCause(ctx, c.opts.Timeout, errSilent)
		defer cancel()
		stats, err := s.db.Stats(ctx)
		if err != nil {
			return c.fail("read", caused(ctx, err))
		}
		if err := json.Unmarshal(stats.RawResponse, &found); err != nil || found.Name == "" {
			return &Error{
				Op: "read", URL: c.where.String(), Err: ErrNotCouchDB,
				Hint: "check that source.url leads to a database: curl " + c.where.String(),
			}
		}
		return nil
	})
	return found, err
}

// document asks for one revision; nil without an error when there is none.
func (c *client) document(ctx context.Context, id, rev string) ([]byte, error) {
	var body json.RawMessage
	err := c.with(ctx, func(s *session) error {
		ctx, cancel := context.WithTimeoutCause(ctx, c.opts.Timeout, errSilent)
		defer cancel()
		doc := s.db.Get(ctx, id, kivik.Rev(rev), kivikcouch.OptionNoMultipartGet())
		defer func() { _ = doc.Close() }()
		err := doc.ScanDoc(&body)
		switch {
		case statusOf(err) == http.StatusNotFound && !noDatabase(err):
			return nil
		case unreadable(ctx, err):
			return c.fail("read a document of", fmt.Errorf("%w: %w", errUnreadable, err))
		}
		return c.fail("read a document of", caused(ctx, err))
	})
	return body, err
}

// unreadable says that an answer arrived whole and is not what it should be:
// asking again would bring the same.
func unreadable(ctx context.Context, err error) bool {
	var request *url.Error
	var network net.Error
	return err != nil && ctx.Err() == nil && statusOf(err) == 0 &&
		!errors.As(err, &request) && !errors.As(err, &network) &&
		!errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF)
}

// noDatabase tells "no such database" from "no such document".
func noDatabase(err error) bool {
	var refused *chttp.HTTPError
	return errors.As(err, &refused) && namesNoDatabase(refused.Reason)
}

func namesNoDatabase(reason string) bool {
	return strings.Contains(reason, "Database does not exist") || strings.Contains(reason, "no_db_file")
}

// stream is the body of a response of _changes, under a watchdog.
type stream struct {
	body   io.ReadCloser
	ctx    func() error // why reading ended, when it was not the server's doing
	cancel context.CancelCauseFunc
	timer  *time.Timer
	quiet  time.Duration
	n      int64
}

// changes opens a feed. The watchdog ends it when nothing arrives for quiet,
// but only while somebody reads: a follower that is busy is not a server that
// is silent.
func (c *client) changes(ctx context.Context, query url.Values, quiet time.Duration) (*stream, error) {
	return c.ask(ctx, query, nil, quiet)
}

// feed is changes through the selector, if there is one.
func (c *client) feed(ctx context.Context, query url.Values, quiet time.Duration) (*stream, error) {
	if c.opts.Selector == "" {
		return c.changes(ctx, query, quiet)
	}
	query.Set("filter", "_selector")
	return c.ask(ctx, query, []byte(`{"selector":`+c.opts.Selector+`}`), quiet)
}

// ask is changes with a body, which makes the request a POST.
func (c *client) ask(ctx context.Context, query url.Values, body []byte, quiet time.Duration) (*stream, error) {
	return c.open(ctx, "/_changes", query, body, quiet)
}

// open asks for something below the database whose answer is read as it comes.
func (c *client) open(ctx context.Context, path string, query url.Values, body []byte, quiet time.Duration) (*stream, error) {
	var open *stream
	err := c.with(ctx, func(s *session) error {
		ctx, cancel := context.WithCancelCause(ctx)
		timer := time.AfterFunc(quiet, func() { cancel(errSilent) })
		resp, err := c.request(ctx, s, path, query, body) //nolint:bodyclose // the stream closes it
		if err != nil {
			timer.Stop()
			err = c.fail("read changes of", caused(ctx, err))
			cancel(nil)
			return err
		}
		open = &stream{
			body: resp.Body, cancel: cancel, timer: timer, quiet: quiet,
			ctx: func() error { return context.Cause(ctx) },
		}
		timer.Stop()
		return nil
	})
	return open, err
}

// getJSON reads what stands under the database's URL.
func (c *client) getJSON(ctx context.Context, s *session, path string, into any) error {
	resp, err := c.request(ctx, s, path, nil, nil)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	if err := json.NewDecoder(io.LimitReader(resp.Body, int64(c.opts.MaxRowBytes))).Decode(into); err != nil {
		return fmt.Errorf("read the answer: %w", err)
	}
	return nil
}

// request asks for something below the database; an answer that is no success
// is an error.
func (c *client) request(ctx context.Context, s *session, path string, query url.Values, body []byte) (*http.Response, error) {
	method := http.MethodGet
	if body != nil {
		method = http.MethodPost
	}
	req, err := http.NewRequestWithContext(ctx, method, c.where.String()+path+"?"+query.Encode(), bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("make the request: %w", err)
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	req.Header.Set("Accept", "application/json")
	req.Header.Set("User-Agent", userAgent)
	resp, err := s.http.Do(req)
	if err != nil {
		return nil, err
	}
	if err := chttp.ResponseError(resp); err != nil {
		return nil, err
	}
	return resp, nil
}

// Read implements io.Reader.
func (s *stream) Read(p []byte) (int, error) {
	s.timer.Reset(s.quiet)
	n, err := s.body.Read(p)
	s.timer.Stop()
	s.n += int64(n)
	if err != nil && !errors.Is(err, io.EOF) {
		if cause := s.ctx(); cause != nil {
			err = cause
		}
	}
	return n, err
}

// Close ends the response. A body that was read to its end leaves the
// connection for the next request.
func (s *stream) Close() error {
	s.timer.Stop()
	err := s.body.Close()
	s.cancel(nil)
	if err != nil {
		return fmt.Errorf("close the feed: %w", err)
	}
	return nil
}

// caused puts the reason for which a context ended in place of the bare
// "context canceled".
func caused(ctx context.Context, err error) error {
	if err != nil && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// door is the transport under the authentication: it mends the escaping of
// paths and lets no request follow a redirect, which would carry the password
// to wherever it leads.
type door struct {
	through http.RoundTripper
	own     *http.Transport
	prefix  string
}

func newDoor(o Options, where address) *door {
	d := &door{through: o.Transport, prefix: where.prefix}
	if d.through == nil {
		d.own = &http.Transport{
			Proxy:               http.ProxyFromEnvironment,
			DialContext:         (&net.Dialer{Timeout: 30 * time.Second, KeepAlive: 30 * time.Second}).DialContext,
			TLSClientConfig:     o.TLS,
			TLSHandshakeTimeout: 10 * time.Second,
			IdleConnTimeout:     90 * time.Second,
			MaxIdleConnsPerHost: max(http.DefaultMaxIdleConnsPerHost, o.Parallel+1),
			DisableCompression:  true, // CouchDB never compresses; a proxy that did would delay rows
			ReadBufferSize:      64 << 10,
		}
		d.through = d.own
	}
	return d
}

// RoundTrip implements http.RoundTripper.
func (d *door) RoundTrip(req *http.Request) (*http.Response, error) {
	mended := *req
	mended.URL = d.mend(req.URL)
	resp, err := d.through.RoundTrip(&mended)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode >= 300 && resp.StatusCode < 400 && resp.StatusCode != http.StatusNotModified {
		_ = resp.Body.Close()
		return nil, fmt.Errorf("%w: %s", errRedirect, redacted(resp))
	}
	return resp, nil
}

// mend escapes + and keeps the escaped slashes of names under a path prefix,
// where kivik's own raw path lacks the prefix and so would be dropped.
func (d *door) mend(u *url.URL) *url.URL {
	raw := u.EscapedPath()
	if u.RawPath != "" && raw != u.RawPath {
		if plain, err := url.PathUnescape(d.prefix + u.RawPath); err == nil && plain == u.Path {
			raw = d.prefix + u.RawPath
		}
	}
	out := *u
	out.RawPath = strings.ReplaceAll(raw, "+", "%2B")
	return &out
}

func (d *door) close() {
	if d.own != nil {
		d.own.CloseIdleConnections()
	}
}

// redacted is where a response leads to, without credentials.
func redacted(resp *http.Response) string {
	to, err := resp.Location()
	if err != nil {
		return "(no location)"
	}
	return to.Scheme + "://" + to.Host + to.EscapedPath()
}
