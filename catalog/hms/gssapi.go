package hms

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"

	krb "github.com/jcmturner/gokrb5/v8/client"
	"github.com/jcmturner/gokrb5/v8/crypto"
	"github.com/jcmturner/gokrb5/v8/gssapi"
	"github.com/jcmturner/gokrb5/v8/iana/keyusage"
	"github.com/jcmturner/gokrb5/v8/spnego"
	"github.com/jcmturner/gokrb5/v8/types"

	"github.com/couch2hudi/couch2hudi/internal/kerberos"
)

// Layers of RFC 4752: what is done to messages once both sides are known.
const (
	layerNone      = 1
	layerIntegrity = 2
	layerPrivacy   = 4
)

// A wrap token of RFC 4121, section 4.2.6.2: its head, and the flags that we know.
const (
	tokenHead    = 16
	flagAcceptor = 1
	flagSealed   = 2
)

// kerberosV5 is GSSAPI: a ticket of Kerberos, of which the server proves that it reads it.
type kerberosV5 struct {
	principal string
	first     []byte
	key       types.EncryptionKey
	layer     byte
	sent      uint64
	// heard is the number that the server's next message has, once it is known.
	heard *uint64
}

// newKerberos asks the KDC for a ticket to a service, such as hive/host, and gives who
// we are as well.
func newKerberos(principal, host string) (*kerberosV5, string, error) {
	c, err := kerberos.Client()
	if err != nil {
		return nil, "", err
	}
	defer c.Destroy() // or it renews its tickets for ever
	principal, _, _ = strings.Cut(principal, "@")
	k := &kerberosV5{principal: strings.Replace(principal, "_HOST", strings.ToLower(host), 1)}
	return k, c.Credentials.UserName(), k.ticket(c)
}

func (k *kerberosV5) ticket(c *krb.Client) error {
	ticket, key, err := c.GetServiceTicket(k.principal)
	if err != nil {
		return fmt.Errorf("ask for a ticket to %s: %w", k.principal, err)
	}
	// Not mutual: the server's first wrapped message, which is checked, proves who it is.
	token, err := spnego.NewKRB5TokenAPREQ(c, ticket, key, []int{gssapi.ContextFlagInteg, gssapi.ContextFlagConf}, nil)
	if err != nil {
		return err
	}
	k.key = key
	k.first, err = token.Marshal()
	return err
}

func (k *kerberosV5) name() string { return "GSSAPI" }

// step sends the ticket, and chooses the strongest layer of those that are offered.
func (k *kerberosV5) step(said []byte) ([]byte, error) {
	if first := k.first; first != nil {
		k.first = nil
		return first, nil
	}
	if len(said) == 0 {
		return nil, nil
	}
	offer, err := k.open(said)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", k.principal, err)
	}
	const length = 4
	if len(offer) != length {
		return nil, fmt.Errorf("%s offers %d bytes, not %d", k.principal, len(offer), length)
	}
	for _, layer := range []byte{layerNone, layerIntegrity, layerPrivacy} {
		if offer[0]&layer != 0 {
			k.layer = layer
		}
	}
	answer := []byte{k.layer, 0xff, 0xff, 0xff} // with the largest message that we take
	switch k.layer {
	case 0:
		return nil, fmt.Errorf("%s offers no way of protection that is known", k.principal)
	case layerNone:
		answer = []byte{k.layer, 0, 0, 0}
	}
	return k.seal(answer, false)
}

func (k *kerberosV5) wrap(message []byte) ([]byte, error) {
	if k.layer == layerNone {
		return message, nil
	}
	return k.seal(message, k.layer == layerPrivacy)
}

func (k *kerberosV5) unwrap(message []byte) ([]byte, error) {
	if k.layer == layerNone {
		return message, nil
	}
	return k.open(message)
}

// head is that of a token, as it stands in front of it, and as checksums see it.
func head(flags byte, extra uint16, number uint64) []byte {
	h := []byte{5, 4, flags, 0xff, 0, 0, 0, 0}
	binary.BigEndian.PutUint16(h[4:], extra)
	return binary.BigEndian.AppendUint64(h, number)
}

// seal makes a token of a message, with a checksum, or private.
func (k *kerberosV5) seal(message []byte, private bool) ([]byte, error) {
	kind, err := crypto.GetEtype(k.key.KeyType)
	if err != nil {
		return nil, err
	}
	number := k.sent
	k.sent++
	if private {
		h := head(flagSealed, 0, number)
		_, secret, err := kind.EncryptMessage(k.key.KeyValue, append(bytes.Clone(message), h...), keyusage.GSSAPI_INITIATOR_SEAL)
		return append(h, secret...), err
	}
	sum, err := kind.GetChecksumHash(k.key.KeyValue, append(bytes.Clone(message), head(0, 0, number)...), keyusage.GSSAPI_INITIATOR_SEAL)
	return append(append(head(0, uint16(len(sum)), number), message...), sum...), err
}

var errToken = errors.New("the metastore's message is not what Kerberos would have made of it")

// open is the message of a server's token.
func (k *kerberosV5) open(token []byte) ([]byte, error) {
	if len(token) < tokenHead || token[0] != 5 || token[1] != 4 || token[2]&flagAcceptor == 0 || token[3] != 0xff {
		return nil, errToken
	}
	flags, extra, turned := token[2], binary.BigEndian.Uint16(token[4:]), int(binary.BigEndian.Uint16(token[6:]))
	number, body := binary.BigEndian.Uint64(token[8:]), token[tokenHead:]
	if k.layer == layerPrivacy && flags&flagSealed == 0 || k.heard != nil && *k.heard != number {
		return nil, errToken
	}
	if len(body) > 0 {
		turned %= len(body)
		body = append(bytes.Clone(body[turned:]), body[:turned]...)
	}
	message, err := k.content(body, flags, extra, number)
	if err != nil {
		return nil, err
	}
	next := number + 1
	k.heard = &next
	return message, nil
}

// content is what a token's body holds, which is checked.
func (k *kerberosV5) content(body []byte, flags byte, extra uint16, number uint64) ([]byte, error) {
	if flags&flagSealed != 0 {
		open, err := crypto.DecryptMessage(body, k.key, keyusage.GSSAPI_ACCEPTOR_SEAL)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", errToken, err)
		}
		end := len(open) - tokenHead - int(extra)
		if end < 0 || !bytes.Equal(open[len(open)-tokenHead:], head(flags, extra, number)) {
			return nil, errToken
		}
		return open[:end], nil
	}
	end := len(body) - int(extra)
	if end < 0 {
		return nil, errToken
	}
	kind, err := crypto.GetEtype(k.key.KeyType)
	if err != nil {
		return nil, err
	}
	if !kind.VerifyChecksum(k.key.KeyValue, append(bytes.Clone(body[:end]), head(flags, 0, number)...), body[end:], keyusage.GSSAPI_ACCEPTOR_SEAL) {
		return nil, errToken
	}
	return body[:end], nil
}
