package couchfake

import (
	"slices"
	"strconv"
	"strings"
)

// scratch is the memory of one writer after another. What parse returns is valid until its next call; what is kept of it must be copied.
type scratch struct {
	norm normalizer
	body []byte
	term []byte
}

// parseDocument reads one document as a client sends it. The id comes from the URL, or when that is empty from the body.
func parseDocument(src []byte, id string) (write, error) { return new(scratch).parse(src, id) }

func (sc *scratch) parse(src []byte, id string) (write, error) {
	sc.norm.out = slices.Grow(sc.norm.out[:0], len(src)+1)
	clean, members, err := sc.norm.normalize(src)
	if err != nil {
		sc.norm.out = nil
		return write{}, err
	}
	sc.norm.out = clean
	if clean[0] != '{' {
		return write{}, badRequest("Document must be a JSON object")
	}
	p := docParser{w: write{id: id, body: slices.Grow(sc.body[:0], len(clean)), scratch: sc}, fixed: id != ""}
	for _, m := range members {
		if err := p.member(clean, m); err != nil {
			return write{}, err
		}
	}
	sc.body = p.w.body
	if p.rev.Hash != "" && len(p.w.path) == 0 {
		p.w.path = []Rev{p.rev}
	}
	return p.w, nil
}

type docParser struct {
	w     write
	rev   Rev
	fixed bool // the id is that of the URL
}

func (p *docParser) member(clean []byte, m member) error {
	key, val := clean[m.keyStart:m.keyEnd], clean[m.valStart:m.valEnd]
	if len(key) < 3 || key[1] != '_' {
		p.w.body = append(p.w.body, ',')
		p.w.body = append(p.w.body, clean[m.keyStart:m.valEnd]...)
		return nil
	}
	switch name := text(key); name {
	case "_id":
		return p.id(val)
	case "_rev":
		return p.revision(val)
	case "_revisions":
		return p.revisions(val)
	case "_deleted":
		p.w.deleted = string(val) == "true"
		if !p.w.deleted && string(val) != "false" {
			return badMember(name)
		}
	case "_attachments":
		var err error
		p.w.atts, err = parseAttachments(val)
		return err
	case "_conflicts", "_deleted_conflicts", "_revs_info", "_local_seq":
	default:
		return badMember(name)
	}
	return nil
}

func (p *docParser) id(val []byte) error {
	if p.fixed {
		return nil
	}
	if val[0] != '"' {
		return illegalID("Document id must be a string")
	}
	p.w.id = text(val)
	return checkID(p.w.id)
}

func (p *docParser) revision(val []byte) error {
	if val[0] != '"' {
		return errBadRev
	}
	r, err := ParseRev(text(val))
	if err != nil {
		return errBadRev
	}
	p.rev = r
	return nil
}

// revisions reads {"start":3,"ids":["c","b","a"]} as the path 3-c, 2-b, 1-a.
func (p *docParser) revisions(val []byte) error {
	_, members, err := normalizeJSON(val)
	if err != nil {
		return err
	}
	start := 0
	var ids []string
	for _, m := range members {
		v := val[m.valStart:m.valEnd]
		switch text(val[m.keyStart:m.keyEnd]) {
		case "start":
			if start, err = strconv.Atoi(string(v)); err != nil {
				return badMember("_revisions")
			}
		case "ids":
			if ids, err = stringList(v); err != nil {
				return badMember("_revisions")
			}
		}
	}
	if len(ids) > start {
		return badMember("_revisions")
	}
	p.w.path = p.w.path[:0]
	for i, hash := range ids {
		p.w.path = append(p.w.path, Rev{Gen: start - i, Hash: canonicalHash(hash)})
	}
	return nil
}

// checkID refuses the ids that a server refuses.
func checkID(id string) error {
	rest, design := strings.CutPrefix(id, "_design/")
	if !design {
		rest, design = strings.CutPrefix(id, "_local/")
	}
	switch {
	case id == "":
		return illegalID("Document id must not be empty")
	case design && rest == "":
		return illegalID("Illegal document id `" + id + "`")
	case !design && id[0] == '_':
		return illegalID("Only reserved document ids may start with underscore.")
	}
	return nil
}

// checkPartition refuses ids without a partition in a partitioned database.
func (db *Database) checkPartition(id string) error {
	if !db.partitioned || strings.HasPrefix(id, "_design/") || strings.HasPrefix(id, "_local/") {
		return nil
	}
	part, rest, ok := strings.Cut(id, ":")
	switch {
	case !ok:
		return illegalID("Doc id must be of form partition:id")
	case part == "":
		f := illegalID("Partition must not be empty")
		f.name = "illegal_partition"
		return f
	case rest == "":
		return illegalID("Document id must not be empty")
	}
	return nil
}

// text is the value of a normalised JSON string.
func text(q []byte) string {
	b, _ := unquote(nil, q, 0)
	return string(b)
}

// elements splits a normalised array into its values.
func elements(list []byte) [][]byte {
	if len(list) < 2 || list[0] != '[' {
		return nil
	}
	var out [][]byte
	for at := 1; at < len(list)-1; {
		end := skip(list, at)
		out = append(out, list[at:end])
		at = end + 1
	}
	return out
}

// skip finds the end of the normalised value at a position.
func skip(b []byte, at int) int {
	depth := 0
	for ; at < len(b); at++ {
		switch b[at] {
		case '"':
			for at++; b[at] != '"'; at++ {
				if b[at] == '\\' {
					at++
				}
			}
		case '{', '[':
			depth++
		case '}', ']':
			if depth == 0 {
				return at
			}
			depth--
		case ',':
			if depth == 0 {
				return at
			}
		}
	}
	return at
}

// stringList reads a normalised array of strings.
func stringList(list []byte) ([]string, error) {
	if len(list) == 0 || list[0] != '[' {
		return nil, errInvalidJSON
	}
	var out []string
	for _, e := range elements(list) {
		if e[0] != '"' {
			return nil, errInvalidJSON
		}
		out = append(out, text(e))
	}
	return out, nil
}

// fields reads a normalised object as its members' raw values by name.
func fields(src []byte) (map[string][]byte, error) {
	clean, members, err := normalizeJSON(src)
	if err != nil {
		return nil, err
	}
	if clean[0] != '{' {
		return nil, badRequest("Request body must be a JSON object")
	}
	out := make(map[string][]byte, len(members))
	for _, m := range members {
		out[text(clean[m.keyStart:m.keyEnd])] = clean[m.valStart:m.valEnd]
	}
	return out, nil
}
