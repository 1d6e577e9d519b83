package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/couch2hudi/couch2hudi/changes"
	"github.com/couch2hudi/couch2hudi/changes/couchdb"
	"github.com/couch2hudi/couch2hudi/config"
	"github.com/couch2hudi/couch2hudi/filter"
	"github.com/couch2hudi/couch2hudi/normalize"
	"github.com/couch2hudi/couch2hudi/pipeline"
	"github.com/couch2hudi/couch2hudi/reader"
	"github.com/couch2hudi/couch2hudi/table"
)

// Every error that an operator can meet has a heading with its words, and every
// link of the page leads to one.
func TestOperationsNameEveryError(t *testing.T) {
	data, err := os.ReadFile(filepath.Join("..", "..", "docs", "operations.md"))
	if err != nil {
		t.Fatal(err)
	}
	var heads []string
	anchors := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m)^#+ (.*)$`).FindAllStringSubmatch(string(data), -1) {
		heads = append(heads, m[1])
		anchor := regexp.MustCompile(`[^a-z0-9 -]`).ReplaceAllString(strings.ToLower(m[1]), "")
		anchors[strings.ReplaceAll(anchor, " ", "-")] = true
	}
	for _, e := range []error{
		config.ErrSyntax, config.ErrUnknownKey, config.ErrRequired, config.ErrValue, config.ErrReference, pipeline.ErrPinned, pipeline.ErrNoRepair, pipeline.ErrQuarantine, filter.ErrFilter,
		changes.ErrNotFound, changes.ErrUnauthorized, changes.ErrPosition, changes.ErrRecreated, changes.ErrLeaves, changes.ErrChain, changes.ErrBusy, couchdb.ErrNotCouchDB, couchdb.ErrRowTooLarge,
		table.ErrNoTable, table.ErrCorrupt, table.ErrVersion, table.ErrType, table.ErrMetadataTable, table.ErrBootstrapped, table.ErrUnsupported,
		table.ErrHeld, table.ErrLost, table.ErrRecover, table.ErrForeign, table.ErrConflict, table.ErrUnknown, table.ErrNoSchema, table.ErrArchived,
		table.ErrNoInstant, table.ErrNotNewest, table.ErrNotPlain, table.ErrSaved, table.ErrSavepoint, table.ErrCleaned,
		normalize.ErrSchema, reader.ErrCleaned, reader.ErrCorrupt,
	} {
		found := false
		for _, h := range heads {
			found = found || strings.Contains(h, e.Error())
		}
		if !found {
			t.Errorf("no heading says %q", e)
		}
	}
	for _, m := range regexp.MustCompile(`\]\(#([^)]*)\)`).FindAllStringSubmatch(string(data), -1) {
		if !anchors[m[1]] {
			t.Errorf("#%s leads nowhere", m[1])
		}
	}
}
