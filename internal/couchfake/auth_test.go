package couchfake_test

import (
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/couch2hudi/couch2hudi/internal/couchfake"
)

// ask sends one request with headers given in pairs.
func ask(t *testing.T, method, url, body string, headers ...string) (*http.Response, string) {
	t.Helper()
	req, err := http.NewRequest(method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	res, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res, string(b)
}

const (
	asAdmin  = "Basic YWRtaW46c2VjcmV0"
	asReader = "Basic cmVhZGVyOnI="
)

// logIn returns the cookie of a session.
func logIn(t *testing.T, s *couchfake.Server, body, contentType string) string {
	t.Helper()
	res, b := ask(t, "POST", s.URL()+"/_session", body, "Content-Type", contentType)
	if res.StatusCode != http.StatusOK || len(res.Cookies()) != 1 || res.Cookies()[0].Name != "AuthSession" {
		t.Fatalf("log in: %d %s %v", res.StatusCode, b, res.Cookies())
	}
	return "AuthSession=" + res.Cookies()[0].Value
}

func TestSessions(t *testing.T) {
	s := start(t, testUsers())
	db := create(t, s, "db", 2)
	db.SetMembers("reader")
	feed := s.URL() + "/db/_changes"
	form := logIn(t, s, url.Values{"name": {"reader"}, "password": {"r"}}.Encode(), "application/x-www-form-urlencoded")
	cookie := logIn(t, s, `{"name":"reader","password":"r"}`, "application/json")
	for _, c := range []string{form, cookie} {
		if res, b := ask(t, "GET", feed, "", "Cookie", c); res.StatusCode != http.StatusOK {
			t.Errorf("with a session: %d %s", res.StatusCode, b)
		}
	}
	_, who := ask(t, "GET", s.URL()+"/_session", "", "Cookie", cookie)
	if !strings.Contains(who, `"userCtx":{"name":"reader","roles":[]}`) || !strings.Contains(who, `"authenticated":"cookie"`) {
		t.Errorf("who: %s", who)
	}
	s.ExpireSessions()
	if res, b := ask(t, "GET", feed, "", "Cookie", cookie); res.StatusCode != http.StatusUnauthorized {
		t.Errorf("with an expired session: %d %s", res.StatusCode, b)
	}
	if res, _ := ask(t, "POST", s.URL()+"/_session", `{"name":"reader","password":"x"}`); res.StatusCode != http.StatusUnauthorized {
		t.Errorf("log in with a wrong password: %d", res.StatusCode)
	}
	if res, _ := ask(t, "DELETE", s.URL()+"/_session", ""); res.StatusCode != http.StatusOK || res.Cookies()[0].MaxAge >= 0 {
		t.Errorf("log out: %d %v", res.StatusCode, res.Cookies())
	}
	if res, _ := ask(t, "PUT", s.URL()+"/_session", ""); res.StatusCode != http.StatusMethodNotAllowed {
		t.Errorf("PUT /_session: %d", res.StatusCode)
	}
}

func TestSessionsGrowOld(t *testing.T) {
	o := testUsers()
	o.SessionLifetime = 30 * time.Millisecond
	s := start(t, o)
	create(t, s, "db", 2)
	cookie := logIn(t, s, `{"name":"admin","password":"secret"}`, "application/json")
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		if res, _ := ask(t, "GET", s.URL()+"/db", "", "Cookie", cookie); res.StatusCode == http.StatusUnauthorized {
			return
		}
		if time.Now().After(end) {
			t.Fatal("the session never expires")
		}
	}
}

func TestAccess(t *testing.T) {
	s := start(t, testUsers())
	db := create(t, s, "db", 2)
	create(t, s, "closed", 2)
	db.SetMembers("reader")
	for _, c := range []struct {
		method, path, who string
		want              int
	}{
		{"GET", "/", "", 200}, {"GET", "/_up", "", 200}, {"GET", "/db", asReader, 200}, {"GET", "/db", "", 401}, {"GET", "/closed", asReader, 403},
		{"GET", "/closed", asAdmin, 200}, {"GET", "/_all_dbs", asReader, 401}, {"GET", "/_all_dbs", asAdmin, 200}, {"PUT", "/new", asReader, 401},
		{"DELETE", "/db", asReader, 401}, {"POST", "/db/_purge", asReader, 401}, {"PUT", "/db/_security", asReader, 401}, {"POST", "/db/_compact", asReader, 401},
		{"GET", "/db", "Basic !", 400}, {"GET", "/db", "Basic cmVhZGVyOng=", 401}, {"GET", "/db", "Bearer x", 401}, {"GET", "/db/_security", asReader, 200},
	} {
		h := []string{}
		if c.who != "" {
			h = append(h, "Authorization", c.who)
		}
		if res, b := ask(t, c.method, s.URL()+c.path, "", h...); res.StatusCode != c.want {
			t.Errorf("%s %s as %q: %d, want %d: %s", c.method, c.path, c.who, res.StatusCode, c.want, b)
		}
	}
}

func TestRevokedAccessLeavesAnOpenFeedAlone(t *testing.T) {
	s := start(t, testUsers())
	db := create(t, s, "db", 2)
	db.SetMembers("reader", "other")
	req, err := http.NewRequest(http.MethodGet, s.URL()+"/db/_changes?feed=continuous&heartbeat=1000", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", asReader)
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	db.Revoke("reader")
	put(t, db, "after", `{}`)
	buf := make([]byte, 0, 200)
	for !strings.Contains(string(buf), `"id":"after"`) {
		b := make([]byte, 200)
		n, err := res.Body.Read(b)
		if buf = append(buf, b[:n]...); err != nil {
			t.Fatalf("%v after %q", err, buf)
		}
	}
	if res, _ := ask(t, "GET", s.URL()+"/db", "", "Authorization", asReader); res.StatusCode != http.StatusForbidden {
		t.Errorf("a new request: %d", res.StatusCode)
	}
	db.Revoke("other")
	if res, _ := ask(t, "GET", s.URL()+"/db", ""); res.StatusCode != http.StatusUnauthorized {
		t.Errorf("without members the database is open: %d", res.StatusCode)
	}
}

func TestRotatedPassword(t *testing.T) {
	s := start(t, testUsers())
	create(t, s, "db", 2).SetMembers("reader")
	s.SetPassword("reader", "new")
	if res, _ := ask(t, "GET", s.URL()+"/db", "", "Authorization", asReader); res.StatusCode != http.StatusUnauthorized {
		t.Errorf("the old password: %d", res.StatusCode)
	}
	if res, _ := ask(t, "GET", strings.Replace(s.URL(), "http://", "http://reader:new@", 1)+"/db", "", "Authorization", "Basic cmVhZGVyOm5ldw=="); res.StatusCode != http.StatusOK {
		t.Errorf("the new password: %d", res.StatusCode)
	}
}
