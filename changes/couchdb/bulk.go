package couchdb

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"

	"github.com/couch2hudi/couch2hudi/changes"
)

var (
	// errNoBulk: the server has no _bulk_get.
	errNoBulk = errors.New("the server has no _bulk_get")
	// errTooMuch: an answer is larger than what was left for it.
	errTooMuch = errors.New("the answer is too large")
)

// bulkAsk is one revision that _bulk_get is asked for.
type bulkAsk struct {
	ID  string `json:"id"`
	Rev string `json:"rev"`
}

// bulk asks for the documents of changes with one revision each, and puts them
// there. What is missing, or cannot be read out of the answer, stays as it was. An
// answer of more than most bytes is an errTooMuch.
func (s *Source) bulk(ctx context.Context, list []*changes.Change, most int64) error {
	if len(list) == 0 {
		return nil
	}
	asks := make([]bulkAsk, len(list))
	for i, c := range list {
		asks[i] = bulkAsk{ID: c.ID, Rev: c.Rev.String()}
	}
	body, err := json.Marshal(map[string][]bulkAsk{"docs": asks})
	if err != nil {
		return fmt.Errorf("ask for documents: %w", err)
	}
	data, err := s.client.bulkGet(ctx, body, most)
	if err != nil {
		return err
	}
	waiting := make(map[string]*changes.Change, len(list))
	for _, c := range list {
		waiting[c.ID] = c
	}
	var plain []byte
	eachBulk(data, func(id, doc []byte) {
		if plain, err = unescape(plain[:0], id); err != nil {
			return
		}
		if c := waiting[string(plain)]; c != nil && string(revOf(doc)) == c.Rev.String() {
			c.Body, c.Raw = doc, nil
		}
	})
	return nil
}

// bulkGet is the answer of _bulk_get, whole.
func (c *client) bulkGet(ctx context.Context, body []byte, most int64) (data []byte, err error) {
	st, err := c.open(ctx, "/_bulk_get", nil, body, c.opts.Timeout)
	var e *Error
	if errors.As(err, &e) && slices.Contains([]int{http.StatusNotFound, http.StatusMethodNotAllowed, http.StatusNotImplemented}, e.Status) && !namesNoDatabase(e.Reason) {
		return nil, fmt.Errorf("%w: %w", errNoBulk, err)
	}
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, st.Close()) }()
	var all bytes.Buffer
	n, err := all.ReadFrom(io.LimitReader(st, most+1))
	if err != nil {
		return nil, c.fail("read documents of", cut(err))
	}
	if n > most {
		return nil, errTooMuch
	}
	return all.Bytes(), nil
}

// eachBulk calls found with the id, still escaped, and the document of each result of
// _bulk_get that has one: {"results":[{"id":…,"docs":[{"ok":{…}}]},…]}. It stops where
// the answer is not that any more.
func eachBulk(data []byte, found func(id, doc []byte)) {
	i := blanks(data, 0)
	if i == len(data) || data[i] != '{' {
		return
	}
	key, i, err := name(data, blanks(data, i+1))
	if err != nil || string(key) != "results" || i == len(data) || data[i] != '[' {
		return
	}
	for i = blanks(data, i+1); i < len(data) && data[i] == '{'; {
		id, doc, next, err := bulkResult(data, i)
		if err != nil {
			return
		}
		if id != nil && doc != nil {
			found(id, doc)
		}
		if i = blanks(data, next); i < len(data) && data[i] == ',' {
			i = blanks(data, i+1)
		}
	}
}

// bulkResult reads one result.
func bulkResult(b []byte, i int) (id, doc []byte, next int, err error) {
	next, err = members(b, i, func(key []byte, at, end int) error {
		switch {
		case string(key) == "id" && b[at] == '"':
			id = b[at+1 : end-1]
		case string(key) == "docs" && b[at] == '[':
			if at = blanks(b, at+1); b[at] != '{' {
				return nil
			}
			_, err := members(b, at, func(key []byte, at, end int) error {
				if string(key) == "ok" && b[at] == '{' {
					doc = b[at:end:end]
				}
				return nil
			})
			return err
		}
		return nil
	})
	return id, doc, next, err
}

// members calls visit with the key and the extent of the value of each member of the
// object at i, and returns where the object ends.
func members(b []byte, i int, visit func(key []byte, at, end int) error) (int, error) {
	for i = blanks(b, i+1); i < len(b) && b[i] != '}'; {
		key, at, err := name(b, i)
		if err != nil {
			return at, err
		}
		end, err := value(b, at)
		if err != nil {
			return end, err
		}
		if err := visit(key, at, end); err != nil {
			return end, err
		}
		if i = blanks(b, end); i < len(b) && b[i] == ',' {
			i = blanks(b, i+1)
		} else if i < len(b) && b[i] != '}' {
			return i, errSyntax
		}
	}
	if i >= len(b) {
		return i, errShort
	}
	return i + 1, nil
}

// errFound ends a walk over members.
var errFound = errors.New("found")

// revOf is the revision in a document, one of its first members.
func revOf(doc []byte) (rev []byte) {
	_, _ = members(doc, 0, func(key []byte, at, end int) error {
		if string(key) == "_rev" && doc[at] == '"' {
			rev = doc[at+1 : end-1]
			return errFound
		}
		return nil
	})
	return rev
}
