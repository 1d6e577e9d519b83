package commitmeta

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/couch2hudi/couch2hudi/hudi"
	"github.com/couch2hudi/couch2hudi/internal/avro"
)

// ErrDecode marks bytes that are not what the timeline should hold there.
var ErrDecode = errors.New("unreadable content of an instant")

// ErrVersion marks a table version whose encoding is not known.
var ErrVersion = errors.New("unknown table version")

// Encode is the content of a completed commit, deltacommit or replacecommit:
// pretty JSON with every key that Hudi 0.15 writes, in its order
// (docs/format/commit.md). Equal bodies give equal bytes.
func Encode(v hudi.Version, b Body) ([]byte, error) {
	if v != hudi.Version6 {
		return nil, fmt.Errorf("%w: %s", ErrVersion, v)
	}
	c := commitJSON[any]{
		Stats:     make(map[string][]any, len(b.Stats)),
		Compacted: b.Compacted,
		Extra:     make(map[string]*string, len(b.Extra)),
		Operation: b.Operation,
		Replaced:  b.Replaced,
	}
	if c.Operation == "" {
		c.Operation = "UNKNOWN"
	}
	for partition, stats := range b.Stats {
		list := make([]any, len(stats))
		for i := range stats {
			list[i] = makeStat(partition, &stats[i])
		}
		c.Stats[partition] = list
	}
	for k, value := range b.Extra {
		c.Extra[k] = &value
	}
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(c); err != nil {
		return nil, fmt.Errorf("encode commit metadata: %w", err)
	}
	return out.Bytes(), nil
}

// Decode reads what Encode or another writer wrote, also the workload that
// Hudi puts into an inflight file. Missing keys, nulls and unknown keys are
// fine, and so is nothing at all, which Hudi takes for an empty commit; a value
// of the wrong type is an ErrDecode. From table version 8 on it is an Avro file;
// what an upgrade of the table left as it was is still JSON.
func Decode(v hudi.Version, data []byte) (Body, error) {
	switch {
	case !v.Readable():
		return Body{}, fmt.Errorf("%w: %s", ErrVersion, v)
	case len(data) == 0:
		return Body{}, nil
	case v.Completes() && avro.IsFile(data):
		return decodeBody(data)
	}
	return decodeJSON(data)
}

// decodeBody reads HoodieCommitMetadata or HoodieReplaceCommitMetadata, which
// differ by one field.
func decodeBody(data []byte) (Body, error) {
	var c archivedReplaceAvro
	if err := decodeFile("HoodieCommitMetadata", data, &c); err != nil {
		return Body{}, err
	}
	return *c.body(), nil
}

func decodeJSON(data []byte) (Body, error) {
	var c *commitJSON[deltaStatJSON]
	if err := jsonv2.Unmarshal(data, &c, jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true)); err != nil {
		return Body{}, fmt.Errorf("%w: %w", ErrDecode, err)
	}
	if c == nil {
		return Body{}, fmt.Errorf("%w: null instead of an object", ErrDecode)
	}
	b := Body{Compacted: c.Compacted, Operation: c.Operation, Replaced: c.Replaced}
	if len(c.Stats) > 0 {
		b.Stats = make(map[string][]WriteStat, len(c.Stats))
	}
	for partition, stats := range c.Stats {
		list := make([]WriteStat, len(stats))
		for i := range stats {
			list[i] = stats[i].stat(partition)
		}
		b.Stats[partition] = list
	}
	if len(c.Extra) > 0 {
		b.Extra = make(map[string]string, len(c.Extra))
	}
	for k, value := range c.Extra {
		if value != nil {
			b.Extra[k] = *value
		}
	}
	return b, nil
}
