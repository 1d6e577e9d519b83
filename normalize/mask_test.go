package normalize_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/couch2hudi/couch2hudi/changes"
	"github.com/couch2hudi/couch2hudi/normalize"
)

const salt = "pepper"

func hashed(text string) string {
	h := hmac.New(sha256.New, []byte(salt))
	h.Write([]byte(text))
	return hex.EncodeToString(h.Sum(nil))
}

func masks() []normalize.Declared {
	return []normalize.Declared{
		{Name: "email", Mask: normalize.MaskHash},
		{Path: "card.number", Mask: normalize.MaskRedact},
		{Path: "card.cvc", Mask: normalize.MaskDrop},
		{Path: "secret", Mask: normalize.MaskDrop},
		{Path: "list[1]", Mask: normalize.MaskDrop},
		{Path: "*.ssn", Mask: normalize.MaskRedact},
		{Path: "contacts[*].email", Mask: normalize.MaskHash},
		{Path: "contacts[*].keys.*", Mask: normalize.MaskDrop},
		{Path: "contacts[0].*", Mask: normalize.MaskRedact},
		{Path: "grid[*][1]", Mask: normalize.MaskDrop},
		{Path: `["*"].x`, Mask: normalize.MaskDrop},
	}
}

func TestMasks(t *testing.T) {
	for _, c := range []struct{ doc, masked string }{
		{`{"email":"a@b"}`, `{"email":"` + hashed("a@b") + `"}`},
		{`{"\u0065mail":"\u0061@b"}`, `{"\u0065mail":"` + hashed("a@b") + `"}`},
		{`{"email":1.50 , "x":1}`, `{"email":"` + hashed("1.50") + `" , "x":1}`},
		{`{"email":null,"secret":null,"card":null}`, `{"email":null,"card":null}`},
		{`{"email":["a", "b"]}`, `{"email":"` + hashed(`["a", "b"]`) + `"}`},
		{`{"secret":1}`, `{}`},
		{` { "secret" : 1 } `, ` {} `},
		{`{"a":1,"secret":{"x":[1]}}`, `{"a":1}`},
		{`{"a":1 , "secret":2 }`, `{"a":1 }`},
		{`{"secret":1,"a":2}`, `{"a":2}`},
		{`{"secret":1,"secret":2,"a":2,"secret":3,"secret":4}`, `{"a":2}`},
		{`{"a":2,"secret":3,"b":4,"secret":5}`, `{"a":2,"b":4}`},
		{`{"card":{"number":4111,"cvc":"123","name":"N"}}`, `{"card":{"number":"[redacted]","name":"N"}}`},
		{`{"card":{"cvc":"123","number":"4"}}`, `{"card":{"number":"[redacted]"}}`},
		{`{"card":"4111"}`, `{"card":"4111"}`},
		{`{"list":[1,2,3],"list":[1]}`, `{"list":[1,null,3],"list":[1]}`},
		{`{"x":{"secret":1,"email":2}}`, `{"x":{"secret":1,"email":2}}`},
		{`{"a":{"ssn":1,"b":{"ssn":2}},"c":[{"ssn":3}],"ssn":4,"d":{"ssn":null}}`,
			`{"a":{"ssn":"[redacted]","b":{"ssn":2}},"c":[{"ssn":3}],"ssn":4,"d":{"ssn":null}}`},
		{`{"card":{"ssn":1,"number":2}}`, `{"card":{"ssn":"[redacted]","number":"[redacted]"}}`},
		{`{"_attachments":{"ssn":{"stub":true}}}`, `{"_attachments":{"ssn":{"stub":true}}}`},
		// The strictest of all that mean a value counts, in whatever order they stand.
		{`{"contacts":[{"email":"a","keys":{"p":1}},{"email":"a","keys":{"p":1,"q":[2]},"name":"b"},3]}`,
			`{"contacts":[{"email":"[redacted]","keys":"[redacted]"},{"email":"` + hashed("a") + `","keys":{},"name":"b"},3]}`},
		{`{"contacts":{"email":"a"}}`, `{"contacts":{"email":"a"}}`},
		{`{"grid":[[1,2,3],[4,5],[6],7,{"1":8}]}`, `{"grid":[[1,null,3],[4,null],[6],7,{"1":8}]}`},
		{`{"*":{"x":1,"y":2},"z":{"x":3}}`, `{"*":{"y":2},"z":{"x":3}}`},
	} {
		n := normalizer(t, normalize.Options{Declare: masks(), Salt: salt})
		given := c.doc
		r := normalized(t, n, batch(change(t, "d", given), deletion(t, "e", given)), nil)
		for i := range 2 {
			if got := at(r, i, "_doc"); got != c.masked {
				t.Errorf("%s: %v, want %s", c.doc, got, c.masked)
			}
		}
		if given != c.doc {
			t.Errorf("%s: the batch was changed", c.doc)
		}
	}
	n := normalizer(t, normalize.Options{Declare: masks(), Salt: salt})
	r := normalized(t, n, bodies(t, `{"email":"a@b","card":{"number":1,"cvc":2},"secret":3}`), nil)
	if got := fields(t, r.Schema); got != `email:string[declared, mask "hash"] number:string[path "card.number", declared, mask "redact"] card:string[json]` {
		t.Error(got)
	}
	if at(r, 0, "email") != hashed("a@b") || at(r, 0, "number") != "[redacted]" || at(r, 0, "card") != `{"number":"[redacted]"}` {
		t.Errorf("%v %v %v", at(r, 0, "email"), at(r, 0, "number"), at(r, 0, "card"))
	}
}

// Whatever the document, and whatever becomes of it, no masked value is in what
// comes out: rows, rescued values, rejects with their reasons, errors.
func TestMasksLeakNothing(t *testing.T) {
	rounds := 400
	if testing.Short() {
		rounds = 100
	}
	for seed := range uint64(rounds) {
		r := rand.New(rand.NewPCG(seed, 3))
		o := normalize.Options{Declare: masks(), Salt: salt, DropDoc: seed%2 == 0, MaxColumns: 2 + r.IntN(9),
			Nested:   []string{"", normalize.NestedStruct}[r.IntN(2)],
			Others:   []string{normalize.Inferred, normalize.Rescued, normalize.Dropped}[r.IntN(3)],
			Conflict: []string{normalize.Rescue, normalize.AsString, normalize.NewColumn}[r.IntN(3)]}
		n := normalizer(t, o)
		var b changes.Batch
		for i := range 8 {
			doc := leaky(r)
			switch r.IntN(8) {
			case 0:
				doc = doc[:r.IntN(len(doc))]
			case 1:
				doc = strings.Replace(doc, `"a"`, "\"\xff\"", 1)
			}
			c := change(t, fmt.Sprintf("d%d", i), doc)
			if r.IntN(8) == 0 {
				c = deletion(t, c.ID, doc)
			}
			if r.IntN(8) == 0 {
				c.Defect, c.Raw = "no revision", []byte(`{"id":"x","doc":`+doc+`}`)
			}
			b.Changes = append(b.Changes, c)
		}
		first := normalized(t, n, b, nil)
		for _, got := range []normalize.Result{first, normalized(t, n, b, first.Schema)} {
			for i := range got.Records {
				for _, v := range got.Records[i].Row {
					if strings.Contains(v.Text(), "LEAK") {
						t.Fatalf("seed %d: %q of %s", seed, v.Text(), b.Changes[i].Body)
					}
				}
			}
			for _, x := range got.Rejects {
				if said := string(x.Change.Body) + string(x.Change.Raw) + x.Reason + x.Change.Defect; strings.Contains(said, "LEAK") {
					t.Fatalf("seed %d: rejected %q", seed, said)
				}
			}
			if strings.Contains(got.Schema.Avro(), "LEAK") {
				t.Fatalf("seed %d: schema", seed)
			}
		}
	}
}

// leaky is a document whose masked values hold the word LEAK, and no others.
func leaky(r *rand.Rand) string {
	secret := func() string {
		return []string{`"LEAK"`, `"x \" LEAK"`, `{"a":"LEAK"}`, `["LEAK",1]`, `{"LEAK":1}`}[r.IntN(5)]
	}
	harmless := func() string { return []string{`1`, `"a"`, `null`, `[]`, `{"a":{}}`, `2.5`}[r.IntN(6)] }
	var members []string
	for range 1 + r.IntN(8) {
		sep := []string{"", " ", "\n"}[r.IntN(3)]
		var m string
		switch r.IntN(9) {
		case 8:
			m = fmt.Sprintf(`"contacts":[%s,{"email":%s}, {"k":%s,"email" :%s,"keys":{"a":%s}}]`, harmless(), secret(), harmless(), secret(), secret())
		case 7:
			m = fmt.Sprintf(`"f%d":{"a":%s,"ssn":%s}`, r.IntN(4), harmless(), secret())
		case 6:
			m = fmt.Sprintf(`"grid":[[%s,%s],%s,[1,%s,%s]]`, harmless(), secret(), harmless(), secret(), harmless())
		case 0:
			m = []string{`"email"`, `"\u0065mail"`}[r.IntN(2)] + sep + ":" + secret()
		case 1:
			m = `"secret":` + secret()
		case 2:
			m = fmt.Sprintf(`"card":{"number":%s,%s"name":%s,"cvc"%s:%s}`, secret(), sep, harmless(), sep, secret())
		case 3:
			m = fmt.Sprintf(`"list" : [%s, %s]`, harmless(), secret())
		default:
			m = fmt.Sprintf(`"f%d":%s`, r.IntN(4), harmless())
		}
		members = append(members, sep+m+sep)
	}
	return "{" + strings.Join(members, ",") + "}"
}

// A masked document is JSON, and holds all else as it was.
func TestMaskedIsJSON(t *testing.T) {
	for seed := range uint64(500) {
		r := rand.New(rand.NewPCG(seed, 4))
		doc := leaky(r)
		n := normalizer(t, normalize.Options{Declare: masks(), Salt: salt})
		got := normalized(t, n, bodies(t, doc), nil)
		text, _ := at(got, 0, "_doc").(string)
		var have, want map[string]any
		if err := json.Unmarshal([]byte(text), &have); err != nil {
			t.Fatalf("%s: %s: %v", doc, text, err)
		}
		if err := json.Unmarshal([]byte(doc), &want); err != nil {
			t.Fatal(err)
		}
		for name, v := range want {
			if inner, ok := v.(map[string]any); ok && inner["ssn"] != nil {
				inner["ssn"] = "[redacted]"
			}
			if strings.HasPrefix(name, "f") && fmt.Sprint(have[name]) != fmt.Sprint(v) {
				t.Fatalf("%s: %s: %s", doc, text, name)
			}
		}
	}
}

// A run whose configuration lost a mask is refused, though no column tells of it.
func TestMasksAreMissed(t *testing.T) {
	type d = normalize.Declared
	noted := normalizer(t, normalize.Options{Salt: salt, Declare: []d{
		{Path: "a.b", Mask: "drop"}, {Path: "*.ssn", Mask: "hash"}, {Name: "email", Mask: "hash"}, {Name: "n", Type: "long"}}}).Masks()
	if want := map[string]string{"a.b": "drop", "*.ssn": "hash"}; !maps.Equal(noted, want) {
		t.Fatalf("noted %v, want %v", noted, want)
	}
	for _, c := range []struct {
		declare []d
		lost    string
	}{
		{[]d{{Path: "a.b", Mask: "drop"}, {Path: "*.ssn", Mask: "hash"}}, ""},
		{[]d{{Path: "*.ssn", Mask: "hash"}}, "a.b"},
		{[]d{{Path: "a.b", Mask: "drop"}}, "*.ssn"},
		{[]d{{Path: "a.b", Mask: "none"}, {Path: "*.ssn", Mask: "none"}}, ""},
		{[]d{{Path: "a.b", Type: "string", Mask: "none"}, {Path: "*.ssn", Mask: "redact"}}, ""},
		{[]d{{Path: "a.b", Type: "string"}, {Path: "*.ssn", Mask: "redact"}}, "a.b"},
		{[]d{{Path: "*.*", Mask: "drop"}}, ""},
		{[]d{{Path: "*.*", Mask: "none"}}, "a.b"},
		{[]d{{Path: "a.*", Mask: "drop"}, {Path: "x.ssn", Mask: "hash"}}, "*.ssn"},
		{[]d{{Path: "a[*]", Mask: "drop"}, {Path: "*.ssn", Mask: "hash"}}, "a.b"},
	} {
		err := normalizer(t, normalize.Options{Salt: salt, Declare: c.declare}).CheckMasks(noted)
		switch {
		case c.lost == "" && err != nil:
			t.Errorf("%v: %v", c.declare, err)
		case c.lost != "" && (!errors.Is(err, normalize.ErrDeclared) || !strings.Contains(err.Error(), c.lost)):
			t.Errorf("%v: %v, want %s to be missed", c.declare, err, c.lost)
		}
	}
}

// A masked column's mask may be taken back by path alone, and its note goes.
func TestMaskTakenBack(t *testing.T) {
	n := normalizer(t, normalize.Options{Declare: []normalize.Declared{{Name: "email", Mask: "redact"}}})
	s := normalized(t, n, bodies(t, `{"email":"a"}`), nil).Schema
	n = normalizer(t, normalize.Options{Declare: []normalize.Declared{{Path: "email", Mask: "none"}}})
	if err := n.Check(s); err != nil {
		t.Fatal(err)
	}
	r := normalized(t, n, bodies(t, `{"email":"a"}`), s)
	if got := fields(t, r.Schema); at(r, 0, "email") != "a" || got != "email:string[declared]" {
		t.Errorf("%v, %s", at(r, 0, "email"), got)
	}
	if err := normalizer(t, normalize.Options{}).Check(r.Schema); err != nil {
		t.Errorf("the mask is missed after it was taken back: %v", err)
	}
	n = normalizer(t, normalize.Options{Salt: salt, Declare: []normalize.Declared{{Path: "*", Mask: "hash"}}})
	if err := n.Check(s); err != nil {
		t.Errorf("a wildcard covers the column: %v", err)
	}
}
