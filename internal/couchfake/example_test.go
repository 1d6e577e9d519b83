package couchfake_test

import (
	"fmt"
	"io"
	"net/http"

	"github.com/couch2hudi/couch2hudi/internal/couchfake"
)

// A feed that breaks after its first row, and what the trees of the database say.
func ExampleServer_Control() {
	s, err := couchfake.Start(couchfake.Options{})
	if err != nil {
		panic(err)
	}
	defer s.Close()
	db, err := s.Create("shop")
	if err != nil {
		panic(err)
	}
	for _, id := range []string{"a", "b"} {
		if _, err := db.Put(id, []byte(`{"price":1.50}`)); err != nil {
			panic(err)
		}
	}
	s.Control(couchfake.Match{Endpoint: couchfake.Changes}, couchfake.Spoil{Rows: 1, Cut: true}, 1)
	res, err := http.Get(s.URL() + "/shop/_changes?include_docs=true")
	if err != nil {
		panic(err)
	}
	defer res.Body.Close()
	_, err = io.Copy(io.Discard, res.Body)
	fmt.Println(err)
	for d := range db.Docs() {
		fmt.Println(string(d.Winner().Body))
	}
	// Output:
	// unexpected EOF
	// {"_id":"a","_rev":"1-bd0401f3acb719a3647104622127804e","price":1.5}
	// {"_id":"b","_rev":"1-bd0401f3acb719a3647104622127804e","price":1.5}
}
