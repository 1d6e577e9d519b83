package couchdb

import (
	"context"
	"errors"
	"fmt"

	"github.com/couch2hudi/couch2hudi/changes"
)

// refetchAttempts bounds how often a document that the server fails to read
// is asked for: it must not hold up all others for ever.
const refetchAttempts = 6

// complete asks again for the documents of live rows that came without. One
// that there is not, or that the server cannot read, becomes a defect; only
// what hinders every request is an error.
func (s *Source) complete(ctx context.Context, b *batch) error {
	for i := range b.Changes {
		c := &b.Changes[i]
		if c.Body != nil || c.Deleted || c.Defect != "" {
			continue
		}
		body, err := s.refetch(ctx, c)
		if err != nil {
			return err
		}
		s.opts.Events.refetched(Refetched{ID: c.ID, Found: body != nil})
		if body != nil {
			c.Body, c.Raw = body, nil
		}
	}
	return nil
}

// refetch asks for the document of one row; nil when it cannot be had, and
// then the change says why.
func (s *Source) refetch(ctx context.Context, c *changes.Change) ([]byte, error) {
	var r retry
	for {
		body, err := s.client.document(ctx, c.ID, c.Rev.String())
		var e *Error
		switch {
		case err == nil && len(body) > 0 && body[0] == '{':
			return body, nil
		case err == nil:
			c.Defect = fmt.Sprintf("live row came without its document, and revision %s is not to be had", c.Rev)
			return nil, nil
		case errors.Is(err, errUnreadable):
			c.Defect = "live row came without its document, and asked for, it cannot be read: " + err.Error()
			return nil, nil
		case !errors.As(err, &e) || e.Status < 500:
			return nil, err
		case r.failures >= refetchAttempts-1:
			c.Defect = "live row came without its document, and asked for, the server fails: " + e.Reason
			return nil, nil
		}
		if err := s.opts.Sleep(ctx, s.client.pause(&r, err)); err != nil {
			return nil, err
		}
	}
}
