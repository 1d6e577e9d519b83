package couchfake

import (
	"maps"
	"net/http"
	"slices"
	"strconv"
)

// localDoc is a document that is never replicated and never in a feed.
type localDoc struct {
	gen  int
	body []byte
}

func (l *localDoc) rev() string { return "0-" + strconv.Itoa(l.gen) }

// localDocument answers /db/_local/id.
func (x *exchange) localDocument() error {
	if err := checkID(x.id); err != nil {
		return err
	}
	switch x.r.Method {
	case http.MethodGet, http.MethodHead:
		x.db.mu.RLock()
		defer x.db.mu.RUnlock()
		l, ok := x.db.local[x.id]
		if !ok {
			return errMissing
		}
		b := append([]byte(`{"_id":`), appendString(nil, x.id)...)
		b = append(b, `,"_rev":"`+l.rev()+`"`...)
		b = append(b, l.body...)
		x.json(http.StatusOK, append(b, '}', '\n'))
		return nil
	case http.MethodPut:
		body, err := x.body()
		if err != nil {
			return err
		}
		w, err := parseDocument(body, x.id)
		if err != nil {
			return err
		}
		return x.storeLocal(w, http.StatusCreated)
	case http.MethodDelete:
		return x.storeLocal(write{id: x.id, deleted: true}, http.StatusOK)
	}
	return x.allow(http.MethodDelete, http.MethodGet, http.MethodHead, http.MethodPut)
}

func (x *exchange) storeLocal(w write, status int) error {
	if err := x.mergeRev(&w); err != nil {
		return err
	}
	x.db.mu.Lock()
	rev, err := x.db.putLocal(w)
	x.db.mu.Unlock()
	if err != nil {
		return err
	}
	if status == http.StatusCreated {
		x.locate(x.database, x.id)
	}
	x.json(status, append(appendWritten(nil, x.id, rev), '\n'))
	return nil
}

// putLocal writes a local document, whose present revision must be named. The caller holds the lock.
func (db *Database) putLocal(w write) (string, error) {
	old := db.local[w.id]
	named := ""
	if len(w.path) > 0 {
		named = w.path[0].String()
	}
	switch {
	case old == nil && w.deleted:
		return "", errMissing
	case old != nil && named != old.rev():
		return "", errConflict
	case w.deleted:
		delete(db.local, w.id)
		return "0-0", nil
	}
	l := &localDoc{gen: 1, body: w.body}
	if old != nil {
		l.gen = old.gen + 1
	}
	db.local[w.id] = l
	return l.rev(), nil
}

// localDocs answers GET /db/_local_docs.
func (x *exchange) localDocs() error {
	if err := x.allow(http.MethodGet, http.MethodHead); err != nil {
		return err
	}
	x.db.mu.RLock()
	defer x.db.mu.RUnlock()
	b := []byte(`{"total_rows":null,"offset":null,"rows":[` + "\r\n")
	for i, id := range slices.Sorted(maps.Keys(x.db.local)) {
		if i > 0 {
			b = append(b, ",\r\n"...)
		}
		b = append(b, `{"id":`...)
		b = appendString(b, id)
		b = append(b, `,"key":`...)
		b = appendString(b, id)
		b = append(b, `,"value":{"rev":"`+x.db.local[id].rev()+`"}}`...)
	}
	x.json(http.StatusOK, append(b, "\r\n]}\n"...))
	return nil
}
