package cloud

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"

	gcs "cloud.google.com/go/storage"
	"google.golang.org/api/googleapi"
	"google.golang.org/api/iterator"

	"github.com/couch2hudi/couch2hudi/storage"
)

// gcsStore is a bucket of Google Cloud Storage. A version is a generation.
type gcsStore struct {
	bucket *gcs.BucketHandle
	// chunk is how many bytes of an upload are sent at a time.
	chunk  int
	closer io.Closer
}

func (s *gcsStore) object(key string) *gcs.ObjectHandle {
	return s.bucket.Object(key).Retryer(gcs.WithPolicy(gcs.RetryNever))
}

func gcsInfo(a *gcs.ObjectAttrs) info {
	return info{key: a.Name, size: a.Size, modified: a.Updated, version: strconv.FormatInt(a.Generation, 10), token: tokenOf(a.Metadata)}
}

func (s *gcsStore) head(ctx context.Context, key string) (info, error) {
	a, err := s.object(key).Attrs(ctx)
	if err != nil {
		return info{}, err
	}
	return gcsInfo(a), nil
}

func (s *gcsStore) get(ctx context.Context, key, version string, offset, length int64) (answer, error) {
	o, err := gcsCond(s.object(key), storage.Cond{ETag: version})
	if err != nil {
		return answer{}, err
	}
	r, err := o.NewRangeReader(ctx, offset, length)
	if err != nil {
		return answer{}, err
	}
	got := answer{body: r, length: min(length, max(r.Attrs.Size-offset, 0)), of: info{key: key, size: r.Attrs.Size, modified: r.Attrs.LastModified}}
	if r.Attrs.Generation > 0 {
		got.of.version = strconv.FormatInt(r.Attrs.Generation, 10)
	}
	if version != "" && got.of.version != version {
		_ = r.Close()
		return answer{}, errRefused // a store that does not know the condition
	}
	return got, nil
}

// gcsCond puts the condition on a handle. A version that is no generation is none
// that an object ever had.
func gcsCond(o *gcs.ObjectHandle, cond storage.Cond) (*gcs.ObjectHandle, error) {
	switch {
	case cond.Absent:
		return o.If(gcs.Conditions{DoesNotExist: true}), nil
	case cond.ETag != "":
		generation, err := strconv.ParseInt(cond.ETag, 10, 64)
		if err != nil || generation <= 0 {
			return nil, errRefused
		}
		return o.If(gcs.Conditions{GenerationMatch: generation}), nil
	}
	return o, nil
}

func (s *gcsStore) put(ctx context.Context, key string, data []byte, cond storage.Cond, token string) (info, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // a writer that fails is let go by its context
	w, err := s.writer(ctx, key, cond, token, 0)
	if err != nil {
		return info{}, err
	}
	if _, err := w.Write(data); err != nil {
		return info{}, errors.Join(err, w.Close())
	}
	if err := w.Close(); err != nil {
		return info{}, err
	}
	return gcsInfo(w.Attrs()), nil
}

func (s *gcsStore) writer(ctx context.Context, key string, cond storage.Cond, token string, chunk int) (*gcs.Writer, error) {
	o, err := gcsCond(s.object(key), cond)
	if err != nil {
		return nil, err
	}
	w := o.NewWriter(ctx)
	w.ChunkSize, w.Metadata, w.ContentType = chunk, map[string]string{tokenKey: token}, "application/octet-stream"
	return w, nil
}

// begin uses a resumable upload: the client sends chunk after chunk and sends one
// again when its answer is lost.
func (s *gcsStore) begin(_, whole context.Context, key string, cond storage.Cond, token string) (parts, error) {
	ctx, cancel := context.WithCancel(whole)
	w, err := s.writer(ctx, key, cond, token, s.chunk)
	if err != nil {
		cancel()
		return nil, err
	}
	const patience = 2 * time.Minute
	w.ChunkRetryDeadline = patience
	return &gcsParts{w: w, cancel: cancel}, nil
}

type gcsParts struct {
	w      *gcs.Writer
	cancel context.CancelFunc
}

func (u *gcsParts) id() string { return "" }

func (u *gcsParts) part(_ context.Context, _ int, data []byte) error {
	if _, err := u.w.Write(data); err != nil {
		return fmt.Errorf("%w: %w", errFinal, err) // the client has tried again
	}
	return nil
}

func (u *gcsParts) complete(context.Context) (info, error) {
	defer u.cancel()
	if err := u.w.Close(); err != nil {
		return info{}, err
	}
	return gcsInfo(u.w.Attrs()), nil
}

// abort lets the upload go: what a resumable upload has sent is nowhere to be seen,
// costs nothing and is forgotten after a week.
func (u *gcsParts) abort(context.Context) error {
	u.cancel()
	_ = u.w.Close() // says that it was cancelled
	return nil
}

func (s *gcsStore) list(ctx context.Context, prefix string, folders bool, after string) (page, error) {
	q := &gcs.Query{Prefix: prefix, Projection: gcs.ProjectionNoACL}
	if folders {
		q.Delimiter = "/"
	}
	if err := q.SetAttrSelection([]string{"Name", "Size", "Updated", "Generation"}); err != nil {
		return page{}, err
	}
	const most = 1000
	var found []*gcs.ObjectAttrs
	it := s.bucket.Retryer(gcs.WithPolicy(gcs.RetryNever)).Objects(ctx, q)
	next, err := iterator.NewPager(it, most, after).NextPage(&found)
	if err != nil {
		return page{}, err
	}
	p := page{next: next}
	for _, a := range found {
		if a.Prefix != "" {
			p.objects = append(p.objects, info{key: a.Prefix})
		} else {
			p.objects = append(p.objects, gcsInfo(a))
		}
	}
	return p.sorted(), nil
}

func (s *gcsStore) delete(ctx context.Context, key string) error { return s.object(key).Delete(ctx) }

func (s *gcsStore) deletesSilently() bool { return false }

// sweep has nothing to do: see abort.
func (s *gcsStore) sweep(context.Context, string, time.Time, func(string) bool) (int, error) {
	return 0, nil
}

func (s *gcsStore) fault(err error) fault {
	if errors.Is(err, gcs.ErrObjectNotExist) {
		return missing
	}
	if errors.Is(err, gcs.ErrBucketNotExist) {
		return other
	}
	var answer *googleapi.Error
	if errors.As(err, &answer) {
		return statusFault(answer.Code)
	}
	return networkFault(err)
}

func (s *gcsStore) answer(err error) (code string, status int) {
	if errors.Is(err, gcs.ErrBucketNotExist) {
		code = codeNoBucket
	}
	var answer *googleapi.Error
	if errors.As(err, &answer) {
		status = answer.Code
	}
	return code, status
}

func (s *gcsStore) close() error { return s.closer.Close() }
