package cloud_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/couch2hudi/couch2hudi/internal/s3fake"
	"github.com/couch2hudi/couch2hudi/storage"
	"github.com/couch2hudi/couch2hudi/storage/cloud"
)

// What no further try mends comes with the next step; what is tried again is told.
func TestHints(t *testing.T) {
	for _, c := range []struct {
		status int
		code   string
		hint   string
		tries  int // at least; 0 for none
	}{
		{http.StatusNotFound, "NoSuchBucket", "create it", 0},
		{http.StatusForbidden, "AccessDenied", "Permissions", 0},
		{http.StatusForbidden, "SignatureDoesNotMatch", "credentials", 0},
		{http.StatusMovedPermanently, "PermanentRedirect", "region=NAME", 0},
		{http.StatusForbidden, "RequestTimeTooSkewed", "clock", 1},
		{http.StatusServiceUnavailable, "SlowDown", "patience=TIME", 1},
	} {
		s := startS3(t, s3fake.Options{})
		told := 0
		d := open(t, s.Query(), cloud.Options{Patience: 150 * time.Millisecond, Retried: func(err error, wait time.Duration) {
			if err == nil || wait <= 0 {
				t.Errorf("%s: told of %v, %s", c.code, err, wait)
			}
			told++
		}})
		s.Wrap(instead(func(w http.ResponseWriter, _ *http.Request) bool {
			s3fake.Refuse(w, c.status, c.code)
			return true
		}))
		_, err := d.Put(t.Context(), "o", nil, storage.Cond{})
		var hinted interface{ Hint() string }
		if !errors.As(err, &hinted) || !strings.Contains(hinted.Hint(), c.hint) || told < c.tries || told > 0 && c.tries == 0 {
			t.Errorf("%s: %v, told %d times", c.code, err, told)
		}
	}
	s := startS3(t, s3fake.Options{})
	d := open(t, s.Query(), cloud.Options{Patience: time.Millisecond})
	_ = s.Close()
	_, err := d.Stat(t.Context(), "o")
	var hinted interface{ Hint() string }
	if !errors.As(err, &hinted) || !strings.Contains(hinted.Hint(), "reached") {
		t.Errorf("nobody listens: %v", err)
	}
	if _, err := open(t, startS3(t, s3fake.Options{}).Query(), cloud.Options{}).Stat(t.Context(), "o"); !errors.Is(err, storage.ErrNotExist) || errors.As(err, &hinted) {
		t.Errorf("no object: %v", err)
	}
}
