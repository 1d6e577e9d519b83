package hms

import (
	"bytes"
	"encoding/binary"
	"errors"
	"slices"
	"testing"

	"github.com/jcmturner/gokrb5/v8/crypto"
	"github.com/jcmturner/gokrb5/v8/iana/etypeID"
	"github.com/jcmturner/gokrb5/v8/iana/keyusage"
	"github.com/jcmturner/gokrb5/v8/types"
)

// acceptor makes the tokens of a server: RFC 4121, section 4.2, written anew.
type acceptor struct {
	t      *testing.T
	key    types.EncryptionKey
	number uint64
	turn   int // to the right, as some servers do
}

func (a *acceptor) token(message string, private bool) []byte {
	a.t.Helper()
	kind, err := crypto.GetEtype(a.key.KeyType)
	if err != nil {
		a.t.Fatal(err)
	}
	h := make([]byte, 16)
	copy(h, []byte{5, 4, 1, 0xff})
	binary.BigEndian.PutUint64(h[8:], a.number)
	a.number++
	var body []byte
	if private {
		h[2] |= 2
		if _, body, err = kind.EncryptMessage(a.key.KeyValue, append([]byte(message), h...), keyusage.GSSAPI_ACCEPTOR_SEAL); err != nil {
			a.t.Fatal(err)
		}
	} else {
		sum, err := kind.GetChecksumHash(a.key.KeyValue, append([]byte(message), h...), keyusage.GSSAPI_ACCEPTOR_SEAL)
		if err != nil {
			a.t.Fatal(err)
		}
		body = append([]byte(message), sum...)
		binary.BigEndian.PutUint16(h[4:], uint16(len(sum)))
	}
	binary.BigEndian.PutUint16(h[6:], uint16(a.turn))
	cut := len(body) - a.turn%len(body)
	return slices.Concat(h, body[cut:], body[:cut])
}

// A server's messages are read, and none that was changed, comes again or lacks the
// protection that was agreed on.
func TestGSSAPI(t *testing.T) {
	key := types.EncryptionKey{KeyType: etypeID.AES256_CTS_HMAC_SHA1_96, KeyValue: bytes.Repeat([]byte{7}, 32)}
	for name, c := range map[string]struct {
		offer, layer byte
		turn         int
	}{"none": {1, layerNone, 0}, "integrity": {3, layerIntegrity, 0}, "privacy": {7, layerPrivacy, 0}, "turned": {6, layerPrivacy, 28}, "integrity, turned": {2, layerIntegrity, 12}} {
		t.Run(name, func(t *testing.T) {
			server := &acceptor{t: t, key: key, number: 41, turn: c.turn}
			k := &kerberosV5{first: []byte("ticket"), key: key}
			if got, err := k.step(nil); string(got) != "ticket" || err != nil {
				t.Fatalf("%q, %v", got, err)
			}
			if _, err := k.step(server.token(string([]byte{c.offer, 0, 1, 0}), false)); err != nil || k.layer != c.layer {
				t.Fatalf("layer %d, want %d, %v", k.layer, c.layer, err)
			}
			if c.layer == layerNone {
				return
			}
			token := server.token("hello", c.layer == layerPrivacy)
			for i := range token {
				bad := bytes.Clone(token)
				bad[i] ^= 0x40
				other := *k
				if got, err := other.unwrap(bad); err == nil && string(got) != "hello" { // a turn may be a whole round
					t.Errorf("byte %d changed: %q", i, got)
				}
			}
			if got, err := k.unwrap(token); string(got) != "hello" || err != nil {
				t.Errorf("%q, %v", got, err)
			}
			if _, err := k.unwrap(token); !errors.Is(err, errToken) {
				t.Errorf("the same again: %v", err)
			}
			if _, err := k.unwrap(server.token("bare", false)); (err == nil) != (c.layer == layerIntegrity) {
				t.Errorf("without privacy: %v", err)
			}
			for _, short := range [][]byte{nil, token[:10], token[:16], token[:20]} {
				if _, err := k.unwrap(short); err == nil {
					t.Errorf("%d bytes are a message", len(short))
				}
			}
		})
	}
}
