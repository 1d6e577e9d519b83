package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"

	"github.com/couch2hudi/couch2hudi/internal/couchfake"
)

// stream changes a database step by step: new documents, updates, deletions,
// revivals, conflicts and their end, moved partitions, new fields, values that
// do not fit. The same seed makes the same stream.
type stream struct {
	db     *couchfake.Database
	random *rand.Rand
	ids    []string
	step   int
}

func newStream(db *couchfake.Database, seed uint64) *stream {
	return &stream{db: db, random: rand.New(rand.NewPCG(seed, 1))}
}

// hostileIDs are ids that something on the way to a reader may stumble over.
func hostileIDs() []string {
	return []string{"a:b,c:d", "😀", "ümläut", "with space", "with/slash", "with%2Fescape", `"quoted"`, `back\slash`, "0", "-1", "a=b",
		"Ω\uFFFD", "\uFB00\U0001F600", "\uFFFD", "new\nline", strings.Repeat("long", 1500), "..", "null", "x"}
}

// next makes one step: n new documents and as many changes of older ones.
func (s *stream) next(n int) error {
	if s.step == 0 {
		s.ids = append(s.ids, hostileIDs()...)
		for _, id := range s.ids {
			if _, err := s.db.Put(id, s.body()); err != nil {
				return err
			}
		}
	}
	old := len(s.ids)
	for range n {
		id := fmt.Sprintf("doc-%06d", len(s.ids))
		s.ids = append(s.ids, id)
		if _, err := s.db.Put(id, s.body()); err != nil {
			return err
		}
	}
	for range n {
		if err := s.change(s.ids[s.random.IntN(old)]); err != nil {
			return err
		}
	}
	for range n / 6 {
		if err := s.branch(s.ids[s.random.IntN(old)]); err != nil {
			return err
		}
	}
	s.step++
	return nil
}

// branch adds a branch that another replica made, from the first revision on.
func (s *stream) branch(id string) error {
	leaf := couchfake.Rev{Gen: 2 + s.random.IntN(4), Hash: fmt.Sprintf("%032x", s.random.Uint64())}
	if err := s.db.Replicate(id, []couchfake.Rev{leaf}, s.body()); err != nil {
		return fmt.Errorf("stream: branch %q: %w", id, err)
	}
	return nil
}

// change does something to one document.
func (s *stream) change(id string) error {
	d, ok := s.db.Doc(id)
	if !ok {
		return errors.New("stream: no document " + id)
	}
	var err error
	switch s.random.IntN(12) {
	case 0, 1:
		_, err = s.db.Put(id, []byte(`{"_deleted":true,"reason":"stream"}`))
	case 2:
		_, err = s.db.Delete(id)
	case 3:
		err = s.branch(id)
	case 4, 5: // the winner's branch ends: of a conflict the loser is the document then
		_, err = s.db.Edit(id, d.Winner().Rev, []byte(`{"_deleted":true}`))
		if d.Deleted() {
			_, err = s.db.Put(id, s.body())
		}
	default:
		_, err = s.db.Put(id, s.body())
	}
	if err != nil {
		return fmt.Errorf("stream: change %q: %w", id, err)
	}
	return nil
}

// body is a document: every field is there mostly, and of its own type mostly
// once the table's columns are settled.
func (s *stream) body() []byte {
	r := s.random
	fields := []string{
		fmt.Sprintf(`"n":%d`, r.Int64()-r.Int64()),
		fmt.Sprintf(`"price":%g`, r.NormFloat64()*100),
		`"name":` + asJSON(fmt.Sprintf("name %d \x00 😀 \" Łódź", r.IntN(1000))),
		fmt.Sprintf(`"flag":%v`, r.IntN(2) == 0),
		fmt.Sprintf(`"tags":["a",null,%d]`, r.IntN(9)),
		fmt.Sprintf(`"address":{"city":"東京","zip":%d,"deep":[{"x":[]}]}`, r.IntN(99999)),
		`"any":` + []string{`1`, `"text"`, `null`, `{"a":1}`, `true`}[r.IntN(5)],
		fmt.Sprintf(`"createdAt":"2024-01-%02dT%02d:30:00+02:00"`, 1+r.IntN(4), r.IntN(24)),
		`"pt":"its own"`,
		`"place":` + asJSON([]string{"a/b", "a=b", "100%", "x y", "Łódź", "plain", "..", "[x]:{y}"}[r.IntN(8)]),
		fmt.Sprintf(`"odd name":%d`, r.IntN(9)),
		`"text":` + asJSON(strings.Repeat("some text, ", r.IntN(20))),
	}
	if s.step >= 2 {
		fields = append(fields, fmt.Sprintf(`"late_%d":%d`, s.step/2, r.IntN(100)))
	}
	r.Shuffle(len(fields), func(i, j int) { fields[i], fields[j] = fields[j], fields[i] })
	if r.IntN(4) == 0 {
		fields = fields[:r.IntN(len(fields))]
	}
	if s.step >= 1 && r.IntN(6) == 0 {
		fields = append(fields, s.misfit())
	}
	body := "{" + strings.Join(fields, ",") + "}"
	var one map[string]json.RawMessage
	if json.Unmarshal([]byte(body), &one) != nil || len(one) == len(fields) {
		return []byte(body)
	}
	again, _ := json.Marshal(one) // a misfit came on top of the field: once is enough
	return again
}

// misfit is a field whose value does not fit the column.
func (s *stream) misfit() string {
	all := []string{`"n":"text"`, `"n":1.5`, `"n":9223372036854775808`, `"n":null`, `"price":"12"`, `"price":9007199254740993`, `"price":true`,
		`"name":5`, `"name":["x"]`, `"flag":0`, `"tags":"text"`, `"tags":[]`, `"address":7`, `"createdAt":"soon"`, `"createdAt":1704412800`,
		`"createdAt":1704412800123`, `"createdAt":null`, `"odd name":"odd"`}
	return all[s.random.IntN(len(all))]
}

// documentsOf is the whole database in the model's words.
func documentsOf(db *couchfake.Database) []document {
	var out []document
	for d := range db.Docs() {
		one := document{ID: d.ID, Deleted: d.Deleted(), Body: d.Winner().Body}
		for _, l := range d.Leaves {
			one.Leaves = append(one.Leaves, l.Rev.String())
		}
		out = append(out, one)
	}
	return out
}
