package kafka

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/couch2hudi/couch2hudi/changes"
)

// Headers of our messages. A message without headerVersion is one of another
// tool.
const (
	headerVersion     = "couch2hudi"
	headerType        = "couch2hudi.type"
	headerDB          = "couch2hudi.db"
	headerIncarnation = "couch2hudi.incarnation"

	version    = "1"
	typeMarker = "marker"
	typeDefect = "defect"
)

// origin is the database that messages are of.
type origin struct {
	Name        string `json:"name"`
	Incarnation string `json:"incarnation,omitempty"`
}

// marker says that all before it in its partition is of the batches up to N.
type marker struct {
	// N grows with each batch of the topic.
	N int64 `json:"n"`
	// Seq is the database's sequence after the batch, PurgeSeq its purge sequence.
	Seq      string `json:"_seq"`
	PurgeSeq string `json:"purge_seq,omitempty"`
}

// defect is a row of the source that could not be read, for the consumer's quarantine.
type defect struct {
	ID     string `json:"_id,omitempty"`
	Seq    string `json:"_seq,omitempty"`
	Defect string `json:"defect"`
	Raw    []byte `json:"raw"`
}

// errMessage marks a message that cannot be read.
var errMessage = errors.New("message cannot be read")

// kind is what a record's headers say.
type kind struct {
	ours bool
	kind string
	from origin
}

func kindOf(r *kgo.Record) (kind, error) {
	var k kind
	for i := range r.Headers {
		h := &r.Headers[i]
		switch h.Key {
		case headerVersion:
			if string(h.Value) != version {
				return k, fmt.Errorf("%w: it is of version %q, this release reads %s", errMessage, h.Value, version)
			}
			k.ours = true
		case headerType:
			k.kind = string(h.Value)
		case headerDB:
			k.from.Name = string(h.Value)
		case headerIncarnation:
			k.from.Incarnation = string(h.Value)
		}
	}
	return k, nil
}

// decoder reads messages. The zero value is ready; it is not safe for
// concurrent use.
type decoder struct {
	in     bytes.Reader
	tokens *jsontext.Decoder
}

func (d *decoder) begin(value []byte) *jsontext.Decoder {
	d.in.Reset(value)
	options := []jsontext.Options{jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true)}
	if d.tokens == nil {
		d.tokens = jsontext.NewDecoder(&d.in, options...)
	} else {
		d.tokens.Reset(&d.in, options...)
	}
	return d.tokens
}

// change is the change that a message of a document stands for. What cannot be
// read is a change with a Defect.
func (d *decoder) change(r *kgo.Record, k kind) changes.Change {
	c := changes.Change{Place: changes.Place{In: r.Topic, Part: r.Partition, At: r.Offset}}
	var err error
	switch {
	case k.kind == typeDefect:
		return broken(c, r)
	case k.kind != "":
		err = fmt.Errorf("%w: its type %q is not known to this release", errMessage, k.kind)
	case r.Value == nil:
		err = tombstone(&c, r)
	case k.ours:
		err = d.envelope(&c, r.Value)
		if err == nil && c.ID != string(r.Key) {
			err = fmt.Errorf("%w: its key is not its _id", errMessage)
		}
	default:
		err = d.document(&c, r.Value)
	}
	if err != nil {
		c = changes.Change{Place: c.Place, ID: c.ID, Seq: c.Seq, Raw: r.Value, Defect: err.Error()}
	}
	return c
}

// tombstone is a deletion without a revision, known by its key alone: whatever
// the table has of the document is older.
func tombstone(c *changes.Change, r *kgo.Record) error {
	if len(r.Key) == 0 {
		return fmt.Errorf("%w: it has neither key nor value", errMessage)
	}
	c.ID, c.Deleted, c.Absent, c.Purged = keyID(r.Key), true, true, true
	return nil
}

// keyID is the id that a key names: its text, or the member _id (or id) of a JSON
// object, or what a JSON string says.
func keyID(key []byte) string {
	switch key[0] {
	case '"':
		var s string
		if json.Unmarshal(key, &s) == nil {
			return s
		}
	case '{':
		var o struct {
			ID    *string `json:"_id"`
			Plain *string `json:"id"`
		}
		if json.Unmarshal(key, &o) == nil && o.ID != nil {
			return *o.ID
		} else if o.Plain != nil {
			return *o.Plain
		}
	}
	return string(key)
}

// broken is the change of a row that the producer could not read.
func broken(c changes.Change, r *kgo.Record) changes.Change {
	var v defect
	if err := json.Unmarshal(r.Value, &v); err != nil {
		c.Defect, c.Raw = fmt.Sprintf("%v: %v", errMessage, err), r.Value
		return c
	}
	c.ID, c.Seq, c.Raw, c.Defect = v.ID, v.Seq, v.Raw, v.Defect
	if c.Defect == "" {
		c.Defect = "the producer could not read it"
	}
	return c
}

// envelope reads a value of ours. The document is not looked at: it is all that
// stands after its name, less the brace that ends the envelope.
func (d *decoder) envelope(c *changes.Change, value []byte) error {
	t := d.begin(value)
	if err := open(t); err != nil {
		return err
	}
	for t.PeekKind() == '"' {
		name, err := text(t)
		if err != nil {
			return err
		}
		if name == "doc" {
			c.Body, err = rest(value[t.InputOffset():])
			return errors.Join(err, settle(c))
		}
		if err := member(t, c, name, true); err != nil {
			return err
		}
	}
	if _, err := t.ReadToken(); err != nil {
		return fmt.Errorf("%w: %w", errMessage, err)
	}
	return settle(c)
}

// rest is the document in what stands after its name.
func rest(tail []byte) ([]byte, error) {
	const blanks = " \t\r\n"
	tail = bytes.Trim(tail, blanks)
	if len(tail) < 2 || tail[0] != ':' || tail[len(tail)-1] != '}' {
		return nil, fmt.Errorf("%w: it ends within its document", errMessage)
	}
	body := bytes.Trim(tail[1:len(tail)-1], blanks)
	if len(body) == 0 || body[0] != '{' {
		return nil, fmt.Errorf("%w: its doc is not an object", errMessage)
	}
	return body, nil
}

// settle checks an envelope that was read.
func settle(c *changes.Change) error {
	switch {
	case c.ID == "":
		return fmt.Errorf("%w: it has no _id", errMessage)
	case c.Absent:
		c.Deleted = true
	case c.Rev.Generation == 0:
		return fmt.Errorf("%w: it has no _rev", errMessage)
	case len(c.Leaves) > 0 && c.Leaves[0] != c.Rev:
		return fmt.Errorf("%w: its _rev is not its first leaf", errMessage)
	}
	return nil
}

// document reads a bare document: all of it is the body.
func (d *decoder) document(c *changes.Change, value []byte) error {
	t := d.begin(value)
	if err := open(t); err != nil {
		return err
	}
	for t.PeekKind() == '"' {
		name, err := text(t)
		if err != nil {
			return err
		}
		if err := member(t, c, name, false); err != nil {
			return err
		}
	}
	if _, err := t.ReadToken(); err != nil {
		return fmt.Errorf("%w: %w", errMessage, err)
	}
	if _, err := t.ReadToken(); !errors.Is(err, io.EOF) {
		return fmt.Errorf("%w: something follows the document", errMessage)
	}
	c.Body = value
	return settle(c)
}

// member reads the value of one member of an envelope or a bare document.
func member(t *jsontext.Decoder, c *changes.Change, name string, envelope bool) error {
	var err error
	switch {
	case name == "_id":
		c.ID, err = text(t)
	case name == "_rev":
		c.Rev, err = rev(t)
	case name == "_deleted":
		c.Deleted, err = boolean(t)
	case !envelope:
		err = t.SkipValue()
	case name == "_leaves":
		c.Leaves, err = leaves(t)
	case name == "_absent":
		c.Absent, err = boolean(t)
	case name == "_purged":
		c.Purged, err = boolean(t)
	case name == "_seq":
		c.Seq, err = text(t)
	default:
		err = t.SkipValue()
	}
	if err != nil {
		return fmt.Errorf("%w: %s: %w", errMessage, strconv.Quote(clip(name)), err)
	}
	return nil
}

func open(t *jsontext.Decoder) error {
	if t.PeekKind() != '{' {
		return fmt.Errorf("%w: it is not a JSON object", errMessage)
	}
	_, err := t.ReadToken()
	return err
}

var errShape = errors.New("not what it should be")

func text(t *jsontext.Decoder) (string, error) {
	tok, err := t.ReadToken()
	if err != nil {
		return "", fmt.Errorf("%w: %w", errMessage, err)
	}
	if tok.Kind() != '"' {
		return "", fmt.Errorf("%w: no string", errShape)
	}
	return tok.String(), nil
}

func boolean(t *jsontext.Decoder) (bool, error) {
	tok, err := t.ReadToken()
	if err != nil {
		return false, err
	}
	if k := tok.Kind(); k != 't' && k != 'f' {
		return false, fmt.Errorf("%w: no boolean", errShape)
	}
	return tok.Bool(), nil
}

func rev(t *jsontext.Decoder) (changes.Rev, error) {
	s, err := text(t)
	if err != nil {
		return changes.Rev{}, err
	}
	return changes.ParseRev(s)
}

func leaves(t *jsontext.Decoder) ([]changes.Rev, error) {
	tok, err := t.ReadToken()
	if err != nil {
		return nil, err
	}
	if tok.Kind() != '[' {
		return nil, fmt.Errorf("%w: no array", errShape)
	}
	var out []changes.Rev
	for t.PeekKind() != ']' {
		r, err := rev(t)
		if err != nil {
			return nil, err
		}
		out = append(out, r)
	}
	_, err = t.ReadToken()
	return out, err
}

// clip keeps a message short.
func clip(s string) string {
	const most = 60
	if len(s) > most {
		return s[:most] + "…"
	}
	return s
}
