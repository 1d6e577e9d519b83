//go:build stores

package teststore

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/url"
	"path"
	"strings"
	"testing"
	"time"

	"github.com/couch2hudi/couch2hudi/internal/hdfsfake"
	"github.com/couch2hudi/couch2hudi/internal/s3fake"
	"github.com/couch2hudi/couch2hudi/storage"
	"github.com/couch2hudi/couch2hudi/storage/cloud"
	"github.com/couch2hudi/couch2hudi/storage/file"
	"github.com/couch2hudi/couch2hudi/storage/hdfs"
)

// hidden is where the binary has HDFS's files that are no objects yet.
const hidden = ".hoodie/couch2hudi/hdfs"

// opener opens a store as one more process has it.
type opener func(ctx context.Context) (storage.Driver, error)

// open is a store of that kind.
func open(tb testing.TB, kind string, now func() time.Time) storage.Driver {
	tb.Helper()
	var o opener
	var err error
	switch kind {
	case "s3":
		o = openS3(tb)
	case "hdfs":
		o = openHDFS()
	default:
		o, err = openURL(tb, kind)
	}
	if err != nil {
		tb.Fatalf("%s=%s: %v; write mem, file, s3, hdfs or the URL of a folder", Env, kind, err)
	}
	s := &place{tb: tb, open: o, now: now, stamps: map[string]stamp{}, living: map[string]int{}}
	return s.process()
}

// openS3 is a stand-in for this store alone.
func openS3(tb testing.TB) opener {
	tb.Helper()
	server, err := s3fake.Start(s3fake.Options{})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = server.Close() })
	return func(ctx context.Context) (storage.Driver, error) {
		return cloud.Open(ctx, cloud.SchemeS3, s3fake.Bucket, "lake/docs", server.Query(), nil)
	}
}

func openHDFS() opener {
	fs := hdfsfake.New()
	return func(context.Context) (storage.Driver, error) {
		return hdfs.New("/lake/docs", fs.Connect, &hdfs.Options{Hidden: hidden})
	}
}

// openURL is a folder of its own below a URL.
func openURL(tb testing.TB, text string) (opener, error) {
	tb.Helper()
	u, err := url.Parse(text)
	if err != nil {
		return nil, err
	}
	folder := path.Join(u.Path, strings.NewReplacer("/", "-", ":", "-", "=", "-", ",", "-", "#", "-").Replace(tb.Name())+"-"+rand.Text()[:8])
	var o opener
	switch u.Scheme {
	case cloud.SchemeS3, cloud.SchemeGCS, cloud.SchemeAzure:
		o = func(ctx context.Context) (storage.Driver, error) {
			return cloud.Open(ctx, u.Scheme, u.Host, folder, u.Query(), nil)
		}
	case "hdfs":
		a := hdfs.Address{User: u.User.Username()}
		if u.Host != "" {
			a.Namenodes = strings.Split(u.Host, ",")
		}
		o = func(context.Context) (storage.Driver, error) {
			return hdfs.New("/"+strings.TrimPrefix(folder, "/"), hdfs.Dial(a), &hdfs.Options{Hidden: hidden})
		}
	case "file":
		o = func(context.Context) (storage.Driver, error) { return file.New(folder, nil) }
	default:
		return nil, fmt.Errorf("there is no driver for %q", u.Scheme)
	}
	tb.Cleanup(func() {
		if tb.Failed() {
			tb.Logf("what the test left is in the folder %s", folder)
			return
		}
		if err := empty(o); err != nil {
			tb.Errorf("remove the folder %s: %v", folder, err)
		}
	})
	return o, nil
}

// empty removes all that is in a store.
func empty(open opener) (err error) {
	ctx := context.Background() // the test's is over
	d, err := open(ctx)
	if err != nil {
		return err
	}
	b := storage.New(d, nil)
	defer func() { err = errors.Join(err, b.Close()) }()
	for o, err := range b.List(ctx, "") {
		if err == nil {
			err = b.DeleteIfExists(ctx, o.Name)
		}
		if err != nil {
			return err
		}
	}
	if p, ok := d.(storage.Pruner); ok {
		return p.Prune(ctx, "")
	}
	return nil
}
