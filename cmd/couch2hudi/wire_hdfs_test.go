package main

import (
	"errors"
	"testing"

	"github.com/couch2hudi/couch2hudi/config"
	"github.com/couch2hudi/couch2hudi/storage"
)

// TestOpenHDFS opens what a URL says, without asking the name node.
func TestOpenHDFS(t *testing.T) {
	for text, good := range map[string]bool{
		"hdfs://nn/lake/t": true, "hdfs://me@a:1,b:2/t?lease=10s": true, "hdfs:///t": true, "hdfs://nn/t?patience=1m&timeout=5s": true,
		"hdfs://nn/t?lease=0.5s": false, "hdfs://nn/t?lease=x": false, "hdfs://nn/t?user=me": false,
	} {
		u, err := config.ParseTableURL(text)
		if err != nil {
			t.Fatal(err)
		}
		tuning, query, err := u.Split()
		wrong := err != nil
		var d storage.Driver
		if !wrong {
			d, err = openHDFS(t.Context(), u, tuning, query)
		}
		var usage *usageError
		if good != (err == nil) || !good && !wrong && !errors.As(err, &usage) {
			t.Errorf("%s: %v", text, err)
		}
		if err == nil {
			if err := d.Close(); err != nil {
				t.Error(err)
			}
		}
	}
}
