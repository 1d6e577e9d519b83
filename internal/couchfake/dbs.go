package couchfake

import (
	"encoding/hex"
	"maps"
	"net/http"
	"slices"
	"strconv"
)

func okBody() []byte { return []byte(`{"ok":true}` + "\n") }

func appendHex(b []byte, raw string) []byte { return hex.AppendEncode(b, []byte(raw)) }

// databaseItself answers PUT, DELETE, GET and POST /db.
func (x *exchange) databaseItself() error {
	switch x.r.Method {
	case http.MethodPut:
		return x.createDatabase()
	case http.MethodDelete:
		return x.deleteDatabase()
	case http.MethodGet, http.MethodHead:
		if err := x.open(); err != nil {
			return err
		}
		x.json(http.StatusOK, x.db.info())
		return nil
	case http.MethodPost:
		if err := x.open(); err != nil {
			return err
		}
		return x.postDocument()
	}
	return x.allow(http.MethodDelete, http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut)
}

func (x *exchange) createDatabase() error {
	if err := x.admin(); err != nil {
		return err
	}
	if !legalName(x.database) {
		return &failure{status: http.StatusBadRequest, name: "illegal_database_name", reason: "Name: '" + x.database +
			"'. Only lowercase characters (a-z), digits (0-9), and any of the characters _, $, (, ), +, -, and / are allowed. Must begin with a letter."}
	}
	q := x.s.opts.Shards
	if v := x.query.Get("q"); v != "" {
		n, err := strconv.Atoi(v)
		if err != nil || n < 1 || n > 256 {
			return badRequest("The `q` parameter must be a positive integer.")
		}
		q = n
	}
	db, err := x.s.CreateSharded(x.database, q)
	if err != nil {
		return errExists
	}
	if x.flag("partitioned") {
		db.mu.Lock()
		db.partitioned = true
		db.mu.Unlock()
	}
	x.locate(x.database)
	x.json(http.StatusCreated, okBody())
	return nil
}

func (x *exchange) deleteDatabase() error {
	if err := x.admin(); err != nil {
		return err
	}
	if err := x.s.Drop(x.database); err != nil {
		return errNoDatabase
	}
	x.json(http.StatusOK, okBody())
	return nil
}

// legalName checks the name of a database.
func legalName(s string) bool {
	if s == "_users" || s == "_replicator" || s == "_global_changes" {
		return true
	}
	for i := range len(s) {
		switch c := s[i]; {
		case c >= 'a' && c <= 'z':
		case i > 0 && (c >= '0' && c <= '9' || c == '_' || c == '$' || c == '(' || c == ')' || c == '+' || c == '-' || c == '/'):
		default:
			return false
		}
	}
	return s != ""
}

// info is the body of GET /db. The sizes are those of the bodies.
func (db *Database) info() []byte {
	db.mu.RLock()
	defer db.mu.RUnlock()
	b := []byte(`{"instance_start_time":"`)
	b = strconv.AppendInt(b, db.born, 10)
	b = append(b, `","db_name":`...)
	b = appendString(b, db.name)
	b = append(b, `,"purge_seq":`...)
	purges := make(position, len(db.shards))
	purges[0] = db.purgeNo
	b = db.seqs(0).append(b, purges)
	b = append(b, `,"update_seq":`...)
	b = db.seqs(len(db.shards)-1).append(b, db.end())
	b = append(b, `,"sizes":{"file":`...)
	b = strconv.AppendInt(b, 8349*int64(len(db.shards))+db.bytes+db.old, 10)
	b = append(b, `,"external":`...)
	b = strconv.AppendInt(b, db.bytes, 10)
	b = append(b, `,"active":`...)
	b = strconv.AppendInt(b, db.bytes, 10)
	b = append(b, `},"props":{`...)
	if db.partitioned {
		b = append(b, `"partitioned":true`...)
	}
	b = append(b, `},"doc_del_count":`...)
	b = strconv.AppendInt(b, int64(db.dead), 10)
	b = append(b, `,"doc_count":`...)
	b = strconv.AppendInt(b, int64(db.live), 10)
	b = append(b, `,"disk_format_version":8,"compact_running":false,"cluster":{"q":`...)
	b = strconv.AppendInt(b, int64(len(db.shards)), 10)
	return append(b, `,"n":1,"w":1,"r":1}}`+"\n"...)
}

// allDBs answers GET /_all_dbs.
func (x *exchange) allDBs() error {
	if err := x.admin(); err != nil {
		return err
	}
	if err := x.allow(http.MethodGet, http.MethodHead); err != nil {
		return err
	}
	x.s.mu.Lock()
	names := slices.Sorted(maps.Keys(x.s.databases))
	x.s.mu.Unlock()
	b := []byte{'['}
	for i, n := range names {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendString(b, n)
	}
	x.json(http.StatusOK, append(b, ']', '\n'))
	return nil
}

// shards answers GET /db/_shards: all on one made-up node.
func (x *exchange) shards() error {
	q := uint64(len(x.db.shards))
	b := []byte(`{"shards":{`)
	for i := range q {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, '"')
		b = appendHex32(b, i<<32/q)
		b = append(b, '-')
		b = appendHex32(b, (i+1)<<32/q-1)
		b = append(b, `":["fake@127.0.0.1"]`...)
	}
	x.json(http.StatusOK, append(b, "}}\n"...))
	return nil
}

func appendHex32(b []byte, v uint64) []byte {
	return hex.AppendEncode(b, []byte{byte(v >> 24), byte(v >> 16), byte(v >> 8), byte(v)})
}

// ensureFullCommit answers POST /db/_ensure_full_commit, which has long been without effect.
func (x *exchange) ensureFullCommit() error {
	if err := x.allow(http.MethodPost); err != nil {
		return err
	}
	x.json(http.StatusCreated, []byte(`{"ok":true,"instance_start_time":"`+x.db.StartTime()+`"}`+"\n"))
	return nil
}

// compact answers POST /db/_compact.
func (x *exchange) compact() error {
	if err := x.admin(); err != nil {
		return err
	}
	if err := x.allow(http.MethodPost); err != nil {
		return err
	}
	x.db.Compact()
	x.json(http.StatusAccepted, okBody())
	return nil
}

// revsLimit answers GET and PUT /db/_revs_limit.
func (x *exchange) revsLimit() error {
	if err := x.allow(http.MethodGet, http.MethodPut); err != nil {
		return err
	}
	if x.r.Method == http.MethodGet {
		x.db.mu.RLock()
		limit := x.db.limit
		x.db.mu.RUnlock()
		x.json(http.StatusOK, append(strconv.AppendInt(nil, int64(limit), 10), '\n'))
		return nil
	}
	body, err := x.body()
	if err != nil {
		return err
	}
	n, err := strconv.Atoi(string(body))
	if err != nil || n < 1 {
		return badRequest("`_revs_limit` must be a positive integer")
	}
	x.db.mu.Lock()
	x.db.limit = n
	x.db.mu.Unlock()
	x.json(http.StatusOK, okBody())
	return nil
}
