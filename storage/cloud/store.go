package cloud

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/couch2hudi/couch2hudi/storage"
)

// store is one bucket of one vendor. Keys are whole, with the table's prefix. Each
// call makes one request, which is tried once; its error is nil, one that fault
// knows, or the caller's context's.
type store interface {
	head(ctx context.Context, key string) (info, error)
	// get asks for length bytes from offset on, of the version (of any when it is empty).
	// The caller closes the answer's body.
	get(ctx context.Context, key, version string, offset, length int64) (answer, error)
	put(ctx context.Context, key string, data []byte, cond storage.Cond, token string) (info, error)
	// begin begins an upload in parts. ctx may end with the call, whole governs the
	// upload.
	begin(ctx, whole context.Context, key string, cond storage.Cond, token string) (parts, error)
	// list is one page of keys, and of folders with their "/", in the order of bytes.
	list(ctx context.Context, prefix string, folders bool, after string) (page, error)
	delete(ctx context.Context, key string) error
	// deletesSilently says that delete does not tell whether there was an object.
	deletesSilently() bool
	// sweep removes uploads in parts that began before a time and that alive says no
	// to. It makes several requests.
	sweep(ctx context.Context, prefix string, before time.Time, alive func(id string) bool) (int, error)
	fault(err error) fault
	// answer is the code and the HTTP status of the store's answer in an error, as far
	// as there is one.
	answer(err error) (code string, status int)
	close() error
}

// parts is an upload in parts.
type parts interface {
	// id is that of the upload, to be spared by sweep; empty where there is none.
	id() string
	// part sends one part. Numbers count from 1. A part may be sent again.
	part(ctx context.Context, number int, data []byte) error
	complete(ctx context.Context) (info, error)
	abort(ctx context.Context) error
}

// info is what a store says of an object.
type info struct {
	key      string
	size     int64
	modified time.Time
	version  string
	// token is that of the put which made it; only head tells it.
	token string
}

// answer is a part of an object.
type answer struct {
	body io.ReadCloser
	// length is how many bytes of what was asked for the object has.
	length int64
	// of is the object, as far as the answer says: without a version, or with a size
	// below 0, it does not.
	of info
}

// read fills p, or as much of it as the answer has, and closes it.
func (a answer) read(p []byte) (int, error) {
	defer func() { _ = a.body.Close() }()
	if a.length >= 0 && a.length < int64(len(p)) {
		p = p[:a.length]
	}
	n, err := io.ReadFull(a.body, p)
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF // cut short
	}
	return n, err
}

// ranged is the size of the object of which an answer has a part, by its Content-Range:
// -1 where that does not say. Without the header the answer is the whole object.
func ranged(header string, offset, length int64) (size int64, err error) {
	if header == "" && offset == 0 {
		return length, nil
	}
	if !strings.HasPrefix(header, fmt.Sprintf("bytes %d-", offset)) {
		return 0, fmt.Errorf("%w: asked for bytes from %d on, got %q", errDialect, offset, header)
	}
	_, text, _ := strings.Cut(header, "/")
	if text == "*" {
		return -1, nil
	}
	if size, err = strconv.ParseInt(text, 10, 64); err != nil {
		return 0, fmt.Errorf("%w: the size in %q: %w", errDialect, header, err)
	}
	return size, nil
}

type page struct {
	objects []info
	// next is where the next page begins; empty at the end.
	next string
}

// sorted has the keys in order: stores give objects and folders apart.
func (p page) sorted() page {
	slices.SortFunc(p.objects, func(a, b info) int { return strings.Compare(a.key, b.key) })
	return p
}

// fault is what an error means.
type fault int

const (
	// other errors are final: they would come again.
	other fault = iota
	// missing: there is no such object.
	missing
	// refused: the condition does not hold.
	refused
	// beyond: the read begins behind the object's end.
	beyond
	// lost: the upload in parts is not there any more.
	lost
	// passing errors may not come again; whether the request took effect is not known.
	passing
)

// tokenKey is the name of the token among an object's metadata.
const tokenKey = "couch2hudi"
