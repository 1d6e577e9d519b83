package couchdb

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/couch2hudi/couch2hudi/changes"
)

// confirmAtOnce is how many documents are asked for side by side.
const confirmAtOnce = 4

// confirm asks for all leaves of each document. A feed shows what one copy of a shard
// has, which may have missed writes without a sign of it; the leaves of a document are
// read from several copies. Where they are newer than the row they count, and such a
// change has no sequence. Where they are not, the row's copy may be the one ahead.
func (s *Source) confirm(ctx context.Context, cs []changes.Change) error {
	e, ctx := errgroup.WithContext(ctx)
	e.SetLimit(confirmAtOnce)
	for i := range cs {
		if c := &cs[i]; c.ID != "" {
			e.Go(func() error { return s.confirmOne(ctx, c) })
		}
	}
	return e.Wait()
}

// confirmOne leaves a change as it is where the server cannot say more.
func (s *Source) confirmOne(ctx context.Context, c *changes.Change) error {
	var r retry
	for {
		found, known, err := s.client.leaves(ctx, c.ID)
		var e *Error
		switch {
		case err == nil:
			if known && newer(c, &found) {
				*c = found
			}
			return nil
		case errors.Is(err, errUnreadable), errors.Is(err, errTooMuch):
			return nil
		case !retryable(ctx, err) || ctx.Err() != nil:
			return err
		case errors.As(err, &e) && e.Status >= 500 && r.failures >= refetchAttempts-1:
			return nil
		}
		if err := s.opts.Sleep(ctx, s.client.pause(&r, err)); err != nil {
			return err
		}
	}
}

// newer says that a document has been changed since a row was: the sum of its leaves'
// generations has grown. A row with a defect that has nothing to do with its age stays.
func newer(row, found *changes.Change) bool {
	if row.Absent || row.Defect != "" && row.Rev.Generation == 0 {
		return row.Absent
	}
	var before, after int64
	for _, leaf := range row.Leaves {
		before += leaf.Generation
	}
	for _, leaf := range found.Leaves {
		after += leaf.Generation
	}
	return after > before
}

// leaves reads GET /db/ID?open_revs=all. Not known says that there are none, or that the
// answer is not one of leaves, as of a server that does not know the question.
func (c *client) leaves(ctx context.Context, id string) (found changes.Change, known bool, err error) {
	path := "/" + url.PathEscape(id)
	if rest, design := strings.CutPrefix(id, "_design/"); design {
		path = "/_design/" + url.PathEscape(rest)
	}
	var data []byte
	err = c.with(ctx, func(s *session) error {
		ctx, cancel := context.WithTimeoutCause(ctx, c.opts.Timeout, errSilent)
		defer cancel()
		resp, err := c.request(ctx, s, path, url.Values{"open_revs": {"all"}}, nil)
		if err != nil {
			return c.fail("read a document of", caused(ctx, err))
		}
		defer func() { _ = resp.Body.Close() }()
		data, err = io.ReadAll(io.LimitReader(resp.Body, int64(c.opts.MaxRowBytes)+1))
		if err != nil {
			return c.fail("read a document of", caused(ctx, cut(err)))
		}
		if len(data) > c.opts.MaxRowBytes {
			return errTooMuch
		}
		return nil
	})
	var e *Error
	if errors.As(err, &e) && e.Status == http.StatusNotFound && !namesNoDatabase(e.Reason) {
		return found, false, nil
	}
	if err != nil {
		return found, false, err
	}
	found, known = winner(id, data)
	return found, known, nil
}

// winner is the change that the leaves of a document make: [{"ok":{…}},…].
func winner(id string, data []byte) (c changes.Change, ok bool) {
	c.ID, c.Deleted = id, true
	i := blanks(data, 0)
	if i == len(data) || data[i] != '[' {
		return c, false
	}
	for i = blanks(data, i+1); i < len(data) && data[i] == '{'; {
		var doc []byte
		next, err := members(data, i, func(key []byte, at, end int) error {
			if string(key) == "ok" && data[at] == '{' {
				doc = data[at:end:end]
			}
			return nil
		})
		if err != nil {
			return c, false
		}
		if doc != nil && !addLeaf(&c, doc) {
			return c, false
		}
		if i = blanks(data, next); i < len(data) && data[i] == ',' {
			i = blanks(data, i+1)
		}
	}
	return c, i < len(data) && data[i] == ']' && len(c.Leaves) > 0
}

// addLeaf adds a leaf to its document, in front when it wins: live ones before
// deleted ones, then the later revision.
func addLeaf(c *changes.Change, doc []byte) bool {
	var text []byte
	deleted := false
	_, err := members(doc, 0, func(key []byte, at, end int) error {
		switch {
		case string(key) == "_rev" && doc[at] == '"':
			text = doc[at+1 : end-1]
		case string(key) == "_deleted":
			deleted = string(doc[at:end]) == "true"
		}
		return nil
	})
	if err != nil {
		return false
	}
	rev, err := changes.ParseRev(string(text))
	if err != nil {
		return false
	}
	if len(c.Leaves) == 0 || c.Deleted && !deleted || c.Deleted == deleted && c.Rev.Before(rev) {
		c.Rev, c.Deleted, c.Body = rev, deleted, doc
		c.Leaves = slices.Insert(c.Leaves, 0, rev)
		return true
	}
	c.Leaves = append(c.Leaves, rev)
	return true
}
