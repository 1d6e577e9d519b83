package couchfake_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/couch2hudi/couch2hudi/internal/couchfake"
)

func makes(name string) func(*testing.T, *couchfake.Server) {
	return func(t *testing.T, s *couchfake.Server) { create(t, s, name, 2) }
}

func numbered(name, format string, n int) func(*testing.T, *couchfake.Server) {
	return func(t *testing.T, s *couchfake.Server) {
		for i := range n {
			put(t, database(t, s, name), fmt.Sprintf(format, i), fmt.Sprintf(`{"n":%d}`, i))
		}
	}
}

func TestRecordedMeta(t *testing.T) {
	old := ""
	first := func(t *testing.T, _ *couchfake.Server) string { return old }
	script{
		file: "a_meta",
		before: map[string]func(*testing.T, *couchfake.Server){
			"create2": func(*testing.T, *couchfake.Server) {},
			"info": func(t *testing.T, s *couchfake.Server) {
				numbered("shop", "d%d", 5)(t, s)
				put(t, database(t, s, "shop2"), "x", `{}`)
				old = database(t, s, "shop").Seq()
			},
			"since_from_deleted_db": numbered("shop", "e%d", 9),
			"since_from_deleted_db_q8": func(t *testing.T, s *couchfake.Server) {
				if err := s.Drop("shop"); err != nil {
					t.Fatal(err)
				}
				create(t, s, "shop", 8)
				numbered("shop", "e%d", 9)(t, s)
			},
		},
		since: map[string]func(*testing.T, *couchfake.Server) string{
			"since_otherdb":                   func(t *testing.T, s *couchfake.Server) string { return database(t, s, "shop2").Seq() },
			"since_truncated":                 func(t *testing.T, s *couchfake.Server) string { q := database(t, s, "shop").Seq(); return q[:len(q)-7] },
			"since_flipped":                   func(t *testing.T, s *couchfake.Server) string { return flip(database(t, s, "shop").Seq()) },
			"since_bigger_prefix":             func(t *testing.T, s *couchfake.Server) string { return "99" + database(t, s, "shop").Seq()[1:] },
			"since_smaller_prefix":            func(t *testing.T, s *couchfake.Server) string { return "0" + database(t, s, "shop").Seq()[1:] },
			"since_jsonquoted":                func(t *testing.T, s *couchfake.Server) string { return `"` + database(t, s, "shop").Seq() + `"` },
			"since_from_deleted_db_empty_new": first, "since_from_deleted_db": first, "since_from_deleted_db_q8": first,
		},
		skip: map[string]string{
			"root": "another version and vendor", "root_noauth": "another version and vendor", "shards": "another node name",
		},
	}.play(t, testUsers())
}

// flip alters one character in the middle.
func flip(seq string) string {
	b := []byte(seq)
	if i := len(b) / 2; b[i] == 'A' {
		b[i] = 'B'
	} else {
		b[i] = 'A'
	}
	return string(b)
}

func TestRecordedDeletes(t *testing.T) {
	script{
		file: "c_deletes",
		before: map[string]func(*testing.T, *couchfake.Server){
			"": func(t *testing.T, s *couchfake.Server) {
				db := create(t, s, "del", 2)
				replicate(t, db, "stub", `{"name":"Item A","n":1}`, "1-a6b82381eae8c06b5ecac0b006060fa7")
				replicate(t, db, "kept", `{"name":"Item B","n":2}`, "1-b5aa1362f9b3907de44efa111c0a3381")
				replicate(t, db, "bulkdel", `{"n":4}`, "1-2371fbbf6336dcb0ff571e1f4f449ad0")
				replicate(t, db, "atts", `{"_attachments":{"a":{"content_type":"application/x","data":"AAAA"}}}`, "1-788a8f41af387aff3bceef4780a66c41")
			},
			"changes_mid": func(t *testing.T, s *couchfake.Server) {
				replicate(t, database(t, s, "del"), "reborn", `{"_deleted":true}`, "2-748f52e1e5e1c06db51505fa229d8232", "1-43a36d04d31d38efc5b9245c53e00627")
			},
		},
	}.play(t, testUsers())
}

func TestRecordedConflicts(t *testing.T) {
	script{file: "d_conflicts", before: map[string]func(*testing.T, *couchfake.Server){"": makes("conf")}}.play(t, testUsers())
}

func TestRecordedEdges(t *testing.T) {
	script{
		file: "e_edge",
		before: map[string]func(*testing.T, *couchfake.Server){
			"": func(t *testing.T, s *couchfake.Server) {
				db := create(t, s, "edge", 2)
				for i := range 12 {
					put(t, db, "gen", fmt.Sprintf(`{"n":%d}`, i))
				}
			},
			"id_num": func(t *testing.T, s *couchfake.Server) {
				replicate(t, database(t, s, "edge"), "raw", `{}`, "1-2135e52ef8bc3f92d6236ff7023621d9")
			},
		},
		skip: map[string]string{
			"id_put_slash_raw":    "the digest is that of bytes as zlib packs them",
			"json_put_neg_zero_f": "a negative zero hashes otherwise", "json_get_neg_zero_f": "a negative zero hashes otherwise",
		},
	}.play(t, testUsers())
}

func TestRecordedBulk(t *testing.T) {
	script{
		file: "j_bulk",
		before: map[string]func(*testing.T, *couchfake.Server){"": func(t *testing.T, s *couchfake.Server) {
			db := create(t, s, "bg", 2)
			put(t, db, "a", `{"v":1}`)
			put(t, db, "a", `{"v":2}`)
			put(t, db, "d", `{"v":1}`)
			if _, err := db.Delete("d"); err != nil {
				t.Fatal(err)
			}
			replicate(t, db, "c", `{"v":"x"}`, "2-x", "1-r")
			replicate(t, db, "c", `{"v":"y"}`, "2-y", "1-r")
		}},
		skip: map[string]string{
			"bulk_get_multipart": "JSON only", "open_revs_multipart": "JSON only", "find": "no Mango",
		},
	}.play(t, testUsers())
}

func TestRecordedPartitions(t *testing.T) {
	script{
		file: "k_partitioned",
		skip: map[string]string{"partition": "no partition queries", "partition_info": "no partition queries"},
	}.play(t, testUsers())
}

func TestRecordedCollapse(t *testing.T) {
	script{
		file: "h_collapsed",
		before: map[string]func(*testing.T, *couchfake.Server){
			"": func(t *testing.T, s *couchfake.Server) {
				db := create(t, s, "col", 2)
				put(t, db, "other2", `{"v":0}`)
				put(t, db, "other0", `{"v":0}`)
				put(t, db, "other1", `{"v":0}`)
			},
			"feed_after_4_writes": func(t *testing.T, s *couchfake.Server) {
				for i := range 4 {
					put(t, database(t, s, "col"), "a", fmt.Sprintf(`{"v":%d}`, i+1))
				}
			},
			"delete_then_recreate_collapsed": func(t *testing.T, s *couchfake.Server) {
				db := database(t, s, "col")
				if _, err := db.Delete("a"); err != nil {
					t.Fatal(err)
				}
				put(t, db, "a", `{"v":"reborn"}`)
			},
			"create_delete_between_polls": func(t *testing.T, s *couchfake.Server) {
				db := database(t, s, "col")
				put(t, db, "brief", `{"v":1}`)
				if _, err := db.Delete("brief"); err != nil {
					t.Fatal(err)
				}
			},
		},
		skip: map[string]string{
			"feed_since_first_write":      "the seq between is not told",
			"create_delete_between_polls": "pending depends on the order of shards",
		},
	}.play(t, testUsers())
}

func TestRecordedPurges(t *testing.T) {
	script{
		file: "g_lifecycle",
		before: map[string]func(*testing.T, *couchfake.Server){
			"": func(t *testing.T, s *couchfake.Server) {
				db := create(t, s, "pur", 2)
				for i := range 4 {
					put(t, db, fmt.Sprintf("p%d", i), fmt.Sprintf(`{"v":%d}`, i))
				}
			},
			"rewrite_after_purge": func(t *testing.T, s *couchfake.Server) {
				put(t, database(t, s, "pur"), "p1", `{"v":"again"}`)
			},
			"purge_winner_leaf": func(t *testing.T, s *couchfake.Server) {
				db := database(t, s, "pur")
				replicate(t, db, "pc", `{"v":"a"}`, "2-a", "1-r")
				replicate(t, db, "pc", `{"v":"b"}`, "2-b", "1-r")
			},
			"revs_limited": func(t *testing.T, s *couchfake.Server) {
				for i := range 6 {
					put(t, database(t, s, "pur"), "rl", fmt.Sprintf(`{"v":%d}`, i))
				}
			},
		},
		only: []string{
			"purge", "purge_missing", "purged_infos", "purged_get", "changes_after_purge", "info_after_purge", "purge_winner_leaf",
			"purged_limit", "compact", "revs_limit_get", "revs_limit_set",
		},
	}.play(t, testUsers())
}

func TestRecordedAccess(t *testing.T) {
	script{
		file: "b2_extra",
		before: map[string]func(*testing.T, *couchfake.Server){
			"": func(t *testing.T, s *couchfake.Server) {
				db := create(t, s, "fx", 2)
				for _, id := range []string{"a", "b", "c", "y", "y2", "_design/v"} {
					put(t, db, id, `{"type":"note"}`)
				}
				if _, err := db.Delete("a"); err != nil {
					t.Fatal(err)
				}
			},
			"after_revoked": func(t *testing.T, s *couchfake.Server) { database(t, s, "fx").Revoke("reader") },
		},
		only: []string{
			"security_set", "member_info", "member_purged_infos", "member_local_put", "member_all_dbs", "session", "bad_cookie", "after_revoked",
		},
	}.play(t, testUsers())
}

func TestRecordedLimits(t *testing.T) {
	script{
		file:   "e2_limits",
		before: map[string]func(*testing.T, *couchfake.Server){"": makes("lim")},
		only:   []string{"int_digits_400", "int_get_400", "int_get_5000"},
	}.play(t, testUsers())
}

// TestDeepAndLargeDocuments sends what the recordings only show the beginning of.
func TestDeepAndLargeDocuments(t *testing.T) {
	s := start(t, couchfake.Options{})
	create(t, s, "lim", 2)
	for _, e := range recordings(t, "e2_limits") {
		var body string
		switch e.Label {
		case "deep_9990", "deep_12000", "deep_100000":
			n := (e.Request.Body.Truncated - len(`{"v":}`)) / 2
			body = `{"v":` + strings.Repeat("[", n) + strings.Repeat("]", n) + `}`
		case "big_key":
			body = `{"` + strings.Repeat("k", 100_000) + `": 1}`
		case "max_doc_8mb_minus":
			body = `{"v": "` + strings.Repeat("y", 7_900_000) + `"}`
		default:
			continue
		}
		if len(body) != e.Request.Body.Truncated {
			t.Fatalf("%s: %d bytes, recorded %d", e.Label, len(body), e.Request.Body.Truncated)
		}
		res, answer := ask(t, e.Request.Method, s.URL()+e.Request.Path, body)
		if res.StatusCode != e.Response.Status || answer != e.Response.Body.Text {
			t.Errorf("%s: %d %s, recorded %d %s", e.Label, res.StatusCode, answer, e.Response.Status, e.Response.Body.Text)
		}
	}
	longest := 0
	for _, l := range strings.Split(read(t, s, "/lim/_changes?include_docs=true"), "\n") {
		longest = max(longest, len(l))
	}
	if longest < 7_900_000 {
		t.Errorf("the longest line has %d bytes", longest)
	}
}

func TestRecordedAttachments(t *testing.T) {
	script{
		file: "f_attachments",
		before: map[string]func(*testing.T, *couchfake.Server){
			"": func(t *testing.T, s *couchfake.Server) {
				replicate(t, create(t, s, "atts", 2), "a", `{"title":"x","_attachments":{
					"t.txt":{"content_type":"text/plain","revpos":1,"digest":"md5-m753iCrMcZJ3Jasqy/1yrA==","length":500,"stub":true},
					"b.bin":{"content_type":"application/octet-stream","revpos":1,"digest":"md5-JDLoGy0U9H3Krb4Qla4vVQ==","length":3000,"stub":true}}}`,
					"1-081f2115e1b519d8a878ea864c242874")
			},
			"drop_atts": func(t *testing.T, s *couchfake.Server) {
				replicate(t, database(t, s, "atts"), "a", `{"title":"y"}`, "3-d9b60a20f768bc2d86235a25a562fc10", "2-b50fb9c399454d8afc650108eb6699fc")
			},
		},
		only: []string{"stub", "update_keep_stub", "stub_after", "drop_atts", "after_drop", "get_att_gone"},
	}.play(t, testUsers())
}
