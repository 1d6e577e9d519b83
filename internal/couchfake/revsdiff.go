package couchfake

import "net/http"

// revsDiff answers POST /db/_revs_diff: which of the named revisions are not here.
func (x *exchange) revsDiff() error {
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
	x.db.mu.RLock()
	defer x.db.mu.RUnlock()
	b := []byte{'{'}
	for _, m := range members {
		revs, err := stringList(clean[m.valStart:m.valEnd])
		if err != nil {
			return err
		}
		missing := x.db.missing(text(clean[m.keyStart:m.keyEnd]), revs)
		if len(missing) == 0 {
			continue
		}
		if len(b) > 1 {
			b = append(b, ',')
		}
		b = append(b, clean[m.keyStart:m.keyEnd]...)
		b = append(b, `:{"missing":[`...)
		for i, r := range missing {
			if i > 0 {
				b = append(b, ',')
			}
			b = appendString(b, r)
		}
		b = append(b, ']')
		b = x.db.appendAncestors(b, text(clean[m.keyStart:m.keyEnd]), missing)
		b = append(b, '}')
	}
	x.json(http.StatusOK, append(b, '}', '\n'))
	return nil
}

// appendAncestors names the leaves from which the missing revisions may have come: those of a lower generation than any of them.
func (db *Database) appendAncestors(b []byte, id string, missing []string) []byte {
	d := db.docs[id]
	if d == nil {
		return b
	}
	highest := 0
	for _, s := range missing {
		if r, err := ParseRev(s); err == nil {
			highest = max(highest, r.Gen)
		}
	}
	var ancestors []Rev
	for _, n := range d.leaves {
		if int(n.gen) < highest {
			ancestors = append(ancestors, n.rev())
		}
	}
	if len(ancestors) == 0 {
		return b
	}
	b = append(b, `,"possible_ancestors":`...)
	return appendRevs(b, ancestors)
}

func (db *Database) missing(id string, revs []string) []string {
	var out []string
	for _, s := range revs {
		r, err := ParseRev(s)
		if d := db.docs[id]; err != nil || d == nil || d.find(r) == nil {
			out = append(out, s)
		}
	}
	return out
}
