package couchfake

import (
	"net/http"
	"slices"
	"sort"
	"strconv"
)

// listing is what a request of _all_docs asks for. Ids are compared as bytes; a real server collates them as ICU does.
type listing struct {
	keys                   []string
	keyed                  bool
	start, end             *string
	exclusive, descending  bool
	includeDocs, updateSeq bool
	conflicts              bool
	limit, skip            int
}

// allDocs answers GET and POST /db/_all_docs.
func (x *exchange) allDocs() error {
	if err := x.allow(http.MethodGet, http.MethodPost, http.MethodHead); err != nil {
		return err
	}
	l, err := x.listing()
	if err != nil {
		return err
	}
	x.json(http.StatusOK, x.db.list(l))
	return nil
}

func (x *exchange) listing() (listing, error) {
	l := listing{limit: -1}
	args := map[string][]byte{}
	for name, v := range x.query {
		args[name] = []byte(v[0])
	}
	if x.r.Method == http.MethodPost {
		body, err := x.jsonBody()
		if err != nil {
			return l, err
		}
		f, err := fields(body)
		if err != nil {
			return l, err
		}
		for name, v := range f {
			args[name] = v
		}
	}
	return l, l.read(args)
}

func (l *listing) read(args map[string][]byte) error {
	l.descending = string(args["descending"]) == "true"
	l.exclusive = string(args["inclusive_end"]) == "false"
	l.includeDocs = string(args["include_docs"]) == "true"
	l.conflicts = string(args["conflicts"]) == "true"
	l.updateSeq = string(args["update_seq"]) == "true"
	for _, n := range []struct {
		name string
		to   *int
	}{{"limit", &l.limit}, {"skip", &l.skip}} {
		if v, ok := args[n.name]; ok {
			i, err := strconv.Atoi(string(v))
			if err != nil {
				return &failure{status: http.StatusBadRequest, name: "query_parse_error", reason: "Invalid value for integer: " + string(v)}
			}
			*n.to = i
		}
	}
	for _, n := range []struct {
		name string
		to   **string
	}{{"startkey", &l.start}, {"start_key", &l.start}, {"endkey", &l.end}, {"end_key", &l.end}} {
		if err := l.bound(args[n.name], n.to); err != nil {
			return err
		}
	}
	if v, ok := args["key"]; ok {
		if err := l.bound(v, &l.start); err != nil {
			return err
		}
		l.end = l.start
	}
	if v, ok := args["keys"]; ok {
		clean, _, err := normalizeJSON(v)
		if err != nil {
			return err
		}
		if l.keys, err = stringList(clean); err != nil {
			return badRequest("`keys` body member must be an array.")
		}
		l.keyed = true
	}
	return nil
}

func (l *listing) bound(v []byte, to **string) error {
	if len(v) == 0 {
		return nil
	}
	clean, _, err := normalizeJSON(v)
	if err != nil {
		return err
	}
	if clean[0] == '"' {
		s := text(clean)
		*to = &s
	}
	return nil
}

// sorted is the list of documents by id, made again when ids came or went. The caller holds the lock for writing.
func (db *Database) sorted() []*document {
	if db.byID == nil || len(db.byID) != len(db.docs) {
		db.byID = make([]*document, 0, len(db.docs))
		for d := range db.all() {
			db.byID = append(db.byID, d)
		}
		slices.SortFunc(db.byID, func(a, b *document) int { return compareStrings(a.id, b.id) })
	}
	return db.byID
}

func (db *Database) list(l listing) []byte {
	db.mu.Lock()
	defer db.mu.Unlock()
	if l.keyed {
		return db.listKeys(l)
	}
	return db.listRange(l, db.sorted())
}

func (db *Database) listKeys(l listing) []byte {
	b := db.openListing(l, -1)
	for i, k := range l.keys {
		if i > 0 {
			b = append(b, ",\r\n"...)
		}
		d := db.docs[k]
		if d == nil {
			b = append(b, `{"key":`...)
			b = appendString(b, k)
			b = append(b, `,"error":"not_found"}`...)
			continue
		}
		b = d.appendListed(b, l)
	}
	return append(b, "\r\n]}\n"...)
}

func (db *Database) openListing(l listing, offset int) []byte {
	b := []byte(`{"total_rows":`)
	b = strconv.AppendInt(b, int64(db.live), 10)
	b = append(b, `,"offset":`...)
	if offset < 0 {
		b = append(b, "null"...)
	} else {
		b = strconv.AppendInt(b, int64(offset), 10)
	}
	if l.updateSeq {
		b = append(b, `,"update_seq":`...)
		b = db.seqs(0).append(b, db.end())
	}
	return append(b, `,"rows":[`+"\r\n"...)
}

func (db *Database) listRange(l listing, ids []*document) []byte {
	from, to := l.bounds(ids)
	rows, n, skipped := []byte(nil), 0, 0
	for i := from; i != to; i = l.step(i) {
		d := ids[i]
		if d.winner().deleted {
			continue
		}
		if skipped < l.skip {
			skipped++
			continue
		}
		if l.limit >= 0 && n >= l.limit {
			break
		}
		if n > 0 {
			rows = append(rows, ",\r\n"...)
		}
		rows = d.appendListed(rows, l)
		n++
	}
	offset := skipped
	for i := l.first(ids); i != from; i = l.step(i) {
		if !ids[i].winner().deleted {
			offset++
		}
	}
	b := append(db.openListing(l, offset), rows...)
	return append(b, "\r\n]}\n"...)
}

func (l *listing) step(i int) int {
	if l.descending {
		return i - 1
	}
	return i + 1
}

func (l *listing) first(ids []*document) int {
	if l.descending {
		return len(ids) - 1
	}
	return 0
}

// bounds finds the first position of the range and the one behind its last, in the direction of reading.
func (l *listing) bounds(ids []*document) (from, to int) {
	low, high := l.start, l.end
	if l.descending {
		low, high = high, low
	}
	lo, hi := 0, len(ids)
	if low != nil {
		lo = sort.Search(len(ids), func(i int) bool { return ids[i].id > *low || ids[i].id == *low && (!l.descending || !l.exclusive) })
	}
	if high != nil {
		hi = sort.Search(len(ids), func(i int) bool { return ids[i].id > *high || ids[i].id == *high && l.exclusive && !l.descending })
	}
	if hi < lo {
		hi = lo
	}
	if l.descending {
		return hi - 1, lo - 1
	}
	return lo, hi
}

func (d *document) appendListed(b []byte, l listing) []byte {
	w := d.winner()
	b = append(b, `{"id":`...)
	b = appendString(b, d.id)
	b = append(b, `,"key":`...)
	b = appendString(b, d.id)
	b = append(b, `,"value":{"rev":`...)
	b = appendRev(b, w)
	if w.deleted {
		b = append(b, `,"deleted":true`...)
	}
	b = append(b, '}')
	switch {
	case !l.includeDocs:
	case w.deleted:
		b = append(b, `,"doc":null`...)
	default:
		b = append(b, `,"doc":`...)
		b = appendDocument(b, d, w, extras{conflicts: l.conflicts})
	}
	return append(b, '}')
}
