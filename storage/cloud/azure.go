package cloud

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/streaming"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/bloberror"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blockblob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/container"

	"github.com/couch2hudi/couch2hudi/storage"
)

// azureStore is a container of Azure's blobs.
type azureStore struct {
	container *container.Client
	closer    io.Closer
}

// once keeps the client from trying again by itself.
func once(ctx context.Context) context.Context {
	return policy.WithRetryOptions(ctx, policy.RetryOptions{MaxRetries: -1})
}

func (s *azureStore) head(ctx context.Context, key string) (info, error) {
	out, err := s.container.NewBlobClient(key).GetProperties(once(ctx), nil)
	if err != nil {
		return info{}, err
	}
	return info{key: key, size: value(out.ContentLength), modified: value(out.LastModified), version: azureVersion(out.ETag), token: tokenOf(plain(out.Metadata))}, nil
}

func (s *azureStore) get(ctx context.Context, key, version string, offset, length int64) (answer, error) {
	o := &blob.DownloadStreamOptions{Range: blob.HTTPRange{Offset: offset, Count: length}, AccessConditions: azureCond(storage.Cond{ETag: version})}
	out, err := s.container.NewBlobClient(key).DownloadStream(once(ctx), o)
	if err != nil {
		return answer{}, err
	}
	got := answer{body: out.Body, length: value(out.ContentLength), of: info{key: key, modified: value(out.LastModified), version: azureVersion(out.ETag)}}
	if version != "" && got.of.version != version {
		_ = out.Body.Close()
		return answer{}, errRefused
	}
	if got.of.size, err = ranged(value(out.ContentRange), offset, got.length); err != nil {
		_ = out.Body.Close()
	}
	return got, err
}

func azureCond(cond storage.Cond) *blob.AccessConditions {
	m := &blob.ModifiedAccessConditions{}
	switch {
	case cond.Absent:
		m.IfNoneMatch = to.Ptr(azcore.ETagAny)
	case cond.ETag != "":
		m.IfMatch = to.Ptr(azcore.ETag(*quoted(cond.ETag)))
	default:
		return nil
	}
	return &blob.AccessConditions{ModifiedAccessConditions: m}
}

func (s *azureStore) put(ctx context.Context, key string, data []byte, cond storage.Cond, token string) (info, error) {
	out, err := s.container.NewBlockBlobClient(key).Upload(once(ctx), streaming.NopCloser(bytes.NewReader(data)),
		&blockblob.UploadOptions{Metadata: map[string]*string{tokenKey: &token}, AccessConditions: azureCond(cond)})
	if err != nil {
		return info{}, err
	}
	return info{key: key, size: int64(len(data)), modified: value(out.LastModified), version: azureVersion(out.ETag)}, nil
}

// begin asks nothing of the store: blocks belong to a name.
func (s *azureStore) begin(_, _ context.Context, key string, cond storage.Cond, token string) (parts, error) {
	return &azureParts{client: s.container.NewBlockBlobClient(key), key: key, cond: cond, token: token, sizes: map[int]int64{}}, nil
}

type azureParts struct {
	client     *blockblob.Client
	key, token string
	cond       storage.Cond
	// sizes are those of the blocks that were sent, by number.
	sizes map[int]int64
}

func (u *azureParts) id() string { return "" }

// block is a block's name. Uploads of one blob share their names, and the token
// keeps them apart.
func (u *azureParts) block(number int) string {
	return base64.StdEncoding.EncodeToString(fmt.Appendf(nil, "%s-%06d", u.token, number))
}

func (u *azureParts) part(ctx context.Context, number int, data []byte) error {
	_, err := u.client.StageBlock(once(ctx), u.block(number), streaming.NopCloser(bytes.NewReader(data)), nil)
	if err == nil {
		u.sizes[number] = int64(len(data))
	}
	return err
}

func (u *azureParts) complete(ctx context.Context) (info, error) {
	var blocks []string
	size := int64(0)
	for number := 1; number <= len(u.sizes); number++ {
		blocks = append(blocks, u.block(number))
		size += u.sizes[number]
	}
	out, err := u.client.CommitBlockList(once(ctx), blocks, &blockblob.CommitBlockListOptions{
		Metadata: map[string]*string{tokenKey: &u.token}, AccessConditions: azureCond(u.cond)})
	if err != nil {
		return info{}, err
	}
	return info{key: u.key, size: size, modified: value(out.LastModified), version: azureVersion(out.ETag)}, nil
}

// abort has nothing to ask for: Azure shows blocks that were not committed to nobody
// and drops them after a week, or when the blob is written.
func (u *azureParts) abort(context.Context) error { return nil }

func (s *azureStore) list(ctx context.Context, prefix string, folders bool, after string) (page, error) {
	var marker *string
	if after != "" {
		marker = &after
	}
	if folders {
		return s.listFolders(ctx, prefix, marker)
	}
	out, err := s.container.NewListBlobsFlatPager(&container.ListBlobsFlatOptions{Prefix: &prefix, Marker: marker}).NextPage(once(ctx))
	if err != nil {
		return page{}, err
	}
	p := page{next: value(out.NextMarker)}
	for _, b := range out.Segment.BlobItems {
		p.objects = append(p.objects, azureInfo(b))
	}
	return p.sorted(), nil
}

func (s *azureStore) listFolders(ctx context.Context, prefix string, marker *string) (page, error) {
	out, err := s.container.NewListBlobsHierarchyPager("/", &container.ListBlobsHierarchyOptions{Prefix: &prefix, Marker: marker}).NextPage(once(ctx))
	if err != nil {
		return page{}, err
	}
	p := page{next: value(out.NextMarker)}
	for _, b := range out.Segment.BlobItems {
		p.objects = append(p.objects, azureInfo(b))
	}
	for _, f := range out.Segment.BlobPrefixes {
		p.objects = append(p.objects, info{key: value(f.Name)})
	}
	return p.sorted(), nil
}

func azureInfo(b *container.BlobItem) info {
	o := info{key: value(b.Name)}
	if b.Properties != nil {
		o.size, o.modified, o.version = value(b.Properties.ContentLength), value(b.Properties.LastModified), azureVersion(b.Properties.ETag)
	}
	return o
}

func (s *azureStore) delete(ctx context.Context, key string) error {
	_, err := s.container.NewBlobClient(key).Delete(once(ctx), nil)
	return err
}

func (s *azureStore) deletesSilently() bool { return false }

// sweep has nothing to do: see abort.
func (s *azureStore) sweep(context.Context, string, time.Time, func(string) bool) (int, error) {
	return 0, nil
}

func (s *azureStore) fault(err error) fault {
	switch {
	case bloberror.HasCode(err, bloberror.BlobNotFound):
		return missing
	case bloberror.HasCode(err, bloberror.BlobAlreadyExists, bloberror.ConditionNotMet, bloberror.TargetConditionNotMet):
		return refused
	case bloberror.HasCode(err, bloberror.InvalidBlockList):
		return lost // another upload of the name was committed, and the blocks of all others went
	case bloberror.HasCode(err, bloberror.InvalidRange):
		return beyond
	case bloberror.HasCode(err, bloberror.ContainerNotFound, bloberror.LeaseIDMissing, bloberror.BlobArchived, bloberror.SnapshotsPresent):
		return other
	}
	var answer *azcore.ResponseError
	if errors.As(err, &answer) {
		return statusFault(answer.StatusCode)
	}
	return networkFault(err)
}

func (s *azureStore) answer(err error) (code string, status int) {
	var answer *azcore.ResponseError
	if errors.As(err, &answer) {
		code, status = answer.ErrorCode, answer.StatusCode
	}
	return code, status
}

func (s *azureStore) close() error { return s.closer.Close() }

func azureVersion(e *azcore.ETag) string { return strings.Trim(string(value(e)), `"`) }

func value[T any](p *T) T {
	if p == nil {
		var zero T
		return zero
	}
	return *p
}

func plain(metadata map[string]*string) map[string]string {
	m := make(map[string]string, len(metadata))
	for name, v := range metadata {
		m[name] = value(v)
	}
	return m
}
