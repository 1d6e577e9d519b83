package s3fake_test

import (
	"encoding/xml"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/couch2hudi/couch2hudi/internal/s3fake"
)

// client speaks to a store without an SDK.
type client struct {
	t    *testing.T
	base string
}

func start(t *testing.T, o s3fake.Options) (*s3fake.Server, client) {
	t.Helper()
	s, err := s3fake.Start(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s, client{t, s.Query().Get("endpoint") + "/" + s3fake.Bucket + "/"}
}

// ask makes a request; headers are names and values in turn.
func (c client) ask(method, key, body string, headers ...string) (status int, header http.Header, answer string) {
	c.t.Helper()
	r, err := http.NewRequestWithContext(c.t.Context(), method, c.base+key, strings.NewReader(body))
	if err != nil {
		c.t.Fatal(err)
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	got, err := http.DefaultClient.Do(r)
	if err != nil {
		c.t.Error(err)
		return 0, nil, ""
	}
	defer func() { _ = got.Body.Close() }()
	all, err := io.ReadAll(got.Body)
	if err != nil {
		c.t.Error(err)
	}
	return got.StatusCode, got.Header, string(all)
}

// begun is an upload of one part, which complete completes.
func (c client) begun(key, content string) (complete func(headers ...string) (int, string)) {
	c.t.Helper()
	var begun struct{ UploadId string } //nolint:revive // S3's name
	status, _, answer := c.ask(http.MethodPost, key+"?uploads", "")
	if err := xml.Unmarshal([]byte(answer), &begun); err != nil || status != http.StatusOK {
		c.t.Fatalf("%d, %v: %s", status, err, answer)
	}
	at := key + "?uploadId=" + begun.UploadId
	status, header, answer := c.ask(http.MethodPut, at+"&partNumber=1", content)
	if status != http.StatusOK {
		c.t.Fatalf("%d: %s", status, answer)
	}
	list := fmt.Sprintf(`<CompleteMultipartUpload><Part><PartNumber>1</PartNumber><ETag>%s</ETag></Part></CompleteMultipartUpload>`, header.Get("ETag"))
	return func(headers ...string) (int, string) {
		c.t.Helper()
		status, _, answer := c.ask(http.MethodPost, at, list, headers...)
		var done struct{ ETag string }
		if err := xml.Unmarshal([]byte(answer), &done); err != nil {
			c.t.Errorf("%v: %s", err, answer)
		}
		return status, done.ETag
	}
}

// Of many puts and completions that race under the condition that nothing is there,
// and then under that of one version, one succeeds.
func TestConditionsAreAtomic(t *testing.T) {
	_, c := start(t, s3fake.Options{})
	etag := ""
	for round, condition := range []string{"If-None-Match", "If-Match", "If-Match"} {
		const writers = 10
		won := make(chan string, 2*writers)
		var all sync.WaitGroup
		value := map[bool]string{true: "*", false: etag}[round == 0]
		for i := range writers {
			complete := c.begun("f/o+%20x", fmt.Sprint("in parts", round, i))
			all.Go(func() {
				if status, etag := complete(condition, value); status == http.StatusOK {
					won <- etag
				} else if status != http.StatusPreconditionFailed {
					t.Errorf("a completion: %d", status)
				}
			})
			all.Go(func() {
				if status, header, answer := c.ask(http.MethodPut, "f/o+%20x", fmt.Sprint("whole", round, i), condition, value); status == http.StatusOK {
					won <- header.Get("ETag")
				} else if status != http.StatusPreconditionFailed {
					t.Errorf("a put: %d, %s", status, answer)
				}
			})
		}
		all.Wait()
		close(won)
		if len(won) != 1 {
			t.Fatalf("round %d: %d writers took the place", round, len(won))
		}
		etag = <-won
		if status, header, _ := c.ask(http.MethodHead, "f/o+%20x", ""); status != http.StatusOK || header.Get("ETag") != etag {
			t.Errorf("round %d: %d, %s is there, its writer got %s", round, status, header.Get("ETag"), etag)
		}
	}
}

func TestConditionsOfReads(t *testing.T) {
	_, c := start(t, s3fake.Options{})
	for _, content := range []string{"0123456789", ""} {
		_, header, _ := c.ask(http.MethodPut, "o", content)
		etag := header.Get("ETag")
		if status, _, got := c.ask(http.MethodGet, "o", "", "If-Match", etag); status != http.StatusOK || got != content {
			t.Errorf("the right version: %d %q", status, got)
		}
		for _, method := range []string{http.MethodGet, http.MethodHead} {
			status, header, got := c.ask(method, "o", "", "If-Match", `"another"`)
			if status != http.StatusPreconditionFailed || header.Get("ETag") != "" || strings.Contains(got, "0123") {
				t.Errorf("%s, another version of %q: %d, %s", method, content, status, got)
			}
		}
	}
	if status, _, _ := c.ask(http.MethodGet, "none", "", "If-Match", `"another"`); status != http.StatusNotFound {
		t.Errorf("no version: %d", status)
	}
	_, header, _ := c.ask(http.MethodPut, "o", "0123456789")
	if status, _, got := c.ask(http.MethodGet, "o", "", "If-Match", header.Get("ETag"), "Range", "bytes=3-5"); status != http.StatusPartialContent || got != "345" {
		t.Errorf("a range of the right version: %d %q", status, got)
	}
}

func TestWrapAndRequests(t *testing.T) {
	s, c := start(t, s3fake.Options{Deaf: true})
	if keys, err := s.Unfinished(); err != nil || len(keys) > 0 {
		t.Errorf("%q, %v", keys, err)
	}
	c.ask(http.MethodPut, "o", "x")
	if status, _ := c.begun("o", "y")("If-None-Match", "*"); status != http.StatusOK {
		t.Errorf("a deaf store minds: %d", status)
	}
	c.begun("o", "z")
	if keys, err := s.Unfinished(); err != nil || len(keys) != 1 || keys[0] != "o" {
		t.Errorf("%q, %v", keys, err)
	}
	want := map[s3fake.Kind]int{s3fake.Put: 1, s3fake.Begin: 2, s3fake.Part: 2, s3fake.Complete: 1}
	if got := s.Requests(); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%v", got)
	}
	s.Forget()
	s.Wrap(func(http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { s3fake.Refuse(w, http.StatusForbidden, "AccessDenied") })
	})
	if status, _, answer := c.ask(http.MethodGet, "?list-type=2", ""); status != http.StatusForbidden || !strings.Contains(answer, "<Code>AccessDenied</Code>") {
		t.Errorf("%d, %s", status, answer)
	}
	s.Wrap(nil)
	if status, _, answer := c.ask(http.MethodGet, "o", ""); status != http.StatusOK || answer != "y" {
		t.Errorf("%d, %q", status, answer)
	}
	if got := s.Requests(); got[s3fake.List] != 1 || got[s3fake.Get] != 1 {
		t.Errorf("%v", got)
	}
}
