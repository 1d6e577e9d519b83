package hdfs

import (
	"crypto/hmac"
	"crypto/md5" //nolint:gosec // what RFC 2831 is made of
	"crypto/rand"
	"crypto/rc4" //nolint:gosec // likewise
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
)

// The words of DIGEST-MD5 for the levels of protection.
const (
	qopAuthentication = "auth"
	qopIntegrity      = "auth-int"
	qopPrivacy        = "auth-conf"
)

// digest is a client's side of DIGEST-MD5 (RFC 2831), as Hadoop's data nodes ask for it:
// one answer to one challenge.
type digest struct {
	uri                  string // service and host
	user, password       string
	realm, nonce, cnonce string
	qop, cipher          string
}

var challengeWords = regexp.MustCompile(`([a-zA-Z0-9-]+)=(?:"([^"]*)"|([^,]*))`)

// answer is the answer to a challenge, at the first of the levels that is offered.
func (d *digest) answer(challenge []byte, levels []string) ([]byte, error) {
	words := map[string]string{}
	for _, m := range challengeWords.FindAllSubmatch(challenge, -1) {
		words[string(m[1])] = string(m[2]) + string(m[3])
	}
	d.realm, d.nonce = words["realm"], words["nonce"]
	if d.nonce == "" {
		return nil, fmt.Errorf("the data node's challenge has no nonce: %q", challenge)
	}
	offered := strings.Split(words["qop"], ",")
	at := slices.IndexFunc(levels, func(level string) bool { return slices.Contains(offered, level) })
	if at < 0 {
		return nil, fmt.Errorf("the data node protects data by %s, dfs.data.transfer.protection here says %s", offered, levels)
	}
	d.qop = levels[at]
	if d.qop == qopPrivacy {
		if !slices.Contains(strings.Split(words["cipher"], ","), "rc4") {
			return nil, fmt.Errorf("the data node encrypts by %q alone", words["cipher"])
		}
		d.cipher = ",cipher=rc4"
	}
	if d.cnonce == "" {
		d.cnonce = rand.Text()
	}
	return fmt.Appendf(nil, `charset=utf-8,username="%s",realm="%s",nonce="%s",nc=00000001,cnonce="%s",digest-uri="%s",response=%s,qop=%s%s`,
		d.user, d.realm, d.nonce, d.cnonce, d.uri, d.proof("AUTHENTICATE"), d.qop, d.cipher), nil
}

// check is whether the server knows the password as well.
func (d *digest) check(answer []byte) error {
	if string(answer) != "rspauth="+d.proof("") {
		return errors.New("the data node's answer does not prove that it knows the block's token")
	}
	return nil
}

func (d *digest) secret() string {
	return sum(d.user+":"+d.realm+":"+d.password) + ":" + d.nonce + ":" + d.cnonce
}

func (d *digest) proof(method string) string {
	what := method + ":" + d.uri
	if d.qop != qopAuthentication {
		what += ":" + strings.Repeat("0", 2*md5.Size)
	}
	parts := []string{hexSum(d.secret()), d.nonce, "00000001", d.cnonce, d.qop, hexSum(what)}
	return hexSum(strings.Join(parts, ":"))
}

func sum(s string) string {
	h := md5.Sum([]byte(s)) //nolint:gosec // see above
	return string(h[:])
}

func hexSum(s string) string { return hex.EncodeToString([]byte(sum(s))) }

// key is one of the keys of a session.
func (d *digest) key(of string) []byte { return []byte(sum(sum(d.secret()) + of)) }

// sealed is a stream that goes both ways in messages that are signed, and encrypted
// if there are ciphers: length, content, ten bytes of a signature, a type, a number.
type sealed struct {
	conn          io.ReadWriter
	inKey, outKey []byte
	in, out       *rc4.Cipher // nil when they are not encrypted
	inNum, outNum uint32
	message, rest []byte // rest is what of message was not read yet
}

const (
	sealedMost   = 32 << 10 // bytes that are sent in one message; the other side takes 64 KiB
	sealedLimit  = 16 << 20 // more than any message has
	signatureLen = 10
	sealedType   = "\x00\x01"
	sealedTail   = len(sealedType) + 4
)

func (d *digest) seal(conn io.ReadWriter) (*sealed, error) {
	s := &sealed{conn: conn,
		outKey: d.key("Digest session key to client-to-server signing key magic constant"),
		inKey:  d.key("Digest session key to server-to-client signing key magic constant")}
	if d.qop != qopPrivacy {
		return s, nil
	}
	var err error
	if s.out, err = rc4.NewCipher(d.key("Digest H(A1) to client-to-server sealing key magic constant")); err != nil { //nolint:gosec // see above
		return nil, err
	}
	s.in, err = rc4.NewCipher(d.key("Digest H(A1) to server-to-client sealing key magic constant")) //nolint:gosec // see above
	return s, err
}

func signature(key []byte, num uint32, content []byte) []byte {
	h := hmac.New(md5.New, key)
	_, _ = h.Write(binary.BigEndian.AppendUint32(nil, num))
	_, _ = h.Write(content)
	return h.Sum(nil)[:signatureLen]
}

// Write implements io.Writer.
func (s *sealed) Write(p []byte) (int, error) {
	for at := 0; at < len(p); at += sealedMost {
		part := p[at:min(at+sealedMost, len(p))]
		m := make([]byte, 4, 4+len(part)+signatureLen+sealedTail)
		m = append(append(m, part...), signature(s.outKey, s.outNum, part)...)
		if s.out != nil {
			s.out.XORKeyStream(m[4:], m[4:])
		}
		m = binary.BigEndian.AppendUint32(append(m, sealedType...), s.outNum)
		binary.BigEndian.PutUint32(m, uint32(len(m)-4))
		s.outNum++
		if _, err := s.conn.Write(m); err != nil {
			return at, err
		}
	}
	return len(p), nil
}

// Read implements io.Reader.
func (s *sealed) Read(p []byte) (int, error) {
	for len(s.rest) == 0 && len(p) > 0 {
		if err := s.next(); err != nil {
			return 0, err
		}
	}
	n := copy(p, s.rest)
	s.rest = s.rest[n:]
	return n, nil
}

// next reads a message.
func (s *sealed) next() error {
	var head [4]byte
	if _, err := io.ReadFull(s.conn, head[:]); err != nil {
		return err
	}
	size := binary.BigEndian.Uint32(head[:])
	if size > sealedLimit {
		return fmt.Errorf("the data node sends a message of %d bytes", size)
	}
	s.message = slices.Grow(s.message[:0], int(size))[:size]
	if _, err := io.ReadFull(s.conn, s.message); err != nil {
		return unexpected(err)
	}
	content, err := s.open(s.message)
	s.rest = content
	return err
}

// open is the content of a message, which it overwrites.
func (s *sealed) open(m []byte) ([]byte, error) {
	size := len(m) - signatureLen - sealedTail
	if size < 0 {
		return nil, fmt.Errorf("the data node sends a message of %d bytes, which is too short", len(m))
	}
	signed := m[:size+signatureLen]
	if s.in != nil {
		s.in.XORKeyStream(signed, signed)
	}
	want := append(signature(s.inKey, s.inNum, m[:size]), binary.BigEndian.AppendUint32([]byte(sealedType), s.inNum)...)
	if !hmac.Equal(m[size:], want) {
		return nil, errors.New("a message of the data node does not bear its signature")
	}
	s.inNum++
	return m[:size], nil
}

// unexpected is err where more was to come.
func unexpected(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}
