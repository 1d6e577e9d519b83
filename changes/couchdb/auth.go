package couchdb

import (
	"context"
	"crypto/hmac"
	"crypto/sha1" //nolint:gosec // the hash of CouchDB's proxy tokens
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync/atomic"

	"github.com/go-kivik/kivik/v4"
	kivikcouch "github.com/go-kivik/kivik/v4/couchdb"
)

// Auth is the way in which requests are authenticated.
type Auth string

// The ways that a CouchDB server knows.
const (
	// AuthBasic sends the name and password with every request.
	AuthBasic Auth = "basic"
	// AuthCookie logs in once at /_session and sends the session's cookie; a
	// session that has expired is begun again.
	AuthCookie Auth = "cookie"
	// AuthProxy names the user in a header, and proves it with a token that
	// is made of the name and a secret shared with the server.
	AuthProxy Auth = "proxy"
	// AuthJWT sends a JSON Web Token.
	AuthJWT Auth = "jwt"
	// AuthIAM sends an access token of IBM Cloud, which another program keeps
	// fresh in Options.TokenFile.
	AuthIAM Auth = "iam"
)

// bearer says that requests carry a token that somebody else made.
func (a Auth) bearer() bool { return a == AuthJWT || a == AuthIAM }

// The hashes of proxy tokens. CouchDB takes those that its setting [chttpd_auth]
// hash_algorithms names, both by default; up to
// 3.3.1 it takes SHA-1 only.
const (
	HashSHA1   = "sha1"
	HashSHA256 = "sha256"
)

// Credentials are what a server wants to know. Options.Auth says which of them
// are used.
type Credentials struct {
	// User is sent by AuthBasic, AuthCookie and AuthProxy.
	User string
	// Password is sent by AuthBasic and AuthCookie.
	Password string
	// Secret is what AuthProxy makes its token with; without one there is none.
	Secret string
	// Token is sent by AuthJWT and AuthIAM.
	Token string
}

// String holds no secret.
func (c Credentials) String() string { return "couchdb.Credentials{User: " + c.User + "}" }

// GoString is String.
func (c Credentials) GoString() string { return c.String() }

// credentials reads them anew; all empty means none.
func (o Options) credentials(ctx context.Context, a address) (c Credentials, err error) {
	if o.Credentials != nil {
		if c, err = o.Credentials(ctx); err != nil {
			return Credentials{}, fmt.Errorf("read the credentials for %s: %w", a, err)
		}
	} else {
		c = Credentials{User: a.user, Password: a.password, Secret: o.Secret, Token: o.Token}
		if o.User != "" {
			c.User = o.User
		}
		if o.Password != "" {
			c.Password = o.Password
		}
	}
	if o.PasswordFile != "" {
		if c.Password, err = readSecret(o.PasswordFile); err != nil {
			return Credentials{}, fmt.Errorf("read the password for %s: %w", a, err)
		}
	}
	if o.TokenFile != "" {
		if c.Token, err = readSecret(o.TokenFile); err != nil {
			return Credentials{}, fmt.Errorf("read the token for %s: %w", a, err)
		}
		if c.Token == "" { // perhaps it is just being written
			return Credentials{}, fmt.Errorf("read the token for %s: %s is empty", a, o.TokenFile)
		}
	}
	return c, o.enough(c)
}

// enough says what is missing. Basic authentication without a user is none.
func (o Options) enough(c Credentials) error {
	switch {
	case (o.Auth == AuthCookie || o.Auth == AuthProxy) && c.User == "":
		return fmt.Errorf("%w: Auth %q needs a user", ErrOptions, o.Auth)
	case o.Auth.bearer() && c.Token == "":
		return fmt.Errorf("%w: Auth %q needs a token", ErrOptions, o.Auth)
	case strings.ContainsAny(c.Token, "\r\n") || o.Auth == AuthProxy && strings.ContainsAny(c.User, "\r\n"):
		return fmt.Errorf("%w: a line break within the user or token", ErrOptions)
	}
	return nil
}

// readSecret reads a file; one line break at its end is not part of the secret.
func readSecret(path string) (string, error) {
	data, err := os.ReadFile(path)
	return strings.TrimSuffix(strings.TrimSuffix(string(data), "\n"), "\r"), err
}

// authenticate returns the transport and the option of kivik's that send the
// credentials; named says that they name a user, and the server should too.
func (c *client) authenticate(with Credentials) (through http.RoundTripper, option kivik.Option, named bool) {
	o := c.opts
	switch {
	case o.Auth == AuthProxy:
		return &signer{through: c.door, sign: o.proxied(with)}, nil, true
	case o.Auth.bearer():
		return &signer{through: c.door, sign: o.bear(with.Token)}, nil, true
	case o.Auth == AuthCookie:
		return c.door, kivikcouch.CookieAuth(with.User, with.Password), true
	case with.User != "":
		return c.door, kivikcouch.BasicAuth(with.User, with.Password), true
	}
	return c.door, nil, false
}

// signer is a transport that adds headers to requests.
type signer struct {
	through http.RoundTripper
	sign    func(http.Header)
}

// RoundTrip implements http.RoundTripper.
func (s *signer) RoundTrip(req *http.Request) (*http.Response, error) {
	signed := *req
	signed.Header = req.Header.Clone()
	s.sign(signed.Header)
	return s.through.RoundTrip(&signed)
}

// proxied sets the headers of proxy authentication:
// https://docs.couchdb.org/en/stable/api/server/authn.html#proxy-authentication
func (o Options) proxied(c Credentials) func(http.Header) {
	token := ""
	if c.Secret != "" {
		token = proxyToken(o.ProxyHash, c.Secret, c.User)
	}
	roles := strings.Join(o.Roles, ",")
	return func(h http.Header) {
		h.Set("X-Auth-CouchDB-UserName", c.User)
		h.Set("X-Auth-CouchDB-Roles", roles)
		if token != "" {
			h.Set("X-Auth-CouchDB-Token", token)
		}
	}
}

func proxyToken(name, secret, user string) string {
	made := sha1.New
	if name == HashSHA256 {
		made = sha256.New
	}
	m := hmac.New(made, []byte(secret))
	_, _ = m.Write([]byte(user)) // a hash never fails
	return hex.EncodeToString(m.Sum(nil))
}

// bear sets the token. A file is read again for every request, of which there
// are few: whoever keeps it fresh need not tell. While it cannot be read the
// last token is as good as any, and the server will say so.
func (o Options) bear(token string) func(http.Header) {
	var last atomic.Pointer[string]
	last.Store(&token)
	return func(h http.Header) {
		if o.TokenFile != "" {
			if read, err := readSecret(o.TokenFile); err == nil && read != "" && !strings.ContainsAny(read, "\r\n") {
				last.Store(&read)
			}
		}
		h.Set("Authorization", "Bearer "+*last.Load())
	}
}
