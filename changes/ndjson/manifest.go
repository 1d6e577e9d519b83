package ndjson

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// Manifest says what a bundle holds and where it stands in its chain.
type Manifest struct {
	// Version is that of the manifest's and the rows' form.
	Version int `json:"v"`
	// Chain is a random id that all bundles of one chain share.
	Chain string `json:"chain"`
	// Number counts the chain's bundles from 1.
	Number int64 `json:"number"`
	// Previous is the Hash of the manifest before; empty for the first.
	Previous string `json:"previous"`
	// Database and Incarnation name what was exported.
	Database    string `json:"database"`
	Incarnation string `json:"incarnation"`
	// FirstSeq is the sequence after which the bundle begins, empty for the
	// database's beginning; LastSeq the one that it reaches.
	FirstSeq string `json:"first_seq"`
	LastSeq  string `json:"last_seq"`
	// PurgeSeq is the database's purge sequence up to which purged documents are in the
	// chain; empty where the server lists no purges.
	PurgeSeq string `json:"purge_seq,omitempty"`
	Rows     int64  `json:"rows"`
	// Bytes is the size of the file, PlainBytes that of its rows.
	Bytes      int64 `json:"bytes"`
	PlainBytes int64 `json:"plain_bytes"`
	// SHA256 is the file's, in hexadecimal digits.
	SHA256 string `json:"sha256"`
	// Hash is the SHA-256 of the manifest with an empty Hash.
	Hash string `json:"hash"`
}

// formVersion is the form that this release writes and reads.
const formVersion = 1

// maxManifest bounds what is read of a file that is called a manifest.
const maxManifest = 1 << 20

const (
	namePrefix     = "bundle-"
	manifestSuffix = ".manifest.json"
	dataSuffix     = ".ndjson.zst"
	numberDigits   = 10
	// headName is the exporter's copy of its newest manifest.
	headName = "chain.json"
	lockName = ".lock"
)

func bundleName(number int64, suffix string) string {
	return fmt.Sprintf("%s%0*d%s", namePrefix, numberDigits, number, suffix)
}

// bundleNumber is the number in a name that bundleName made.
func bundleNumber(name, suffix string) (int64, bool) {
	middle, ok := strings.CutPrefix(name, namePrefix)
	if !ok {
		return 0, false
	}
	if middle, ok = strings.CutSuffix(middle, suffix); !ok {
		return 0, false
	}
	n, err := strconv.ParseInt(middle, 10, 64)
	return n, err == nil && n > 0 && bundleName(n, suffix) == name
}

// encode is the one form that a manifest has, and fills in Hash.
func (m *Manifest) encode() []byte {
	m.Hash = ""
	sum := sha256.Sum256(m.text())
	m.Hash = hex.EncodeToString(sum[:])
	return m.text()
}

func (m *Manifest) text() []byte {
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	e.SetIndent("", " ")
	if err := e.Encode(m); err != nil { // texts and numbers always encode
		panic(err)
	}
	return out.Bytes()
}

var errManifest = errors.New("it is not as it was written")

// decodeManifest reads a manifest, every byte of which must be as encode wrote it.
func decodeManifest(data []byte) (Manifest, error) {
	var m Manifest
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(&m); err != nil {
		var version struct {
			V int `json:"v"`
		}
		if json.Unmarshal(data, &version) == nil && version.V > formVersion {
			return m, fmt.Errorf("%w: its form is version %d, this release knows %d", errManifest, version.V, formVersion)
		}
		return m, fmt.Errorf("%w: %w", errManifest, err)
	}
	found := m.Hash
	if !bytes.Equal(m.encode(), data) || m.Hash != found {
		return m, fmt.Errorf("%w: its hash says otherwise", errManifest)
	}
	if m.Version != formVersion {
		return m, fmt.Errorf("%w: its form is version %d, this release knows %d", errManifest, m.Version, formVersion)
	}
	return m, nil
}

// follows says why a manifest found under a number does not continue the chain at
// a place; empty when it does.
func (m *Manifest) follows(p place, number int64) string {
	switch {
	case m.Number != number:
		return fmt.Sprintf("it is the manifest of bundle %d: doubled or reordered", m.Number)
	case p.Chain != "" && m.Chain != p.Chain:
		return fmt.Sprintf("it is foreign: chain %s, the bundles before it are of chain %s", m.Chain, p.Chain)
	case number == p.Bundle && m.Hash != p.Hash:
		return "it is not the one that was read before: it was exchanged"
	case number != p.Bundle && m.Previous != p.Hash:
		return fmt.Sprintf("it does not follow bundle %d as that was read: one of the two was exchanged", number-1)
	}
	return ""
}
