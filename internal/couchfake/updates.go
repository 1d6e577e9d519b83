package couchfake

import (
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"
)

// Kinds of what _db_updates tells of a database.
const (
	updateCreated = "created"
	updateUpdated = "updated"
	updateDeleted = "deleted"
)

// updates is what _db_updates tells: of each database and kind the latest one.
type updates struct {
	mu      sync.Mutex
	last    int
	list    []dbUpdate // in the order of their numbers
	changed chan struct{}
}

type dbUpdate struct {
	db, kind string
	seq      int
}

// tell adds one in the place of an earlier one of its kind.
func (u *updates) tell(db, kind string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.list = slices.DeleteFunc(u.list, func(o dbUpdate) bool { return o.db == db && o.kind == kind })
	u.last++
	u.list = append(u.list, dbUpdate{db, kind, u.last})
	if u.changed != nil {
		close(u.changed)
		u.changed = nil
	}
}

// since is what came after a number, and a channel that is closed with the next one.
func (u *updates) since(seq int) (list []dbUpdate, last int, next <-chan struct{}) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, o := range u.list {
		if o.seq > seq {
			list = append(list, o)
		}
	}
	if u.changed == nil {
		u.changed = make(chan struct{})
	}
	return list, u.last, u.changed
}

// dbUpdates answers GET /_db_updates, as a list or by long polling.
func (x *exchange) dbUpdates() error {
	if err := x.admin(); err != nil {
		return err
	}
	if err := x.allow(http.MethodGet, http.MethodHead); err != nil {
		return err
	}
	from := 0
	switch since := x.query.Get("since"); since {
	case "", "0":
	case "now":
		_, from, _ = x.s.updates.since(0)
	default:
		n, err := strconv.Atoi(since[:max(0, len(since)-len(updateTail))])
		if err != nil {
			return badRequest("Malformed sequence supplied in 'since' parameter.")
		}
		from = n
	}
	list, last, next := x.s.updates.since(from)
	if x.query.Get("feed") == "longpoll" && len(list) == 0 {
		wait := time.Minute
		if ms, err := strconv.Atoi(x.query.Get("timeout")); err == nil {
			wait = time.Duration(ms) * time.Millisecond
		}
		t := time.NewTimer(wait)
		defer t.Stop()
		select {
		case <-next:
		case <-t.C:
		case <-x.r.Context().Done():
		case <-x.closing:
		}
		list, last, _ = x.s.updates.since(from)
	}
	b := []byte(`{"results":[` + "\n")
	for i, o := range list {
		if i > 0 {
			b = append(b, ",\r\n"...)
		}
		b = appendString(append(b, `{"db_name":`...), o.db)
		b = append(b, `,"type":"`+o.kind+`","seq":"`+strconv.Itoa(o.seq)+updateTail+`"}`...)
	}
	b = append(b, "\n],\n\"last_seq\":\""+strconv.Itoa(last)+updateTail+"\"}\n\n"...)
	x.json(http.StatusOK, b)
	return nil
}

// updateTail makes a sequence of a number.
const updateTail = "-g1AAAACX"
