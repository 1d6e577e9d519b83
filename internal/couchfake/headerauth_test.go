package couchfake_test

import (
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/couch2hudi/couch2hudi/internal/couchfake"
)

// The tokens of user "reader" and secret "shared", as made by openssl dgst.
const (
	tokenSHA1   = "796b173f2ca4679bafdc34bba537526b7013bf49"
	tokenSHA256 = "a471670337f285c22ca60a17011d054bc80d388037faf951158ea67ba6228596"
)

func TestProxyAuthentication(t *testing.T) {
	o := testUsers()
	o.HeaderAuth = couchfake.HeaderAuth{ProxySecret: "shared"}
	s := start(t, o)
	create(t, s, "db", 2).SetMembers("reader")
	create(t, s, "byrole", 2)
	if res, b := ask(t, "PUT", s.URL()+"/byrole/_security", `{"members":{"names":[],"roles":["staff"]}}`, "Authorization", asAdmin); res.StatusCode != http.StatusOK {
		t.Fatalf("%d %s", res.StatusCode, b)
	}
	for _, c := range []struct {
		hash, token, roles, path string
		want                     int
	}{
		{"", tokenSHA1, "", "/db", 200}, {"", tokenSHA256, "", "/db", 200},
		{"sha256", tokenSHA1, "", "/db", 401}, {"sha256", tokenSHA256, "", "/db", 200},
		{"sha1", tokenSHA1, "", "/db", 200}, {"sha1", tokenSHA256, "", "/db", 401},
		{"", "wrong", "", "/db", 401}, {"", "", "", "/db", 401},
		{"", tokenSHA1, "a,b", "/byrole", 403}, {"", tokenSHA1, "a,staff", "/byrole", 200}, {"", tokenSHA1, "_admin", "/byrole", 200},
	} {
		s.SetHeaderAuth(couchfake.HeaderAuth{ProxySecret: "shared", ProxyHash: c.hash})
		res, b := ask(t, "GET", s.URL()+c.path, "", "X-Auth-CouchDB-UserName", "reader", "X-Auth-CouchDB-Roles", c.roles, "X-Auth-CouchDB-Token", c.token)
		if res.StatusCode != c.want {
			t.Errorf("%+v: %d %s", c, res.StatusCode, b)
		}
	}
	_, who := ask(t, "GET", s.URL()+"/_session", "", "X-Auth-CouchDB-UserName", "reader", "X-Auth-CouchDB-Roles", "a,b", "X-Auth-CouchDB-Token", tokenSHA1)
	if !strings.Contains(who, `"userCtx":{"name":"reader","roles":["a","b"]}`) || !strings.Contains(who, `["proxy","cookie","default"],"authenticated":"proxy"`) {
		t.Error(who)
	}
	s.SetHeaderAuth(couchfake.HeaderAuth{})
	_, who = ask(t, "GET", s.URL()+"/_session", "", "X-Auth-CouchDB-UserName", "reader", "X-Auth-CouchDB-Token", tokenSHA1)
	if !strings.Contains(who, `"name":null`) {
		t.Errorf("with the handler off: %s", who)
	}
}

func TestJSONWebTokens(t *testing.T) {
	o := testUsers()
	o.HeaderAuth = couchfake.HeaderAuth{JWTKey: "key"}
	s := start(t, o)
	create(t, s, "db", 2).SetMembers("reader")
	create(t, s, "closed", 2)
	good := couchfake.SignJWT("key", `{"sub":"reader"}`)
	soon := strconv.FormatInt(time.Now().Add(time.Hour).Unix(), 10)
	for _, c := range []struct {
		token, path string
		want        int
		reason      string
	}{
		{good, "/db", 200, ""},
		{good, "/closed", 403, ""},
		{couchfake.SignJWT("key", `{"sub":"reader","exp":`+soon+`}`), "/db", 200, ""},
		{couchfake.SignJWT("key", `{"sub":"root","_couchdb.roles":["_admin"]}`), "/closed", 200, ""},
		{couchfake.SignJWT("key", `{"sub":"reader","exp":1}`), "/db", 401, "exp not in future"},
		{couchfake.SignJWT("other", `{"sub":"reader"}`), "/db", 400, "Bad HMAC"},
		{couchfake.SignJWT("key", `{"name":"reader"}`), "/db", 401, "missing sub"},
		{couchfake.SignJWT("key", `{"sub":"reader","_couchdb.roles":5}`), "/db", 400, ""},
		{couchfake.SignJWT("key", `[]`), "/db", 400, "Not an object"},
		{"e30.e30.e30", "/db", 400, "alg"},
		{"nonsense", "/db", 400, "Malformed"},
		{"a.b.!", "/db", 400, "Malformed"},
	} {
		res, b := ask(t, "GET", s.URL()+c.path, "", "Authorization", "Bearer "+c.token)
		if res.StatusCode != c.want || !strings.Contains(b, c.reason) {
			t.Errorf("%s: %d %s, want %d %s", c.token, res.StatusCode, b, c.want, c.reason)
		}
	}
	s.SetHeaderAuth(couchfake.HeaderAuth{})
	if res, _ := ask(t, "GET", s.URL()+"/db", "", "Authorization", "Bearer "+good); res.StatusCode != http.StatusUnauthorized {
		t.Errorf("with the handler off: %d", res.StatusCode)
	}
}
