package couchfake

import (
	"net/http"
	"strings"
)

var errNoPath = badRequest("When `new_edits: false`, the document needs `_rev` or `_revisions` specified")

// bulkDocs answers POST /db/_bulk_docs.
func (x *exchange) bulkDocs() error {
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
	if !ok {
		return badRequest("POST body must include `docs` parameter.")
	}
	if list[0] != '[' {
		return badRequest("`docs` parameter must be an array.")
	}
	replicated := string(top["new_edits"]) == "false"
	writes, err := x.parseBulk(elements(list), replicated)
	if err != nil {
		return err
	}
	x.json(http.StatusCreated, x.db.writeAll(writes, replicated))
	return nil
}

// parseBulk reads all documents first: one that cannot be refuses the whole request.
func (x *exchange) parseBulk(docs [][]byte, replicated bool) ([]write, error) {
	writes := make([]write, 0, len(docs))
	for _, raw := range docs {
		w, err := parseDocument(raw, "")
		if err != nil {
			return nil, err
		}
		switch {
		case int64(len(raw)) > x.s.opts.MaxDocumentSize:
			return nil, errTooLarge
		case replicated && len(w.path) == 0:
			return nil, errNoPath
		case w.id == "":
			w.id = string(appendHex(nil, newUUID()))
		}
		if err := x.db.checkPartition(w.id); err != nil {
			return nil, err
		}
		writes = append(writes, w)
	}
	return writes, nil
}

// writeAll writes the documents in their order. With new_edits=false only what was refused is told.
func (db *Database) writeAll(writes []write, replicated bool) []byte {
	db.mu.Lock()
	defer db.mu.Unlock()
	b := []byte{'['}
	for _, w := range writes {
		rev, err := db.writeOne(w, replicated)
		if err == nil && replicated {
			continue
		}
		if len(b) > 1 {
			b = append(b, ',')
		}
		if err == nil {
			b = appendWritten(b, w.id, rev)
			continue
		}
		b = appendRefused(b, w, replicated, err)
	}
	return append(b, ']', '\n')
}

func (db *Database) writeOne(w write, replicated bool) (string, error) {
	if strings.HasPrefix(w.id, "_local/") {
		return db.putLocal(w)
	}
	if replicated {
		return "", db.replicateLocked(w)
	}
	rev, err := db.editLocked(w)
	return rev.String(), err
}

func appendRefused(b []byte, w write, replicated bool, err error) []byte {
	f := asFailure(err)
	b = append(b, `{"id":`...)
	b = appendString(b, w.id)
	if replicated {
		b = append(b, `,"rev":`...)
		b = appendString(b, w.path[0].String())
	}
	b = append(b, `,"error":`...)
	b = appendString(b, f.name)
	b = append(b, `,"reason":`...)
	b = appendString(b, f.reason)
	return append(b, '}')
}
