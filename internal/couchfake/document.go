package couchfake

import (
	"bytes"
	"net/http"
	"slices"
	"strings"
)

// document answers /db/id.
func (x *exchange) document() error {
	if err := checkID(x.id); err != nil {
		return err
	}
	switch x.r.Method {
	case http.MethodGet, http.MethodHead:
		return x.getDocument()
	case http.MethodPut:
		return x.putDocument()
	case http.MethodDelete:
		return x.deleteDocument()
	}
	return x.allow(http.MethodDelete, http.MethodGet, http.MethodHead, http.MethodPut)
}

func (x *exchange) extras() extras {
	e := extras{
		revs: x.flag("revs"), revsInfo: x.flag("revs_info"), conflicts: x.flag("conflicts"),
		deletedConflicts: x.flag("deleted_conflicts"), localSeq: x.flag("local_seq"),
	}
	if x.flag("meta") {
		e.revsInfo, e.conflicts, e.deletedConflicts = true, true, true
	}
	return e
}

func (x *exchange) getDocument() error {
	if v := x.query.Get("open_revs"); v != "" {
		return x.openRevs(v)
	}
	rev, err := x.queryRev()
	if err != nil {
		return err
	}
	e := x.extras()
	x.db.mu.RLock()
	n, body, err := x.db.read(x.id, rev, e, x.flag("latest"))
	x.db.mu.RUnlock()
	if err != nil {
		return err
	}
	if !e.any() {
		etag := `"` + n.String() + `"`
		x.w.Header().Set("ETag", etag)
		if x.r.Header.Get("If-None-Match") == etag {
			x.w.WriteHeader(http.StatusNotModified)
			return nil
		}
	}
	x.json(http.StatusOK, append(body, '\n'))
	return nil
}

// queryRev is the revision that the query names, or the zero revision.
func (x *exchange) queryRev() (Rev, error) {
	v := x.query.Get("rev")
	if v == "" {
		return Rev{}, nil
	}
	r, err := ParseRev(v)
	if err != nil {
		return Rev{}, errBadRev
	}
	return r, nil
}

// read renders the winner, or one revision. The caller holds the lock.
func (db *Database) read(id string, rev Rev, e extras, latest bool) (Rev, []byte, error) {
	d := db.docs[id]
	if d == nil {
		return Rev{}, nil, errMissing
	}
	n := d.winner()
	switch {
	case rev.Hash != "":
		n = d.find(rev)
		if n != nil && latest {
			n = d.heir(n)
		}
		if n == nil || !n.known {
			return Rev{}, nil, errMissing
		}
	case n.deleted:
		return Rev{}, nil, errDeleted
	}
	return n.rev(), appendDocument(nil, d, n, e), nil
}

// heir is the best leaf that descends from a revision.
func (d *document) heir(n *node) *node {
	for _, leaf := range d.leaves {
		for a := leaf; a != nil; a = a.parent {
			if a == n {
				return leaf
			}
		}
	}
	return n
}

// openRevs answers ?open_revs=all or a list of revisions.
func (x *exchange) openRevs(want string) error {
	var revs []string
	if want != "all" {
		list, _, err := normalizeJSON([]byte(want))
		if err != nil {
			return err
		}
		if revs, err = stringList(list); err != nil {
			return err
		}
	}
	e := x.extras()
	x.db.mu.RLock()
	defer x.db.mu.RUnlock()
	d := x.db.docs[x.id]
	var parts [][]byte
	if want == "all" {
		if d == nil {
			return errMissing
		}
		for _, n := range d.inOrder() {
			parts = append(parts, append(appendDocument([]byte(`{"ok":`), d, n, e), '}'))
		}
	}
	for _, s := range revs {
		r, err := ParseRev(s)
		if err != nil {
			return errBadRev
		}
		if d != nil {
			if n := d.find(r); n != nil && n.known {
				parts = append(parts, append(appendDocument([]byte(`{"ok":`), d, n, e), '}'))
				continue
			}
		}
		parts = append(parts, append(appendString([]byte(`{"missing":`), r.String()), '}'))
	}
	x.json(http.StatusOK, slices.Concat([]byte{'['}, bytes.Join(parts, []byte{','}), []byte("]\n")))
	return nil
}

func (x *exchange) putDocument() error {
	body, err := x.body() // of any content type, as on a real server
	if err != nil {
		return err
	}
	return x.store(body, x.id)
}

// postDocument answers POST /db: a document whose id the body gives, or the server.
func (x *exchange) postDocument() error {
	body, err := x.jsonBody()
	if err != nil {
		return err
	}
	w, err := parseDocument(body, "")
	if err != nil {
		return err
	}
	if w.id == "" {
		w.id = string(appendHex(nil, newUUID()))
	}
	x.id = w.id
	return x.storeWrite(w, len(body))
}

func (x *exchange) store(body []byte, id string) error {
	w, err := parseDocument(body, id)
	if err != nil {
		return err
	}
	return x.storeWrite(w, len(body))
}

func (x *exchange) storeWrite(w write, size int) error {
	if int64(size) > x.s.opts.MaxDocumentSize {
		return errTooLarge
	}
	if err := x.db.checkPartition(w.id); err != nil {
		return err
	}
	if err := x.mergeRev(&w); err != nil {
		return err
	}
	if x.query.Get("new_edits") == "false" {
		return x.storeReplica(w)
	}
	rev, err := x.db.edit(w)
	if err != nil {
		return err
	}
	status := http.StatusCreated
	if w.deleted {
		status = http.StatusOK
	}
	x.written(status, rev)
	return nil
}

// mergeRev takes the revision of the query or of If-Match, which must not contradict that of the body.
func (x *exchange) mergeRev(w *write) error {
	rev, err := x.queryRev()
	if err != nil {
		return err
	}
	if m := strings.Trim(x.r.Header.Get("If-Match"), `"`); m != "" && rev.Hash == "" {
		if rev, err = ParseRev(m); err != nil {
			return errBadRev
		}
	}
	switch {
	case rev.Hash == "":
	case len(w.path) == 0:
		w.path = []Rev{rev}
	case w.path[0] != rev:
		return badRequest("Document rev from request body and query string have different values")
	}
	return nil
}

func (x *exchange) storeReplica(w write) error {
	if len(w.path) == 0 {
		return errNoPath
	}
	if err := x.db.replicate(w); err != nil {
		return err
	}
	x.written(http.StatusCreated, w.path[0])
	return nil
}

// written answers a write of one document.
func (x *exchange) written(status int, rev Rev) {
	x.w.Header().Set("ETag", `"`+rev.String()+`"`)
	if x.r.Method != http.MethodDelete {
		x.locate(x.database, x.id)
	}
	x.json(status, append(appendWritten(nil, x.id, rev.String()), '\n'))
}

func appendWritten(b []byte, id, rev string) []byte {
	b = append(b, `{"ok":true,"id":`...)
	b = appendString(b, id)
	b = append(b, `,"rev":`...)
	b = appendString(b, rev)
	return append(b, '}')
}

func (x *exchange) deleteDocument() error {
	x.db.mu.RLock()
	_, _, err := x.db.read(x.id, Rev{}, extras{}, false)
	x.db.mu.RUnlock()
	if err != nil {
		return err
	}
	w := write{id: x.id, deleted: true}
	if err := x.mergeRev(&w); err != nil {
		return err
	}
	rev, err := x.db.edit(w)
	if err != nil {
		return err
	}
	x.written(http.StatusOK, rev)
	return nil
}
