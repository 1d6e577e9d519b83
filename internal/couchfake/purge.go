package couchfake

import (
	"net/http"
	"strconv"
)

// purge answers POST /db/_purge: {"id":["rev",…],…}.
func (x *exchange) purge() error {
	if err := x.admin(); err != nil {
		return err
	}
	if err := x.allow(http.MethodPost); err != nil {
		return err
	}
	body, err := x.jsonBody()
	if err != nil {
		return err
	}
	clean, members, err := normalizeJSON(body)
	if err != nil {
		return err
	}
	b := []byte(`{"purge_seq":null,"purged":{`)
	for i, m := range members {
		revs, err := parseRevs(clean[m.valStart:m.valEnd])
		if err != nil {
			return err
		}
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, clean[m.keyStart:m.keyEnd]...)
		b = append(b, ':')
		b = appendRevs(b, x.db.purge(text(clean[m.keyStart:m.keyEnd]), revs))
	}
	x.json(http.StatusCreated, append(b, "}}\n"...))
	return nil
}

func parseRevs(list []byte) ([]Rev, error) {
	names, err := stringList(list)
	if err != nil {
		return nil, err
	}
	var revs []Rev
	for _, s := range names {
		r, err := ParseRev(s)
		if err != nil {
			return nil, errBadRev
		}
		revs = append(revs, r)
	}
	return revs, nil
}

func appendRevs(b []byte, revs []Rev) []byte {
	b = append(b, '[')
	for i, r := range revs {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendString(b, r.String())
	}
	return append(b, ']')
}

// purgedInfos answers GET /db/_purged_infos: what the last purges named, whether it was there or not.
func (x *exchange) purgedInfos() error {
	if err := x.allow(http.MethodGet); err != nil {
		return err
	}
	x.db.mu.RLock()
	defer x.db.mu.RUnlock()
	b := []byte(`{"purged_infos":[`)
	for i, p := range x.db.purges {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, `{"id":`...)
		b = appendString(b, p.id)
		b = append(b, `,"revs":`...)
		b = appendRevs(b, p.revs)
		b = append(b, '}')
	}
	x.json(http.StatusOK, append(b, "]}\n"...))
	return nil
}

// purgedInfosLimit answers GET /db/_purged_infos_limit.
func (x *exchange) purgedInfosLimit() error {
	if err := x.allow(http.MethodGet); err != nil {
		return err
	}
	x.json(http.StatusOK, append(strconv.AppendInt(nil, maxPurgedInfos, 10), '\n'))
	return nil
}
