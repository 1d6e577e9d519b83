package couchdb

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"

	"github.com/couch2hudi/couch2hudi/changes"
)

// readAtOnce is how many documents are asked for in one request: up to 100 the
// server looks them up, beyond it reads the whole feed
// (changes_doc_ids_optimization_threshold).
const readAtOnce = 100

var _ changes.Purger = (*Source)(nil)

// Read implements changes.Purger: each document as the feed would show it, in
// the server's order, then those that it does not show. All leaves of each are
// asked for beside it, of several copies of its shard: where they are newer than
// what the feed's copy has, they count. It retries until ctx is done and moves no position: what it
// returns may be newer than what Next has shown. Design documents are read too.
func (s *Source) Read(ctx context.Context, ids []string) ([]changes.Change, error) {
	ctx, leave, err := s.calls.Enter(ctx)
	if err != nil {
		return nil, err
	}
	defer leave()
	var out []changes.Change
	for len(ids) > 0 {
		n := min(len(ids), readAtOnce)
		var got []changes.Change
		err := s.client.persist(ctx, func() (err error) {
			got, err = s.lookUp(ctx, ids[:n])
			return err
		})
		if err != nil {
			return nil, err
		}
		got = withAbsent(got, ids[:n])
		if err := s.confirm(ctx, got); err != nil {
			return nil, err
		}
		out = append(out, got...)
		ids = ids[n:]
	}
	return out, nil
}

// withAbsent adds a change for each document that was asked for in vain.
func withAbsent(got []changes.Change, ids []string) []changes.Change {
	answered := make(map[string]bool, len(ids))
	for _, c := range got {
		answered[c.ID] = true
	}
	for _, id := range ids {
		if !answered[id] {
			answered[id] = true
			got = append(got, changes.Change{ID: id, Deleted: true, Absent: true})
		}
	}
	return got
}

// Purged implements changes.Purger. CouchDB remembers the last 1,000 purges and
// has no list of those since a sequence, so all that it remembers are listed
// whenever the purge sequence is another one. A server without such a list
// (before CouchDB 3, PouchDB Server) gives none. Events.PurgesMissed is told of
// those that are not listed. It retries until ctx is done.
func (s *Source) Purged(ctx context.Context, after string) (ids []string, seq string, err error) {
	if s.opts.Selector != "" {
		return nil, after, nil // what the document is now may be nothing for the selector
	}
	ctx, leave, err := s.calls.Enter(ctx)
	if err != nil {
		return nil, "", err
	}
	defer leave()
	if err := s.unlisted(ctx); err != nil {
		return nil, "", err
	}
	err = s.client.persist(ctx, func() error {
		found, err := s.client.info(ctx) // before the list: what is purged between the two is listed again
		if err != nil {
			return err
		}
		if err := s.same(found); err != nil {
			return err
		}
		if seq = string(seqText(found.PurgeSeq)); seq == after {
			ids = nil
			return nil
		}
		var listed int64
		if ids, listed, err = s.client.purgedInfos(ctx); err != nil && !errors.Is(err, errNoPurgedInfos) {
			return err
		}
		if err := s.verify(ctx); err != nil { // the list may be of a database created since
			return err
		}
		if missed := purgeCount(seq) - purgeCount(after) - listed; missed > 0 {
			s.opts.Events.purgesMissed(missed)
		}
		return nil
	})
	if err != nil {
		return nil, "", err
	}
	return ids, seq, nil
}

// purgeCount is the number at the beginning of a purge sequence, the sum of
// the shards' purges: good for a warning, never for a position.
func purgeCount(seq string) int64 {
	digits, _, _ := strings.Cut(seq, "-")
	n, err := strconv.ParseInt(digits, 10, 64)
	if err != nil {
		return 0
	}
	return n
}

// errNoPurgedInfos: the server does not list purges.
var errNoPurgedInfos = errors.New("the server has no _purged_infos")

// ListsPurges says whether the server lists purges at all: before CouchDB 3, and
// PouchDB Server, do not, and then only a comparison finds what a purge removed. It
// retries until ctx is done.
func (s *Source) ListsPurges(ctx context.Context) (bool, error) {
	ctx, leave, err := s.calls.Enter(ctx)
	if err != nil {
		return false, err
	}
	defer leave()
	lists := true
	err = s.client.persist(ctx, func() error {
		_, _, err := s.client.purgedInfos(ctx)
		if lists = !errors.Is(err, errNoPurgedInfos); lists {
			return err
		}
		return nil
	})
	return lists, err
}

// unlisted warns, the first time, when the server lists no purges.
func (s *Source) unlisted(ctx context.Context) error {
	s.state.Lock()
	asked := s.askedPurges
	s.state.Unlock()
	if asked || s.opts.Events.Warned == nil {
		return nil
	}
	lists, err := s.ListsPurges(ctx)
	if err != nil {
		return err
	}
	s.state.Lock()
	s.askedPurges = true
	s.state.Unlock()
	if !lists {
		s.opts.Events.warned("the server lists no purges (_purged_infos): rows of purged documents stay until verify --repair finds them")
	}
	return nil
}

// purgedInfos reads which documents the last purges named, each once, and how
// many purges that were.
func (c *client) purgedInfos(ctx context.Context) (ids []string, n int64, err error) {
	var list struct {
		Infos []struct {
			ID string `json:"id"`
		} `json:"purged_infos"`
	}
	err = c.with(ctx, func(s *session) error {
		ctx, cancel := context.WithTimeoutCause(ctx, c.opts.Timeout, errSilent)
		defer cancel()
		return c.fail("read purges of", caused(ctx, c.getJSON(ctx, s, "/_purged_infos", &list)))
	})
	var e *Error
	if errors.As(err, &e) && (e.Status == http.StatusNotFound || e.Status == http.StatusMethodNotAllowed) && !namesNoDatabase(e.Reason) {
		return nil, 0, errNoPurgedInfos
	}
	seen := map[string]bool{}
	for _, info := range list.Infos {
		if !seen[info.ID] {
			seen[info.ID] = true
			ids = append(ids, info.ID)
		}
	}
	return ids, int64(len(list.Infos)), err
}

// lookUp reads the rows of some documents from the feed.
func (s *Source) lookUp(ctx context.Context, ids []string) ([]changes.Change, error) {
	body, err := json.Marshal(map[string][]string{"doc_ids": ids})
	if err != nil {
		return nil, fmt.Errorf("ask for documents: %w", err)
	}
	q := s.query(feedNormal, "")
	q.Set("filter", "_doc_ids")
	st, err := s.client.ask(ctx, q, body, s.opts.Timeout)
	if err != nil {
		return nil, err
	}
	defer func() { _ = st.Close() }()
	r := &rows{lines: newLines(st, s.opts.MaxRowBytes)}
	p := &parser{includeDesign: true}
	var b batch
	for {
		raw, bad, err := r.next()
		switch {
		case errors.Is(err, io.EOF):
			if err := s.verify(ctx); err != nil {
				return nil, err
			}
			return b.Changes, s.complete(ctx, &b)
		case err != nil:
			return nil, s.client.fail("read documents of", err)
		}
		c, _ := p.change(&r.envelope, raw, bad)
		b.add(c, int64(len(raw)))
	}
}
