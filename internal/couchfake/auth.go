package couchfake

import (
	"encoding/base64"
	"net/http"
	"slices"
	"strings"
)

// user is who sent a request. The zero value is nobody.
type user struct {
	name  string
	admin bool
	via   string   // how it was authenticated: default, cookie, proxy or jwt
	roles []string // that came with a header
}

func unauthorized(reason string) *failure {
	return &failure{status: http.StatusUnauthorized, name: "unauthorized", reason: reason}
}

// errWrongPassword and the like answer as the server does.
var (
	errWrongPassword = unauthorized("Name or password is incorrect.")
	errNobody        = unauthorized("You are not authorized to access this db.")
	errNotAdmin      = unauthorized("You are not a server admin.")
	errNotMember     = &failure{status: http.StatusForbidden, name: "forbidden", reason: "You are not allowed to access this db."}
)

// authenticate finds out who sent the request. A broken header or cookie is an error; none at all is not.
func (x *exchange) authenticate() error {
	if len(x.s.opts.Admins) == 0 {
		x.user.admin = true
	}
	if x.proxied() {
		return nil
	}
	if h := x.r.Header.Get("Authorization"); h != "" {
		return x.authorization(h)
	}
	if c, err := x.r.Cookie("AuthSession"); err == nil && c.Value != "" {
		return x.cookie(c.Value)
	}
	return nil
}

func (x *exchange) basic(value string) error {
	raw, err := base64.StdEncoding.DecodeString(value)
	if err != nil {
		return badRequest("Authorization header has invalid base64 value")
	}
	name, password, _ := strings.Cut(string(raw), ":")
	admin, ok := x.s.login(name, password)
	if !ok {
		return errWrongPassword
	}
	x.user = user{name: name, admin: admin || x.user.admin, via: "default"}
	return nil
}

// login checks a password and says whether its owner is an admin.
func (s *Server) login(name, password string) (admin, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p, found := s.opts.Admins[name]; found {
		return true, p == password
	}
	p, found := s.opts.Users[name]
	return false, found && p == password
}

// knows says whether a user exists, and whether it is an admin.
func (s *Server) knows(name string) (admin, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, found := s.opts.Admins[name]; found {
		return true, true
	}
	_, found := s.opts.Users[name]
	return false, found
}

// member refuses who may not see the database.
func (x *exchange) member() error {
	if x.user.admin {
		return nil
	}
	x.db.mu.RLock()
	sec := x.db.security
	x.db.mu.RUnlock()
	switch {
	case sec.public():
		return nil
	case x.user.name == "":
		return errNobody
	case slices.Contains(sec.members, x.user.name) || slices.Contains(sec.admins, x.user.name):
		return nil
	case slices.ContainsFunc(x.user.roles, func(r string) bool { return slices.Contains(sec.roles, r) }):
		return nil
	}
	return errNotMember
}

func (x *exchange) admin() error {
	if !x.user.admin {
		return errNotAdmin
	}
	return nil
}

// security is the object of the same name: who may see a database. Immutable.
type security struct {
	raw             []byte
	admins, members []string
	roles           []string // of members
}

// defaultSecurity lets nobody in but admins.
func defaultSecurity() *security {
	return &security{raw: []byte(`{"members":{"roles":["_admin"]},"admins":{"roles":["_admin"]}}`), roles: []string{"_admin"}}
}

func (s *security) public() bool { return len(s.members) == 0 && len(s.roles) == 0 }

// SetMembers names the users who may see the database besides admins; with none, everybody may. Open feeds go on.
func (db *Database) SetMembers(names ...string) {
	b := []byte(`{"admins":{"names":[],"roles":["_admin"]},"members":{"names":[`)
	for i, n := range names {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendString(b, n)
	}
	b = append(b, `],"roles":[]}}`...)
	db.mu.Lock()
	defer db.mu.Unlock()
	db.security = &security{raw: b, members: slices.Clone(names)}
}

// Revoke takes a user's access away, and leaves the database to admins when it was the last one. Feeds that are open go on.
func (db *Database) Revoke(name string) {
	db.mu.RLock()
	left := slices.DeleteFunc(slices.Clone(db.security.members), func(n string) bool { return n == name })
	db.mu.RUnlock()
	if len(left) > 0 {
		db.SetMembers(left...)
		return
	}
	db.mu.Lock()
	defer db.mu.Unlock()
	db.security = defaultSecurity()
}

// security answers GET and PUT /db/_security.
func (x *exchange) security() error {
	if err := x.allow(http.MethodGet, http.MethodPut, http.MethodHead); err != nil {
		return err
	}
	if x.r.Method != http.MethodPut {
		x.db.mu.RLock()
		raw := x.db.security.raw
		x.db.mu.RUnlock()
		x.json(http.StatusOK, append(slices.Clone(raw), '\n'))
		return nil
	}
	if err := x.admin(); err != nil {
		return err
	}
	body, err := x.body()
	if err != nil {
		return err
	}
	sec, err := parseSecurity(body)
	if err != nil {
		return err
	}
	x.db.mu.Lock()
	x.db.security = sec
	x.db.mu.Unlock()
	x.json(http.StatusOK, okBody())
	return nil
}

func parseSecurity(body []byte) (*security, error) {
	top, err := fields(body)
	if err != nil {
		return nil, err
	}
	raw, _, err := normalizeJSON(body)
	if err != nil {
		return nil, err
	}
	sec := &security{raw: raw}
	for group, names := range map[string]*[]string{"admins": &sec.admins, "members": &sec.members} {
		if len(top[group]) == 0 {
			continue
		}
		f, err := fields(top[group])
		if err != nil {
			return nil, err
		}
		if v, ok := f["names"]; ok {
			if *names, err = stringList(v); err != nil {
				return nil, badRequest("names must be a JSON list of strings")
			}
		}
		if v, ok := f["roles"]; ok && group == "members" {
			if sec.roles, err = stringList(v); err != nil {
				return nil, badRequest("roles must be a JSON list of strings")
			}
		}
	}
	return sec, nil
}
