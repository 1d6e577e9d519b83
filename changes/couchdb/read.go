package couchdb

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/couch2hudi/couch2hudi/changes"
)

// readAtOnce is how many documents are asked for in one request: up to 100 the
// server looks them up, beyond it reads the whole feed
// (changes_doc_ids_optimization_threshold).
const readAtOnce = 100

// Read returns the present state of single documents, as the feed would show
// them: the leaves, the winner and its document. One that the database does
// not have, or that was purged, is not among them; the order is the server's.
// It retries until ctx is done and moves no position: what it returns may be
// newer than what Next has shown.
func (s *Source) Read(ctx context.Context, ids ...string) ([]changes.Change, error) {
	ctx, leave, err := s.enter(ctx)
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
		out = append(out, got...)
		ids = ids[n:]
	}
	return out, nil
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
