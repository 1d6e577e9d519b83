package pipeline

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/couch2hudi/couch2hudi/normalize"
)

// quarantined is one line of a quarantine file: the whole change and why it
// could not be applied. Texts that are not JSON are kept as base64.
type quarantined struct {
	ID      string   `json:"id,omitempty"`
	Rev     string   `json:"rev,omitempty"`
	Leaves  []string `json:"leaves,omitempty"`
	Deleted bool     `json:"deleted,omitempty"`
	Seq     string   `json:"seq,omitempty"`
	// Place is where in the source it stands, such as topic/partition@offset.
	Place  string          `json:"place,omitempty"`
	Reason string          `json:"reason"`
	Doc    json.RawMessage `json:"doc,omitempty"`
	Row    json.RawMessage `json:"row,omitempty"`
	DocRaw []byte          `json:"doc_base64,omitempty"`
	RowRaw []byte          `json:"row_base64,omitempty"`
}

// quarantine renders rejected changes as NDJSON.
func quarantine(rejects []normalize.Reject) ([]byte, error) {
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	for i := range rejects {
		c := &rejects[i].Change
		q := quarantined{ID: c.ID, Rev: c.Rev.String(), Deleted: c.Deleted, Seq: c.Seq, Place: c.Place.String(), Reason: rejects[i].Reason}
		for _, l := range c.Leaves {
			q.Leaves = append(q.Leaves, l.String())
		}
		q.Doc, q.DocRaw = asJSON(c.Body)
		q.Row, q.RowRaw = asJSON(c.Raw)
		if err := e.Encode(q); err != nil {
			return nil, fmt.Errorf("render quarantined change %q: %w", c.ID, err)
		}
	}
	return out.Bytes(), nil
}

func asJSON(b []byte) (json.RawMessage, []byte) {
	switch {
	case len(b) == 0:
		return nil, nil
	case json.Valid(b):
		return b, nil
	}
	return nil, b
}
