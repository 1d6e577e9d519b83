package couchfake

import (
	"crypto/hmac"
	"crypto/sha1" //nolint:gosec // as the server does it
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"hash"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// HeaderAuth is what the two handlers want that are off on a fresh server.
type HeaderAuth struct {
	// ProxySecret turns on proxy authentication; its tokens are demanded.
	ProxySecret string
	// ProxyHash is "sha1" or "sha256" for servers that take one of them only.
	ProxyHash string
	// JWTKey turns on JSON Web Tokens, signed with it by HS256. A claim exp is looked at when there is one.
	JWTKey string
}

// SetHeaderAuth changes the secrets while the server runs.
func (s *Server) SetHeaderAuth(a HeaderAuth) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.opts.HeaderAuth = a
}

func (s *Server) headerAuth() HeaderAuth {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.opts.HeaderAuth
}

// proxied accepts a user whom a proxy vouches for. One without the right token is nobody, not an error.
func (x *exchange) proxied() bool {
	a, name := x.s.headerAuth(), x.r.Header.Get("X-Auth-CouchDB-UserName")
	if a.ProxySecret == "" || name == "" {
		return false
	}
	token := x.r.Header.Get("X-Auth-CouchDB-Token")
	right := a.ProxyHash != "sha256" && token == keyed(sha1.New, a.ProxySecret, name) ||
		a.ProxyHash != "sha1" && token == keyed(sha256.New, a.ProxySecret, name)
	if !right {
		return false
	}
	roles := strings.FieldsFunc(x.r.Header.Get("X-Auth-CouchDB-Roles"), func(r rune) bool { return r == ',' })
	x.become(name, "proxy", roles)
	return true
}

func keyed(h func() hash.Hash, key, message string) string {
	m := hmac.New(h, []byte(key))
	m.Write([]byte(message))
	return hex.EncodeToString(m.Sum(nil))
}

// bearer accepts the user whom a token names. A server without a key does not look at tokens.
func (x *exchange) bearer(token string) error {
	key := x.s.headerAuth().JWTKey
	if key == "" {
		return nil
	}
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return badRequest("Malformed token")
	}
	head, err1 := base64.RawURLEncoding.DecodeString(parts[0])
	claims, err2 := base64.RawURLEncoding.DecodeString(parts[1])
	sum, err3 := base64.RawURLEncoding.DecodeString(parts[2])
	if err1 != nil || err2 != nil || err3 != nil {
		return badRequest("Malformed token")
	}
	h, err := fields(head)
	if err != nil || string(h["alg"]) != `"HS256"` {
		return badRequest("Invalid alg header parameter")
	}
	c, err := fields(claims)
	if err != nil {
		return badRequest("Not an object")
	}
	if exp, ok := c["exp"]; ok {
		if n, err := strconv.ParseInt(string(exp), 10, 64); err != nil || n <= time.Now().Unix() {
			return unauthorized("exp not in future")
		}
	}
	if hex.EncodeToString(sum) != keyed(sha256.New, key, parts[0]+"."+parts[1]) {
		return badRequest("Bad HMAC")
	}
	sub := c["sub"]
	if len(sub) == 0 || sub[0] != '"' {
		return unauthorized("Token missing sub claim.")
	}
	var roles []string
	if list, ok := c["_couchdb.roles"]; ok {
		if roles, err = stringList(list); err != nil {
			return badRequest("Not an object")
		}
	}
	x.become(text(sub), "jwt", roles)
	return nil
}

// become makes the request a user's who brings roles along.
func (x *exchange) become(name, via string, roles []string) {
	admin := x.user.admin
	for _, r := range roles {
		admin = admin || r == "_admin"
	}
	x.user = user{name: name, admin: admin, via: via, roles: roles}
}

// SignJWT makes a token of claims, a JSON object, as somebody who has the key would.
func SignJWT(key, claims string) string {
	e := base64.RawURLEncoding
	message := e.EncodeToString([]byte(`{"alg":"HS256","typ":"JWT"}`)) + "." + e.EncodeToString([]byte(claims))
	m := hmac.New(sha256.New, []byte(key))
	m.Write([]byte(message))
	return message + "." + e.EncodeToString(m.Sum(nil))
}

// handlers are the names of the authentication handlers that are on.
func (s *Server) handlers() []string {
	a := s.headerAuth()
	var names []string
	if a.ProxySecret != "" {
		names = append(names, "proxy")
	}
	names = append(names, "cookie")
	if a.JWTKey != "" {
		names = append(names, "jwt")
	}
	return append(names, "default")
}

// authorization reads the header of that name.
func (x *exchange) authorization(header string) error {
	scheme, value, _ := strings.Cut(header, " ")
	switch http.CanonicalHeaderKey(scheme) {
	case "Basic":
		return x.basic(value)
	case "Bearer":
		return x.bearer(value)
	}
	return nil
}
