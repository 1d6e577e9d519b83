package couchdb

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-kivik/kivik/v4"
	"github.com/go-kivik/kivik/v4/couchdb/chttp"

	"github.com/couch2hudi/couch2hudi/changes"
)

// ErrNotCouchDB says that something answers at the URL, but not as a database does.
var ErrNotCouchDB = errors.New("the answer is not a CouchDB database's")

// ErrClosed says that Close was called.
var ErrClosed = errors.New("couchdb source is closed")

var (
	// errSilent: the watchdog ended a response that had gone silent.
	errSilent = errors.New("the server was silent for too long")
	// errUnreadable: a document arrived, and cannot be read.
	errUnreadable = errors.New("the answer cannot be read")
	// errRedirect: the transport was sent elsewhere.
	errRedirect = errors.New("the server redirects to another address")
)

// Error says what was done where, what the server answered, and what an
// operator can do about it. It never holds a password.
type Error struct {
	// Op is what was done: "read changes".
	Op string
	// URL is the database, without credentials.
	URL string
	// Status is the HTTP status; 0 when there was no answer.
	Status int
	// Reason is the server's own, as "error: reason".
	Reason string
	// RetryAfter is the pause that the server asked for; 0 for none.
	RetryAfter time.Duration
	// Hint is what to do next; empty when retrying is what to do.
	Hint string
	// Err is the cause: a sentinel of package changes where one fits.
	Err error
}

// Error is what happened, where, why, and the next step.
func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString(e.Op + " " + e.URL)
	if e.Status != 0 {
		b.WriteString(": " + strconv.Itoa(e.Status) + " " + http.StatusText(e.Status))
	}
	if e.Reason != "" {
		b.WriteString(": " + e.Reason)
	}
	if e.Err != nil {
		b.WriteString(": " + e.Err.Error())
	}
	if e.Hint != "" {
		b.WriteString("; " + e.Hint)
	}
	return b.String()
}

// Unwrap is the cause.
func (e *Error) Unwrap() error { return e.Err }

// fail makes the Error for whatever a call brought back.
func (c *client) fail(op string, err error) error {
	if err == nil {
		return nil
	}
	var known *Error
	if errors.As(err, &known) {
		return err
	}
	return c.toError(op, err)
}

func (c *client) toError(op string, err error) *Error {
	e := &Error{Op: op, URL: c.where.String(), Err: bare(err)}
	var refused *chttp.HTTPError
	if errors.As(err, &refused) && refused.Response != nil {
		e.Status = refused.Response.StatusCode
		e.Reason = refused.Reason
		e.RetryAfter = retryAfter(refused.Response.Header)
		e.Err = nil
	}
	e.explain(c.opts.Auth)
	return e
}

// bare takes the URL with its long query out of an error of package http, and
// kivik's guess at a status.
func bare(err error) error {
	var u *url.Error
	if errors.As(err, &u) {
		return u.Err
	}
	return err
}

// explain adds the sentinel and the hint that a status stands for.
func (e *Error) explain(auth Auth) {
	switch {
	case errors.Is(e.Err, errRedirect):
		e.Hint = "put the address that it redirects to into source.url"
	case errors.Is(e.Err, ErrRowTooLarge):
		e.Hint = "raise source.max_row_bytes, which memory bounds, or make the document smaller"
	case refusedCertificate(e.Err):
		e.Err = fmt.Errorf("%w: %w", changes.ErrUnauthorized, e.Err)
		e.Hint = "the server refuses the client's certificate: check source.tls.cert and key"
	case e.Err != nil: // the network's, or a feed's end
	case e.Status == http.StatusNotFound:
		e.Err = changes.ErrNotFound
		e.Hint = "check the database's name in source.url, or create it: curl -X PUT " + e.URL
	case e.Status == http.StatusUnauthorized || badSession(e) || auth.bearer() && badToken(e):
		e.Err = changes.ErrUnauthorized
		e.Hint = refusedHint(auth, e.URL)
	case e.Status == http.StatusForbidden:
		e.Err = changes.ErrUnauthorized
		e.Hint = "make the user a member of the database: curl -u ADMIN " + e.URL + "/_security"
	case badPosition(e):
		e.Err = changes.ErrPosition
		e.Hint = "the table's position is of another server: read into a new table from --since 0"
	case e.Status >= 400 && e.Status < 500 && !temporary(e.Status):
		e.Hint = "the request itself was refused: ask the server yourself: curl " + e.URL
	}
}

// badSession: a cookie that the server cannot read is refused with 400.
func badSession(e *Error) bool {
	return e.Status == http.StatusBadRequest && strings.Contains(e.Reason, "AuthSession")
}

// badToken: what is wrong with a token other than its age is a 400 to CouchDB
// ("Bad HMAC", "Malformed token", "Missing iss claim").
func badToken(e *Error) bool {
	return e.Status == http.StatusBadRequest && !badPosition(e) && slices.ContainsFunc(
		[]string{"HMAC", "signature", "oken", " claim", "header parameter", " kid"}, func(word string) bool { return strings.Contains(e.Reason, word) })
}

func badPosition(e *Error) bool {
	return e.Status == http.StatusBadRequest && strings.Contains(e.Reason, "since")
}

// temporary says which refusals pass by themselves.
func temporary(status int) bool {
	switch status {
	case http.StatusRequestTimeout, http.StatusTooEarly, http.StatusTooManyRequests:
		return true
	}
	return status >= 500
}

// retryable is the one place that decides whether trying again can help. ctx is
// the caller's.
func retryable(ctx context.Context, err error) bool {
	var e *Error
	var untrusted *tls.CertificateVerificationError
	var unknown x509.UnknownAuthorityError
	switch {
	case err == nil:
		return false
	case ctx.Err() != nil:
		// The caller has had enough. The error itself does not tell: a dial
		// that timed out matches context.DeadlineExceeded too.
		return false
	case errors.Is(err, changes.ErrNotFound), errors.Is(err, changes.ErrUnauthorized),
		errors.Is(err, changes.ErrPosition), errors.Is(err, changes.ErrRecreated):
		// Somebody must act. Unauthorized comes only after logging in anew.
		return false
	case errors.Is(err, ErrRowTooLarge):
		// The row will be as large next time.
		return false
	case errors.Is(err, ErrOptions):
		// A user or token that was given at the start is given no more.
		return false
	case errors.Is(err, ErrNotCouchDB), errors.Is(err, errRedirect):
		// The URL leads to something else.
		return false
	case errors.As(err, &untrusted), errors.As(err, &unknown):
		// A certificate does not become trusted by waiting.
		return false
	case errors.As(err, &e) && e.Status >= 400 && !temporary(e.Status):
		// The server understood and refuses; a 5xx, 408, 425 or 429 does pass
		// (a shard without a live copy answers 500 until a node is back).
		return false
	}
	// What is left is the network's (refused, reset, no such host while a
	// cluster's DNS starts) or a feed's end of any kind, silence included.
	return true
}

// retryAfter reads the header in seconds; a date is not used by CouchDB nor by
// the proxies before it, and then the back-off alone decides.
func retryAfter(h http.Header) time.Duration {
	n, err := strconv.Atoi(h.Get("Retry-After"))
	if err != nil || n < 0 {
		return 0
	}
	return time.Duration(n) * time.Second
}

// refusedLogin says that new credentials, or a new session, may help.
func refusedLogin(err error) bool {
	var e *Error
	return errors.As(err, &e) && errors.Is(err, changes.ErrUnauthorized) && e.Status != http.StatusForbidden
}

// statusOf is the HTTP status behind an error of kivik; 0 when there was none.
func statusOf(err error) int {
	var refused *chttp.HTTPError
	if errors.As(err, &refused) {
		return kivik.HTTPStatus(refused)
	}
	return 0
}

// gone is the error of a call whose context is done; failed is what was being
// retried, if anything.
func gone(ctx context.Context, failed error) error {
	err, cause := ctx.Err(), context.Cause(ctx)
	switch {
	case errors.Is(cause, ErrClosed):
		return ErrClosed
	case !errors.Is(err, cause):
		err = fmt.Errorf("%w: %w", err, cause)
	}
	if failed == nil {
		return err
	}
	return &givenUpError{err: err, failed: failed}
}

// givenUpError matches only the reason for giving up: what failed before it was
// still being retried, and is there to be read.
type givenUpError struct{ err, failed error }

func (g *givenUpError) Error() string { return g.err.Error() + "; last: " + g.failed.Error() }
func (g *givenUpError) Unwrap() error { return g.err }

func recreated(where address, expected, found string) error {
	return &Error{
		Op: "resume", URL: where.String(),
		Reason: fmt.Sprintf("instance_start_time is %q, the position came from %q", found, expected),
		Hint:   "to take the new database into the same table, run again with --accept-recreated",
		Err:    changes.ErrRecreated,
	}
}
