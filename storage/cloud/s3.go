package cloud

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsmiddleware "github.com/aws/aws-sdk-go-v2/aws/middleware"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"github.com/aws/smithy-go"
	"github.com/aws/smithy-go/middleware"

	"github.com/couch2hudi/couch2hudi/storage"
)

// s3Store is a bucket of S3 or of a store that speaks its dialect.
type s3Store struct {
	client *s3.Client
	bucket string
	closer io.Closer
}

func (s *s3Store) head(ctx context.Context, key string) (info, error) {
	out, err := s.client.HeadObject(ctx, &s3.HeadObjectInput{Bucket: &s.bucket, Key: &key})
	if err != nil {
		return info{}, err
	}
	return info{key: key, size: aws.ToInt64(out.ContentLength), modified: aws.ToTime(out.LastModified), version: bare(out.ETag), token: tokenOf(out.Metadata)}, nil
}

func (s *s3Store) get(ctx context.Context, key, version string, offset, length int64) (answer, error) {
	in := &s3.GetObjectInput{Bucket: &s.bucket, Key: &key, Range: aws.String(fmt.Sprintf("bytes=%d-%d", offset, offset+length-1))}
	if version != "" {
		in.IfMatch = quoted(version)
	}
	out, err := s.client.GetObject(ctx, in)
	if err != nil {
		return answer{}, err
	}
	got := answer{body: out.Body, length: aws.ToInt64(out.ContentLength),
		of: info{key: key, modified: aws.ToTime(out.LastModified), version: bare(out.ETag)}}
	if version != "" && got.of.version != version {
		_ = out.Body.Close()
		return answer{}, errRefused // some dialects do not mind the condition of a read
	}
	if got.of.size, err = ranged(aws.ToString(out.ContentRange), offset, got.length); err != nil {
		_ = out.Body.Close()
	}
	return got, err
}

func (s *s3Store) put(ctx context.Context, key string, data []byte, cond storage.Cond, token string) (info, error) {
	in := &s3.PutObjectInput{Bucket: &s.bucket, Key: &key, Body: bytes.NewReader(data), ContentLength: aws.Int64(int64(len(data))),
		Metadata: map[string]string{tokenKey: token}}
	in.IfNoneMatch, in.IfMatch = s3Cond(cond)
	out, err := s.client.PutObject(ctx, in)
	if err != nil {
		return info{}, err
	}
	return info{key: key, size: int64(len(data)), version: bare(out.ETag), modified: serverTime(out.ResultMetadata)}, nil
}

func s3Cond(cond storage.Cond) (ifNoneMatch, ifMatch *string) {
	if cond.Absent {
		ifNoneMatch = aws.String("*")
	}
	if cond.ETag != "" {
		ifMatch = quoted(cond.ETag)
	}
	return ifNoneMatch, ifMatch
}

// serverTime is when the server answered: a put's answer does not say what time the
// object bears, which is within a moment of it.
func serverTime(m middleware.Metadata) time.Time {
	if t, ok := awsmiddleware.GetServerTime(m); ok {
		return t
	}
	return time.Now()
}

func (s *s3Store) begin(ctx, _ context.Context, key string, cond storage.Cond, token string) (parts, error) {
	out, err := s.client.CreateMultipartUpload(ctx, &s3.CreateMultipartUploadInput{Bucket: &s.bucket, Key: &key, Metadata: map[string]string{tokenKey: token}})
	if err != nil {
		return nil, err
	}
	if aws.ToString(out.UploadId) == "" {
		return nil, fmt.Errorf("%w: an upload without an id", errDialect)
	}
	return &s3Parts{s: s, key: key, upload: out.UploadId, cond: cond, done: map[int]types.CompletedPart{}}, nil
}

type s3Parts struct {
	s      *s3Store
	key    string
	upload *string
	cond   storage.Cond

	mu   sync.Mutex
	done map[int]types.CompletedPart
	size int64
}

func (u *s3Parts) id() string { return *u.upload }

func (u *s3Parts) part(ctx context.Context, number int, data []byte) error {
	out, err := u.s.client.UploadPart(ctx, &s3.UploadPartInput{Bucket: &u.s.bucket, Key: &u.key, UploadId: u.upload,
		PartNumber: aws.Int32(int32(number)), Body: bytes.NewReader(data), ContentLength: aws.Int64(int64(len(data)))})
	if err != nil {
		return err
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if _, again := u.done[number]; !again {
		u.size += int64(len(data))
	}
	u.done[number] = types.CompletedPart{ETag: out.ETag, PartNumber: aws.Int32(int32(number)),
		ChecksumCRC32: out.ChecksumCRC32, ChecksumCRC32C: out.ChecksumCRC32C, ChecksumCRC64NVME: out.ChecksumCRC64NVME}
	return nil
}

func (u *s3Parts) complete(ctx context.Context) (info, error) {
	in := &s3.CompleteMultipartUploadInput{Bucket: &u.s.bucket, Key: &u.key, UploadId: u.upload, MultipartUpload: &types.CompletedMultipartUpload{}}
	in.IfNoneMatch, in.IfMatch = s3Cond(u.cond)
	for number := 1; number <= len(u.done); number++ {
		in.MultipartUpload.Parts = append(in.MultipartUpload.Parts, u.done[number])
	}
	out, err := u.s.client.CompleteMultipartUpload(ctx, in)
	if err != nil {
		return info{}, err
	}
	return info{key: u.key, size: u.size, version: bare(out.ETag), modified: serverTime(out.ResultMetadata)}, nil
}

func (u *s3Parts) abort(ctx context.Context) error {
	_, err := u.s.client.AbortMultipartUpload(ctx, &s3.AbortMultipartUploadInput{Bucket: &u.s.bucket, Key: &u.key, UploadId: u.upload})
	return err
}

func (s *s3Store) list(ctx context.Context, prefix string, folders bool, after string) (page, error) {
	in := &s3.ListObjectsV2Input{Bucket: &s.bucket}
	if wide := listable(prefix); wide != "" {
		in.Prefix = &wide
	}
	if folders {
		in.Delimiter = aws.String("/")
	}
	if after != "" {
		in.ContinuationToken = &after
	}
	out, err := s.client.ListObjectsV2(ctx, in)
	if err != nil {
		return page{}, err
	}
	p := page{}
	for i := range out.Contents {
		o := &out.Contents[i]
		p.objects = append(p.objects, info{key: aws.ToString(o.Key), size: aws.ToInt64(o.Size), modified: aws.ToTime(o.LastModified), version: bare(o.ETag)})
	}
	for _, f := range out.CommonPrefixes {
		p.objects = append(p.objects, info{key: aws.ToString(f.Prefix)})
	}
	p.objects = slices.DeleteFunc(p.objects, func(o info) bool { return !strings.HasPrefix(o.key, prefix) })
	p = p.sorted()
	if aws.ToBool(out.IsTruncated) {
		if p.next = aws.ToString(out.NextContinuationToken); p.next == "" {
			return p, fmt.Errorf("%w: a list that goes on and does not say where", errDialect)
		}
	}
	return p, nil
}

// listable is the prefix that a store is asked to list: MinIO takes "." and ".." at a
// prefix's end for folders, and refuses them.
func listable(prefix string) string {
	cut := strings.LastIndexByte(prefix, '/') + 1
	if last := prefix[cut:]; last == "." || last == ".." {
		return prefix[:cut]
	}
	return prefix
}

// delete gets the same answer whether there was an object or not.
func (s *s3Store) delete(ctx context.Context, key string) error {
	_, err := s.client.DeleteObject(ctx, &s3.DeleteObjectInput{Bucket: &s.bucket, Key: &key})
	return err
}

func (s *s3Store) deletesSilently() bool { return true }

func (s *s3Store) sweep(ctx context.Context, prefix string, before time.Time, alive func(string) bool) (int, error) {
	in := &s3.ListMultipartUploadsInput{Bucket: &s.bucket}
	if prefix != "" {
		in.Prefix = &prefix
	}
	n := 0
	for {
		out, err := s.client.ListMultipartUploads(ctx, in)
		if err != nil && s.fault(err) == lost {
			return n, nil // what a dialect says when there are none
		}
		if err != nil {
			return n, err
		}
		for i := range out.Uploads {
			u := &out.Uploads[i]
			// Some dialects leave the prefix out of account.
			if !strings.HasPrefix(aws.ToString(u.Key), prefix) || u.Initiated == nil || !u.Initiated.Before(before) || alive(aws.ToString(u.UploadId)) {
				continue
			}
			_, err := s.client.AbortMultipartUpload(ctx, &s3.AbortMultipartUploadInput{Bucket: &s.bucket, Key: u.Key, UploadId: u.UploadId})
			if err != nil && s.fault(err) != lost {
				return n, err
			}
			n++
		}
		if !aws.ToBool(out.IsTruncated) || aws.ToString(out.NextKeyMarker) == "" {
			return n, nil
		}
		in.KeyMarker, in.UploadIdMarker = out.NextKeyMarker, out.NextUploadIdMarker
	}
}

func (s *s3Store) fault(err error) fault {
	var api smithy.APIError
	if errors.As(err, &api) {
		switch api.ErrorCode() {
		case "NoSuchUpload":
			return lost
		case "NoSuchBucket":
			return other
		case "ConditionalRequestConflict", "OperationAborted", "SlowDown", "RequestTimeout", "InternalError", "Throttling", "ThrottlingException", "RequestTimeTooSkewed":
			return passing
		}
	}
	var answer *awshttp.ResponseError
	if errors.As(err, &answer) {
		if !errors.As(err, &api) && answer.HTTPStatusCode() < http.StatusMultipleChoices {
			return passing // an answer that broke off
		}
		return statusFault(answer.HTTPStatusCode())
	}
	return networkFault(err)
}

func (s *s3Store) answer(err error) (code string, status int) {
	var api smithy.APIError
	if errors.As(err, &api) {
		code = api.ErrorCode()
	}
	var answer *awshttp.ResponseError
	if errors.As(err, &answer) {
		status = answer.HTTPStatusCode()
	}
	return code, status
}

// statusFault is what an HTTP status means where the vendor has not said more.
func statusFault(status int) fault {
	switch {
	case status == http.StatusNotFound:
		return missing
	case status == http.StatusPreconditionFailed, status == http.StatusNotModified:
		return refused
	case status == http.StatusRequestedRangeNotSatisfiable:
		return beyond
	case status == http.StatusConflict, status == http.StatusRequestTimeout, status == http.StatusTooManyRequests, status >= http.StatusInternalServerError && status != http.StatusNotImplemented:
		return passing
	}
	return other
}

func (s *s3Store) close() error { return s.closer.Close() }

// bare is an ETag without its quotation marks, which lists leave out at times.
func bare(etag *string) string { return strings.Trim(aws.ToString(etag), `"`) }

func quoted(version string) *string { return aws.String(`"` + version + `"`) }

// tokenOf finds the token among metadata, whose names some stores write otherwise.
func tokenOf(metadata map[string]string) string {
	for name, value := range metadata {
		if strings.EqualFold(name, tokenKey) {
			return value
		}
	}
	return ""
}
