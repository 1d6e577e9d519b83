package couchfake

import (
	"errors"
	"net/http"
)

// bulkGet answers POST /db/_bulk_get.
func (x *exchange) bulkGet() error {
	if err := x.allow(http.MethodPost); err != nil {
		return err
	}
	body, err := x.jsonBody()
	if err != nil {
		return err
	}
	top, err := fields(body)
	if err != nil {
		return err
	}
	list, ok := top["docs"]
	if !ok || list[0] != '[' {
		return badRequest("Missing JSON list of 'docs'.")
	}
	e, latest := x.extras(), x.flag("latest")
	x.db.mu.RLock()
	defer x.db.mu.RUnlock()
	b := []byte(`{"results":[`)
	for i, raw := range elements(list) {
		if i > 0 {
			b = append(b, ',')
		}
		f, err := fields(raw)
		if err != nil {
			return err
		}
		if b, err = x.db.appendBulkGet(b, f, e, latest); err != nil {
			return err
		}
	}
	x.json(http.StatusOK, append(b, "]}\n"...))
	return nil
}

func (db *Database) appendBulkGet(b []byte, f map[string][]byte, e extras, latest bool) ([]byte, error) {
	if len(f["id"]) == 0 || f["id"][0] != '"' {
		return nil, badRequest("Missing id of a document.")
	}
	id := text(f["id"])
	b = append(b, `{"id":`...)
	b = appendString(b, id)
	b = append(b, `,"docs":[`...)
	rev := "undefined"
	if v := f["rev"]; len(v) > 0 && v[0] == '"' {
		rev = text(v)
	}
	nodes, err := db.leavesFor(id, rev, latest)
	switch {
	case err != nil:
		fail := asFailure(err)
		b = append(b, `{"error":{"rev":`...)
		b = appendString(b, rev)
		b = append(b, `,"reason":`...)
		b = appendString(b, fail.reason)
		b = append(b, `,"id":`...)
		b = appendString(b, id)
		b = append(b, `,"error":`...)
		b = appendString(b, fail.name)
		b = append(b, `}}`...)
	default:
		for i, n := range nodes {
			if i > 0 {
				b = append(b, ',')
			}
			b = append(b, `{"ok":`...)
			b = appendDocument(b, db.docs[id], n, e)
			b = append(b, '}')
		}
	}
	return append(b, ']', '}'), nil
}

// leavesFor finds the revisions that one entry of _bulk_get asks for: all leaves when it names none.
func (db *Database) leavesFor(id, rev string, latest bool) ([]*node, error) {
	d := db.docs[id]
	if rev == "undefined" {
		if d == nil {
			return nil, errMissing
		}
		return d.inOrder(), nil
	}
	r, err := ParseRev(rev)
	if err != nil {
		return nil, errors.Join(errBadRev, err)
	}
	if d == nil {
		return nil, errMissing
	}
	n := d.find(r)
	if n != nil && latest {
		n = d.heir(n)
	}
	if n == nil || !n.known {
		return nil, errMissing
	}
	return []*node{n}, nil
}
