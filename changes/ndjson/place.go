package ndjson

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/couch2hudi/couch2hudi/changes"
)

// place is a Position of ours. Its keys are sorted, as a checkpoint has them.
type place struct {
	// Bundle and Chain are a bundle's number and chain, Hash its manifest's.
	Bundle int64  `json:"bundle,omitempty"`
	Chain  string `json:"chain,omitempty"`
	// Done says that the file was read to its end.
	Done bool `json:"done,omitempty"`
	// File is the name of a plain file, Size its size.
	File string `json:"file,omitempty"`
	Hash string `json:"hash,omitempty"`
	// Row is how many rows of the file were read.
	Row  int64 `json:"row,omitempty"`
	Size int64 `json:"size,omitempty"`
}

func (p place) position() changes.Position {
	if p == (place{}) {
		return ""
	}
	data, err := json.Marshal(p)
	if err != nil { // texts and numbers always encode
		panic(err)
	}
	return changes.Position(data)
}

// parsePlace reads a position; plain says of which of the two forms it must be.
func parsePlace(at changes.Position, plain bool) (place, error) {
	var p place
	if at == "" {
		return p, nil
	}
	d := json.NewDecoder(bytes.NewReader([]byte(at)))
	d.DisallowUnknownFields()
	if err := d.Decode(&p); err != nil {
		return p, fmt.Errorf("%w: %q is not a place in a folder of files; begin with 0 or now", changes.ErrPosition, at)
	}
	if plain != (p.File != "") || plain == (p.Bundle > 0) || p.Row < 0 {
		return p, fmt.Errorf("%w: %q is of the other format: bundles and plain files are not read in turns", changes.ErrPosition, at)
	}
	return p, nil
}

// next is the number of the bundle in which reading goes on.
func (p place) next() int64 {
	if p.Done || p.Bundle == 0 {
		return p.Bundle + 1
	}
	return p.Bundle
}
