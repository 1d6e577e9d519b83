package config

import (
	"errors"
	"fmt"
	"strings"
)

// Auth says how the source is told who reads.
type Auth struct {
	// Kind is "basic", "cookie", "proxy", "jwt" or "iam".
	Kind string `yaml:"kind"`
	// User and Password win over those in source.url.
	User     string `yaml:"user"`
	Password Secret `yaml:"password"`
	// PasswordFile is a file that holds the password alone.
	PasswordFile string `yaml:"password_file"`
	// Secret is the server's, for kind proxy; without one no token is sent.
	Secret Secret `yaml:"secret"`
	// Hash is that of kind proxy's token: "sha1" or "sha256".
	Hash string `yaml:"hash"`
	// Roles are the user's, for kind proxy.
	Roles []string `yaml:"roles"`
	// Token is for kinds jwt and iam.
	Token Secret `yaml:"token"`
	// TokenFile is a file that holds the token alone and that another program
	// may keep fresh.
	TokenFile string `yaml:"token_file"`
}

// Kinds of Auth.
const (
	AuthBasic  = "basic"
	AuthCookie = "cookie"
	AuthProxy  = "proxy"
	AuthJWT    = "jwt"
	AuthIAM    = "iam"
)

// TLS says how source and reader prove who they are; for URLs with TLS.
type TLS struct {
	// CA is a PEM file of the authorities to trust instead of the system's.
	CA string `yaml:"ca"`
	// Cert and Key are PEM files of the client's certificate and its key.
	Cert string `yaml:"cert"`
	Key  string `yaml:"key"`
	// ServerName is the name in the server's certificate, when it is not the
	// URL's host.
	ServerName string `yaml:"server_name"`
	// InsecureSkipVerify takes any server for the right one.
	InsecureSkipVerify bool `yaml:"insecure_skip_verify"`
}

// Bearer says that requests carry a token instead of a user.
func (a *Auth) Bearer() bool { return a.Kind == AuthJWT || a.Kind == AuthIAM }

const fieldAuth = "source.auth."

// resolve returns the Auth with the references in its values resolved.
func (a Auth) resolve() (Auth, error) {
	for _, v := range []struct {
		name  string
		value *Secret
	}{{"password", &a.Password}, {"secret", &a.Secret}, {"token", &a.Token}, {"user", (*Secret)(&a.User)}} {
		text, err := resolve(v.value.Reveal())
		if err != nil {
			return Auth{}, &FieldError{Field: fieldAuth + v.name, Err: err}
		}
		*v.value = Secret(text)
	}
	return a, nil
}

// RereadAuth is source.auth with its references resolved again, for a secret
// that was rotated.
func (s *Source) RereadAuth() (Auth, error) {
	if s.rereadAuth == nil {
		return s.Auth, nil
	}
	return (*s.rereadAuth)()
}

// validate checks the Auth against the URL that it goes with.
func (a *Auth) validate(url SourceURL) error {
	errs := []error{oneOf(fieldAuth+"kind", a.Kind, AuthBasic, AuthCookie, AuthProxy, AuthJWT, AuthIAM)}
	if errs[0] != nil {
		return errs[0]
	}
	for _, v := range []struct {
		name  string
		given bool
		kinds string
	}{
		{"user", a.User != "", "basic, cookie or proxy"},
		{"password", a.Password != "", "basic or cookie"},
		{"password_file", a.PasswordFile != "", "basic or cookie"},
		{"secret", a.Secret != "", AuthProxy},
		{"hash", a.Hash != "", AuthProxy},
		{"roles", len(a.Roles) > 0, AuthProxy},
		{"token", a.Token != "", "jwt or iam"},
		{"token_file", a.TokenFile != "", "jwt or iam"},
	} {
		if v.given && !strings.Contains(v.kinds, a.Kind) {
			errs = append(errs, wrong(fieldAuth+v.name, "it goes with source.auth.kind %s, which is %s", v.kinds, a.Kind))
		}
	}
	errs = append(errs, a.complete(url), oneOf(fieldAuth+"hash", a.Hash, "", "sha1", "sha256"))
	for i, r := range a.Roles {
		if strings.TrimSpace(r) != r || r == "" || strings.ContainsAny(r, ",\r\n") {
			errs = append(errs, wrong(fmt.Sprintf("%sroles[%d]", fieldAuth, i), "%q is no role", r))
		}
	}
	return errors.Join(errs...)
}

// complete says what is missing or given twice.
func (a *Auth) complete(url SourceURL) error {
	bearer := a.Bearer()
	switch {
	case bearer && a.Token == "" && a.TokenFile == "":
		return &FieldError{Field: fieldAuth + "token_file", Err: ErrRequired}
	case bearer && a.Token != "" && a.TokenFile != "":
		return wrong(fieldAuth+"token_file", "there is a source.auth.token too")
	case bearer && url.User != "":
		return wrong(fieldSource, "it holds a user, and source.auth.kind is %s", a.Kind)
	case a.Kind == AuthProxy && url.Password != "":
		return wrong(fieldSource, "it holds a password, and source.auth.kind is %s", a.Kind)
	case a.Kind == AuthProxy && a.User == "" && url.User == "":
		return &FieldError{Field: fieldAuth + "user", Err: ErrRequired}
	case a.Password != "" && a.PasswordFile != "":
		return wrong(fieldAuth+"password_file", "there is a source.auth.password too")
	case (a.Password != "" || a.PasswordFile != "") && a.User == "" && url.User == "":
		return &FieldError{Field: fieldAuth + "user", Err: ErrRequired}
	}
	return nil
}

func (t *TLS) validate(url SourceURL) error {
	switch {
	case *t != TLS{} && strings.HasPrefix(url.Server, "http://"):
		return wrong("source.tls", "source.url has no TLS; write couchdbs:// or https://")
	case t.Cert != "" && t.Key == "":
		return &FieldError{Field: "source.tls.key", Err: ErrRequired}
	case t.Key != "" && t.Cert == "":
		return &FieldError{Field: "source.tls.cert", Err: ErrRequired}
	case t.InsecureSkipVerify && t.CA != "":
		return wrong("source.tls.insecure_skip_verify", "with it, source.tls.ca proves nothing; leave one of them out")
	}
	return nil
}
