package couchfake

import (
	"cmp"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
)

// Rev names one revision of a document: its generation and the hash behind the dash. The zero value is no revision.
type Rev struct {
	Gen  int
	Hash string
}

// ParseRev reads "12-34dfed…". A hash of 32 hexadecimal digits is kept in lower case, as the server prints it; any other text is kept as it is.
func ParseRev(s string) (Rev, error) {
	gen, hash, ok := strings.Cut(s, "-")
	n, err := strconv.Atoi(gen)
	if !ok || err != nil || n < 0 || hash == "" {
		return Rev{}, fmt.Errorf("parse revision %q: want generation-hash", s)
	}
	return Rev{Gen: n, Hash: canonicalHash(hash)}, nil
}

// String is the text form that CouchDB uses.
func (r Rev) String() string { return strconv.Itoa(r.Gen) + "-" + r.Hash }

// Compare orders two revisions as the server does when it picks a winner: by generation as a number, then by the bytes of the hash.
func (r Rev) Compare(o Rev) int {
	if c := cmp.Compare(r.Gen, o.Gen); c != 0 {
		return c
	}
	if isDigest(r.Hash) == isDigest(o.Hash) {
		return strings.Compare(r.Hash, o.Hash)
	}
	return strings.Compare(hashBytes(r.Hash), hashBytes(o.Hash))
}

// canonicalHash lowers the case of a digest: the server holds those as 16 bytes, so their case is not kept.
func canonicalHash(h string) string {
	if len(h) != 32 {
		return h
	}
	low := strings.ToLower(h)
	if isDigest(low) {
		return low
	}
	return h
}

// isDigest says whether h is an MD5 in lower-case hexadecimal.
func isDigest(h string) bool {
	if len(h) != 32 {
		return false
	}
	for i := range len(h) {
		if c := h[i]; (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return true
}

// hashBytes is what the server stores for a hash: 16 bytes for a digest, the text itself otherwise.
func hashBytes(h string) string {
	if !isDigest(h) {
		return h
	}
	b, err := hex.DecodeString(h)
	if err != nil {
		return h
	}
	return string(b)
}
