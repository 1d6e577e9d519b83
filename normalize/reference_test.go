package normalize_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/big"
	"strconv"
	"strings"

	"github.com/couch2hudi/couch2hudi/changes"
)

// reference is a second normalizer: slow, by encoding/json, one rule after the
// other. It shares no code with the real one. A row is a map from column name
// to text that tells types apart.
type reference struct {
	names []string          // columns of fields, in order
	field map[string]string // field → column
	types map[string]string // column → boolean long double text json mixed
	max   int
}

type member struct{ name, raw string }

// members are a document's, the last of each name.
func members(body []byte) ([]member, error) {
	d := json.NewDecoder(bytes.NewReader(body))
	if _, err := d.Token(); err != nil {
		return nil, err
	}
	var ms []member
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return nil, err
		}
		var raw json.RawMessage
		if err := d.Decode(&raw); err != nil {
			return nil, err
		}
		for i := range ms {
			if ms[i].name == name.(string) {
				ms = append(ms[:i], ms[i+1:]...)
				break
			}
		}
		ms = append(ms, member{name.(string), string(raw)})
	}
	return ms, nil
}

// kindOf names what a JSON text is.
func kindOf(raw string) string {
	switch raw[0] {
	case 'n':
		return "null"
	case 't', 'f':
		return "boolean"
	case '"':
		return "text"
	case '{', '[':
		return "json"
	}
	if strings.ContainsAny(raw, ".eE") || raw == "-0" {
		f, err := strconv.ParseFloat(raw, 64)
		if err != nil {
			return "unfit"
		}
		said, _ := new(big.Rat).SetString(raw)
		shown, _ := new(big.Rat).SetString(strconv.FormatFloat(f, 'g', -1, 64))
		if said == nil || shown == nil || said.Cmp(shown) != 0 {
			return "unfit"
		}
		return "double"
	}
	if _, err := strconv.ParseInt(raw, 10, 64); err != nil {
		return "unfit"
	}
	return "long"
}

// held is a value as a column of that type holds it, false when it cannot.
func held(typ, raw string) (string, bool) {
	kind := kindOf(raw)
	switch {
	case typ == "mixed" && kind == "text", typ == "text" && kind == "text":
		var s string
		if err := json.Unmarshal([]byte(raw), &s); err != nil {
			return "", false
		}
		return fmt.Sprintf("%T %v", s, s), true
	case typ == "mixed", typ == "json" && kind == "json":
		return fmt.Sprintf("%T %v", raw, raw), true
	case typ == "double" && (kind == "double" || kind == "long"):
		f, err := strconv.ParseFloat(raw, 64)
		if n, isLong := new(big.Int).SetString(raw, 10); isLong && n.CmpAbs(big.NewInt(1<<53)) > 0 {
			return "", false
		}
		return fmt.Sprintf("%T %v", f, f), err == nil
	case typ == "long" && kind == "long":
		n, err := strconv.ParseInt(raw, 10, 64)
		return fmt.Sprintf("%T %v", n, n), err == nil
	case typ == "boolean" && kind == "boolean":
		return fmt.Sprintf("%T %v", true, raw), true
	}
	return "", false
}

func newReference(maxColumns int) *reference {
	return &reference{field: map[string]string{}, types: map[string]string{}, max: maxColumns}
}

// winners are the newest live bodies, in the order in which they arrived.
func winners(cs []changes.Change) []changes.Change {
	sum := func(c changes.Change) (n int64) {
		for _, l := range c.Leaves {
			n += l.Generation
		}
		return n
	}
	var won []changes.Change
	for i, c := range cs {
		best := true
		for j, o := range cs {
			if o.ID == c.ID && j != i && (sum(o) > sum(c) || (sum(o) == sum(c) && j > i)) {
				best = false
			}
		}
		if best {
			won = append(won, c)
		}
	}
	return won
}

func (r *reference) normalize(cs []changes.Change) ([]map[string]string, error) {
	won := winners(cs)
	docs := make([][]member, len(won))
	kinds := map[string]map[string]bool{}
	var appeared []string
	for i, c := range won {
		if c.Deleted {
			continue
		}
		ms, err := members(c.Body)
		if err != nil {
			return nil, err
		}
		for _, m := range ms {
			if m.name == "_id" || m.name == "_rev" {
				continue
			}
			docs[i] = append(docs[i], m)
			kind := kindOf(m.raw)
			if _, known := r.field[m.name]; known || kind == "null" || kind == "unfit" {
				continue
			}
			if kinds[m.name] == nil {
				kinds[m.name] = map[string]bool{}
				appeared = append(appeared, m.name)
			}
			kinds[m.name][kind] = true
			if n, isLong := new(big.Int).SetString(m.raw, 10); isLong && kind == "long" && n.CmpAbs(big.NewInt(1<<53)) > 0 {
				kinds[m.name]["wide"] = true
			}
		}
	}
	r.grow(appeared, kinds)
	var rows []map[string]string
	for i := range won {
		rows = append(rows, r.row(docs[i]))
	}
	return rows, nil
}

func (r *reference) grow(appeared []string, kinds map[string]map[string]bool) {
	for _, name := range appeared {
		if len(r.names) >= r.max {
			return
		}
		typ := "mixed"
		ks := kinds[name]
		if len(ks) == 2 && ks["wide"] { // long and nothing else
			delete(ks, "wide")
		}
		switch {
		case len(ks) == 1:
			for k := range ks {
				typ = k
			}
		case len(ks) == 2 && ks["long"] && ks["double"]:
			typ = "double"
		}
		r.names = append(r.names, name)
		r.field[name], r.types[name] = name, typ
	}
}

func (r *reference) row(ms []member) map[string]string {
	row := map[string]string{}
	var rescued []string
	for _, m := range ms {
		if m.raw == "null" {
			continue
		}
		if column, ok := r.field[m.name]; ok {
			if v, ok := held(r.types[column], m.raw); ok {
				row[column] = v
				continue
			}
		}
		name, err := json.Marshal(m.name)
		if err != nil {
			panic(err)
		}
		rescued = append(rescued, string(name)+":"+m.raw)
	}
	if len(rescued) > 0 {
		row["_rescued"] = "string {" + strings.Join(rescued, ",") + "}"
	}
	return row
}
