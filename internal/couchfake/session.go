package couchfake

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// session answers /_session: POST logs in, GET tells who one is, DELETE logs out.
func (x *exchange) session() error {
	switch x.r.Method {
	case http.MethodPost:
		return x.logIn()
	case http.MethodDelete:
		http.SetCookie(x.w, &http.Cookie{Name: "AuthSession", Path: "/", HttpOnly: true, MaxAge: -1}) //nolint:gosec // plain HTTP
		x.json(http.StatusOK, okBody())
		return nil
	case http.MethodGet, http.MethodHead:
		x.json(http.StatusOK, x.whoAmI())
		return nil
	}
	return x.allow(http.MethodGet, http.MethodHead, http.MethodPost, http.MethodDelete)
}

func (x *exchange) whoAmI() []byte {
	b := []byte(`{"ok":true,"userCtx":{"name":`)
	if x.user.name == "" {
		b = append(b, "null"...)
	} else {
		b = appendString(b, x.user.name)
	}
	b = append(b, `,"roles":[`...)
	roles := slices.Clone(x.user.roles)
	if x.user.admin && !slices.Contains(roles, "_admin") {
		roles = append(roles, "_admin")
	}
	b = appendStrings(b, roles)
	b = append(b, `]},"info":{"authentication_handlers":[`...)
	b = append(appendStrings(b, x.s.handlers()), ']')
	if x.user.via != "" {
		b = append(b, `,"authenticated":"`+x.user.via+`"`...)
	}
	return append(b, "}}\n"...)
}

// appendStrings writes the elements of a list of strings.
func appendStrings(b []byte, list []string) []byte {
	for i, s := range list {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendString(b, s)
	}
	return b
}

func (x *exchange) logIn() error {
	name, password, err := x.credentials()
	if err != nil {
		return err
	}
	admin, ok := x.s.login(name, password)
	if !ok {
		return errWrongPassword
	}
	life := x.s.opts.SessionLifetime
	http.SetCookie(x.w, &http.Cookie{ //nolint:gosec // plain HTTP
		Name: "AuthSession", Value: x.s.sign(name, time.Now()), Path: "/", HttpOnly: true,
		Expires: time.Now().Add(life), MaxAge: int(life.Seconds()),
	})
	b := append([]byte(`{"ok":true,"name":`), appendString(nil, name)...)
	b = append(b, `,"roles":[`...)
	if admin {
		b = append(b, `"_admin"`...)
	}
	x.json(http.StatusOK, append(b, "]}\n"...))
	return nil
}

// credentials reads name and password from JSON or from a form.
func (x *exchange) credentials() (name, password string, err error) {
	body, err := x.body()
	if err != nil {
		return "", "", err
	}
	if strings.HasPrefix(x.r.Header.Get("Content-Type"), "application/x-www-form-urlencoded") {
		v, err := url.ParseQuery(string(body))
		if err != nil {
			return "", "", badRequest("request body must contain a username and password")
		}
		return v.Get("name"), v.Get("password"), nil
	}
	f, err := fields(body)
	if err != nil {
		return "", "", err
	}
	n, p := f["name"], f["password"]
	if len(n) == 0 || n[0] != '"' || len(p) == 0 || p[0] != '"' {
		return "", "", badRequest("request body must contain a username and password")
	}
	return text(n), text(p), nil
}

// sign makes the value of a cookie: name, time, the epoch of sessions, and a keyed hash of them.
func (s *Server) sign(name string, at time.Time) string {
	s.mu.Lock()
	epoch := s.epoch
	s.mu.Unlock()
	claim := name + ":" + strconv.FormatInt(at.UnixNano(), 16) + ":" + strconv.Itoa(epoch)
	return base64.RawURLEncoding.EncodeToString([]byte(claim + ":" + string(s.mac(claim))))
}

func (s *Server) mac(claim string) []byte {
	m := hmac.New(sha256.New, s.secret)
	m.Write([]byte(claim))
	return m.Sum(nil)
}

// cookie accepts a session. One that has expired makes its bearer nobody; one that cannot be read is an error.
func (x *exchange) cookie(value string) error {
	malformed := badRequest("Malformed AuthSession cookie. Please clear your cookies.")
	raw, err := base64.RawURLEncoding.DecodeString(value)
	if err != nil {
		return malformed
	}
	parts := strings.SplitN(string(raw), ":", 4)
	if len(parts) != 4 {
		return malformed
	}
	nanos, err := strconv.ParseInt(parts[1], 16, 64)
	if err != nil {
		return malformed
	}
	claim := strings.Join(parts[:3], ":")
	x.s.mu.Lock()
	epoch := strconv.Itoa(x.s.epoch)
	x.s.mu.Unlock()
	admin, known := x.s.knows(parts[0])
	age := time.Since(time.Unix(0, nanos))
	if !known || parts[2] != epoch || age > x.s.opts.SessionLifetime || !hmac.Equal([]byte(parts[3]), x.s.mac(claim)) {
		return nil
	}
	x.user = user{name: parts[0], admin: admin || x.user.admin, via: "cookie"}
	return nil
}
