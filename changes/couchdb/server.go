package couchdb

import (
	"context"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-kivik/kivik/v4/couchdb/chttp"
)

// Server says which databases a server has, and which of them were changed.
type Server struct{ client *client }

// OpenServer prepares to ask a server. The options are a Source's, but that the URL
// is the server's: what stands behind the host is the path of a proxy.
func OpenServer(ctx context.Context, o Options) (*Server, error) {
	o.URL = strings.TrimSuffix(o.URL, "/") + "/x"
	where, err := parseAddress(o.URL)
	if err != nil {
		return nil, err
	}
	where.db = ""
	o = o.withDefaults()
	if err := o.validate(); err != nil {
		return nil, err
	}
	if o.TLS, err = o.tlsConfig(where); err != nil {
		return nil, err
	}
	s := &Server{client: newClient(o, where)}
	if _, err := s.client.session(ctx); err != nil {
		return nil, err
	}
	return s, nil
}

// Databases are the names of all databases. It retries until ctx is done; a user who
// may not list them is changes.ErrUnauthorized.
func (s *Server) Databases(ctx context.Context) ([]string, error) {
	var names []string
	err := s.client.persist(ctx, func() error {
		names = nil
		return s.get(ctx, "list the databases of", "_all_dbs", nil, s.client.opts.Timeout, &names)
	})
	return names, err
}

// Updates waits for updates after a sequence, "now" at first, for as long as wait,
// and returns the names of the databases that were created, changed or deleted, with
// the sequence to go on from. It is for administrators of the
// server. It does not retry.
func (s *Server) Updates(ctx context.Context, since string, wait time.Duration) ([]string, string, error) {
	var found struct {
		Results []struct {
			Name string `json:"db_name"`
		} `json:"results"`
		Last string `json:"last_seq"`
	}
	query := url.Values{"feed": {"longpoll"}, "since": {since}, "timeout": {strconv.FormatInt(wait.Milliseconds(), 10)}}
	if err := s.get(ctx, "read the updates of", "_db_updates", query, wait+s.client.opts.Timeout, &found); err != nil {
		return nil, since, err
	}
	var names []string
	for _, r := range found.Results {
		names = append(names, r.Name)
	}
	slices.Sort(names)
	return slices.Compact(names), found.Last, nil
}

func (s *Server) get(ctx context.Context, op, path string, query url.Values, quiet time.Duration, into any) error {
	return s.client.with(ctx, func(in *session) error {
		ctx, cancel := context.WithTimeoutCause(ctx, quiet, errSilent)
		defer cancel()
		resp, err := s.client.request(ctx, in, path, query, nil)
		if err != nil {
			return s.client.fail(op, caused(ctx, err))
		}
		defer func() { _ = resp.Body.Close() }()
		if err := chttp.DecodeJSON(resp, into); err != nil {
			return s.client.fail(op, caused(ctx, err))
		}
		return nil
	})
}

// Close lets go of the connections.
func (s *Server) Close() error {
	s.client.door.close()
	return nil
}
