package couchdb

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"

	"github.com/go-kivik/kivik/v4/couchdb/chttp"

	"github.com/couch2hudi/couch2hudi/changes"
)

// maxSession is the most that is read of an answer to GET /_session, in bytes.
const maxSession = 1 << 20

// check asks the server once a session whom it takes us for. CouchDB serves a
// request whose credentials no handler of its recognizes as anybody's, and a
// database that is open to all then looks well, until it is not.
func (c *client) check(ctx context.Context, s *session) error {
	if !s.named || s.checked.Load() {
		return nil
	}
	ctx, cancel := context.WithTimeoutCause(ctx, c.opts.Timeout, errSilent)
	defer cancel()
	known, err := c.known(ctx, s)
	if err != nil {
		return c.fail("log in to", caused(ctx, err))
	}
	if !known && c.opts.Auth == AuthIAM {
		// Whether Cloudant names the bearer of a token here is not documented.
		c.opts.Events.warned("the server names no user for the IAM token: it may serve the requests as anybody's")
	} else if !known {
		return &Error{
			Op: "log in to", URL: c.where.String(), Err: changes.ErrUnauthorized,
			Reason: "credentials were sent, and the server takes the requests for anybody's",
			Hint:   anonymousHint(c.opts.Auth),
		}
	}
	s.checked.Store(true)
	return nil
}

// known says whether the server knows who we are; what is no answer to that
// question, as behind a gateway that lets only the database through, says
// nothing against it.
func (c *client) known(ctx context.Context, s *session) (bool, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.where.server()+"/_session", nil)
	if err != nil {
		return false, fmt.Errorf("make the request: %w", err)
	}
	req.Header.Set("Accept", "application/json")
	req.Header.Set("User-Agent", userAgent)
	resp, err := s.http.Do(req)
	if err != nil {
		return false, err
	}
	defer func() { _ = resp.Body.Close() }()
	switch status := resp.StatusCode; {
	case status == http.StatusBadRequest:
		return false, c.refused(chttp.ResponseError(resp))
	case status >= 400 && status < 500 && status != http.StatusUnauthorized && !temporary(status):
		return true, nil
	}
	if err := chttp.ResponseError(resp); err != nil {
		return false, err
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxSession))
	if err != nil {
		return false, err
	}
	var who struct {
		UserCtx *struct {
			Name  *string  `json:"name"`
			Roles []string `json:"roles"`
		} `json:"userCtx"`
	}
	if json.Unmarshal(body, &who) != nil || who.UserCtx == nil {
		return true, nil
	}
	// A server without admins makes an admin of everybody.
	return who.UserCtx.Name != nil && *who.UserCtx.Name != "" || slices.Contains(who.UserCtx.Roles, "_admin"), nil
}

// refused is a 400 to a request that held nothing but credentials.
func (c *client) refused(err error) error {
	e := c.toError("log in to", err)
	e.Err, e.Hint = changes.ErrUnauthorized, refusedHint(c.opts.Auth, e.URL)
	return e
}

// doubt makes the next call check again: a cookie that has expired meanwhile
// is nothing to a database that is open to all.
func (c *client) doubt() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.now != nil {
		c.now.checked.Store(false)
	}
}

func anonymousHint(a Auth) string {
	switch a {
	case AuthProxy:
		return "source.auth.secret must be the server's [chttpd_auth] secret, source.auth.hash one of its hash_algorithms, " +
			"and proxy_authentication_handler one of its [chttpd] authentication_handlers"
	case AuthJWT:
		return "jwt_authentication_handler must be one of the server's [chttpd] authentication_handlers, and no proxy may drop the Authorization header"
	case AuthCookie:
		return "cookie_authentication_handler must be one of the server's [chttpd] authentication_handlers, and no proxy may drop cookies"
	default:
		return "default_authentication_handler must be one of the server's [chttpd] authentication_handlers, and no proxy may drop the Authorization header"
	}
}

// refusedHint is what to do about a 401.
func refusedHint(a Auth, url string) string {
	switch a {
	case AuthProxy:
		return "check source.auth.user, secret and hash of the source"
	case AuthJWT, AuthIAM:
		return "check the token of the source: it may have expired, or be signed with a key that the server does not have"
	default:
		return "check the user and password of the source: curl -u USER " + url
	}
}
