package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/klauspost/compress/zstd"

	"github.com/couch2hudi/couch2hudi/internal/couchfake"
)

// What leaves in bundles is masked as a table would have it, and masks that only one
// of several tables has are refused.
func TestExportMasks(t *testing.T) {
	_, db, url := shop(t, couchfake.Options{}, 3)
	const secret, kept = "ana-secret@example.org", "in the clear"
	if _, err := db.Put("person", []byte(`{"email":"`+secret+`","name":"`+kept+`","card":{"number":"`+secret+`"}}`)); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	config := func(name, text string) string {
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	masks := config("masks.yaml", "columns: {salt: pepper, declare: [{name: email, type: string, mask: hash}, {path: card.number, mask: drop}]}\n")
	outbox := filepath.Join(dir, "outbox")
	want(t, 0, nil, "export", "--once", "-c", masks, "--source", url, "--to", "ndjson://"+outbox)
	var all []byte
	files, err := filepath.Glob(filepath.Join(outbox, "*"))
	if err != nil {
		t.Fatal(err)
	}
	d, err := zstd.NewReader(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	for _, f := range files {
		data, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, data...)
		if plain, err := d.DecodeAll(data, nil); err == nil {
			all = append(all, plain...)
		}
	}
	if bytes.Contains(all, []byte(secret)) || !bytes.Contains(all, []byte(kept)) {
		t.Errorf("the bundles hold the secret, or not the rest:\n%s", all)
	}
	one := config("one.yaml", "route: {field: type}\ntables:\n- {name: orders, table: {url: "+filepath.Join(dir, "orders")+"}}\n"+
		"- {name: people, table: {url: "+filepath.Join(dir, "people")+"}, columns: {salt: pepper, declare: [{name: email, type: string, mask: hash}]}}\n")
	want(t, exitUsage, []string{"masks email"}, "export", "--once", "-c", one, "--source", url, "--to", "ndjson://"+filepath.Join(dir, "other"))
}
