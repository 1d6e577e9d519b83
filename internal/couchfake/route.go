package couchfake

import (
	"net/http"
	"net/url"
	"strings"
)

// handler answers an exchange, or says why not.
type handler func(*exchange) error

// route finds out what a request is for. It never fails: what cannot be is told by the handler, so that an order can still spoil it.
func (x *exchange) route() handler {
	raw := strings.Split(strings.TrimPrefix(x.r.URL.EscapedPath(), "/"), "/")
	parts := make([]string, 0, len(raw))
	for _, p := range raw {
		s, err := url.PathUnescape(strings.ReplaceAll(p, "+", " ")) // a plus in a path is a blank to CouchDB
		if err != nil {
			return func(*exchange) error { return badRequest("Invalid path") }
		}
		parts = append(parts, s)
	}
	if len(parts) > 1 && parts[len(parts)-1] == "" {
		parts = parts[:len(parts)-1]
	}
	switch parts[0] {
	case "":
		x.endpoint = Welcome
		return (*exchange).welcome
	case "_up":
		x.endpoint = Up
		return (*exchange).up
	case "_session":
		x.endpoint = Session
		return (*exchange).session
	case "_all_dbs":
		x.endpoint = AllDBs
		return (*exchange).allDBs
	case "_db_updates":
		x.endpoint = DBUpdates
		return (*exchange).dbUpdates
	}
	x.database = parts[0]
	return x.routeDatabase(parts[1:])
}

func (x *exchange) routeDatabase(parts []string) handler {
	if len(parts) == 0 {
		x.endpoint = Info
		return (*exchange).databaseItself
	}
	first := parts[0]
	if h, ok := endpoints()[Endpoint(first)]; ok && len(parts) == 1 {
		x.endpoint = Endpoint(first)
		return inside(h)
	}
	if (first == "_design" || first == "_local") && len(parts) > 1 {
		parts = append([]string{first + "/" + parts[1]}, parts[2:]...)
	}
	x.id = parts[0]
	switch {
	case strings.HasPrefix(x.id, "_local/"):
		x.endpoint = LocalDoc
		return inside((*exchange).localDocument)
	case len(parts) == 1:
		x.endpoint = Document
		return inside((*exchange).document)
	case first == "_partition":
		return inside(func(*exchange) error { return errMissing })
	}
	x.endpoint = Attachment
	x.attach = strings.Join(parts[1:], "/")
	return inside((*exchange).attachment)
}

// endpoints are those below a database.
func endpoints() map[Endpoint]handler {
	return map[Endpoint]handler{
		Changes:               (*exchange).changes,
		AllDocs:               (*exchange).allDocs,
		BulkDocs:              (*exchange).bulkDocs,
		BulkGet:               (*exchange).bulkGet,
		PurgedInfos:           (*exchange).purgedInfos,
		"_purged_infos_limit": (*exchange).purgedInfosLimit,
		"_purge":              (*exchange).purge,
		"_security":           (*exchange).security,
		"_compact":            (*exchange).compact,
		"_revs_limit":         (*exchange).revsLimit,
		"_revs_diff":          (*exchange).revsDiff,
		"_local_docs":         (*exchange).localDocs,
		"_shards":             (*exchange).shards,
		"_ensure_full_commit": (*exchange).ensureFullCommit,
	}
}

// inside looks the database up and checks that the user may see it.
func inside(h handler) handler {
	return func(x *exchange) error {
		if err := x.open(); err != nil {
			return err
		}
		return h(x)
	}
}

func (x *exchange) open() error {
	db, ok := x.s.Database(x.database)
	if !ok {
		return errNoDatabase
	}
	x.db = db
	return x.member()
}

func (x *exchange) welcome() error {
	if err := x.allow(http.MethodGet, http.MethodHead); err != nil {
		return err
	}
	b := []byte(`{"couchdb":"Welcome","version":"3.5.0","git_sha":"11f0d36","uuid":"`)
	b = appendHex(b, x.s.uuid)
	b = append(b, `","features":["access-ready","partitioned","pluggable-storage-engines","reshard","scheduler"],"vendor":{"name":"couch2hudi stand-in"}}`...)
	x.json(http.StatusOK, append(b, '\n'))
	return nil
}

func (x *exchange) up() error {
	if err := x.allow(http.MethodGet, http.MethodHead); err != nil {
		return err
	}
	x.json(http.StatusOK, []byte(`{"status":"ok","seeds":{}}`+"\n"))
	return nil
}
