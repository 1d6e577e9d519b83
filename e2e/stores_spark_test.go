//go:build oracle

package e2e

import (
	"testing"

	"github.com/couch2hudi/couch2hudi/storage"
	"github.com/couch2hudi/couch2hudi/storage/cloud"
)

// TestSparkInS3: a table that the binary writes in S3 is read there by us, by hudi-rs and
// by Spark through Hadoop's s3a, which writes into it in turn.
func TestSparkInS3(t *testing.T) {
	for _, s := range s3Stores() {
		t.Run(s.name, func(t *testing.T) { sparkInS3(t, s) })
	}
}

func sparkInS3(t *testing.T, s objectStore) {
	address := s.start(t)
	d, err := cloud.Open(t.Context(), s.scheme, "lake", "tables/spark", s.query(address), nil)
	if err != nil {
		t.Fatal(err)
	}
	b := storage.New(d, nil)
	defer func() { _ = b.Close() }()
	args := []string{"spark", "--hudi-version", "0.15.0", "--s3", "http://" + address}
	e, err := startEngine(engineKind{name: "spark-0.15-s3", venv: "venv", args: args})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = e.in.Close() })
	other, err := startEngine(engineKind{name: "hudi-rs-s3", venv: "venv-hudirs", args: []string{"hudi-rs", "--s3", "http://" + address}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = other.in.Close() })
	const place = "lake/tables/spark"
	remote{url: s.scheme + "://" + place + "?" + s.query(address).Encode(), name: "s3a://" + place, bucket: b, engines: []*engine{e, other}}.check(t)
}
