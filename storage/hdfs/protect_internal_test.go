package hdfs

import (
	"bufio"
	"bytes"
	"context"
	"crypto/aes"
	"crypto/cipher"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"strings"
	"testing"
	"testing/iotest"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoregistry"
)

// The example of RFC 2831, page 18.
func TestDigest(t *testing.T) {
	d := digest{uri: "imap/elwood.innosoft.com", user: "chris", password: "secret", cnonce: "OA6MHXh6VqTrRk"}
	challenge := `realm="elwood.innosoft.com",nonce="OA6MG9tEQGm2hh",qop="auth",algorithm=md5-sess,charset=utf-8`
	answer, err := d.answer([]byte(challenge), []string{qopPrivacy, qopAuthentication})
	if err != nil || !strings.Contains(string(answer), "response=d388dad90d4bbd760a152321f2143af7,qop=auth") {
		t.Errorf("answer %s, %v", answer, err)
	}
	if err := d.check([]byte("rspauth=ea40f60335c427b5527b84dbabcdfffd")); err != nil {
		t.Error(err)
	}
	if d.check([]byte("rspauth=ea40f60335c427b5527b84dbabcdfffe")) == nil {
		t.Error("a wrong proof is taken")
	}
	for _, challenge := range []string{"", `nonce="x",qop="auth-int"`, `nonce="x",qop="auth-conf",cipher="3des"`} {
		if _, err := d.answer([]byte(challenge), []string{qopPrivacy, qopAuthentication}); err == nil {
			t.Errorf("%q is answered", challenge)
		}
	}
}

const (
	blockID       = "identifier of the block"
	blockPassword = "password of the block"
)

// request is a request to read a block, as the library writes it.
func request(t *testing.T) []byte {
	t.Helper()
	text := func(s string) []byte { return protowire.AppendBytes(nil, []byte(s)) }
	token := append(append([]byte("\x0a"), text(blockID)...), append([]byte("\x12"), text(blockPassword)...)...)
	token = append(token, "\x1a\x00\x22\x00"...)
	block := "\x0a\x01p\x10\x01\x18\x01"
	base := append(append([]byte("\x0a"), text(block)...), append([]byte("\x12"), text(string(token))...)...)
	header := append(append([]byte("\x0a"), text(string(base))...), "\x12\x01c"...)
	op := append(append([]byte("\x0a"), text(string(header))...), "\x10\x00\x18\x01"...)
	return append([]byte{0, 0x1c, 0x51}, protowire.AppendBytes(nil, op)...)
}

// dataNode is the other side of a handshake at a level; aesToo says that it goes on
// with AES. Then it sends back what it gets.
func dataNode(c net.Conn, level string, aesToo bool) error {
	defer func() { _ = c.Close() }()
	from := bufio.NewReader(c)
	if _, err := io.ReadFull(from, make([]byte, len(encrypted))); err != nil {
		return err
	}
	text := base64.StdEncoding.EncodeToString
	d := &digest{uri: "hdfs/0", user: text([]byte(blockID)), password: text([]byte(blockPassword)), realm: "0", nonce: "n", qop: level}
	if _, err := take(from); err != nil {
		return err
	}
	if err := give(c, fmt.Sprintf(`realm="0",nonce="n",qop="%s",charset=utf-8,algorithm=md5-sess,cipher="3des,rc4"`, level), nil); err != nil {
		return err
	}
	answer, err := take(from)
	if err != nil {
		return err
	}
	for _, m := range challengeWords.FindAllStringSubmatch(answer, -1) {
		if m[1] == "cnonce" {
			d.cnonce = m[2]
		}
	}
	if !strings.Contains(answer, "response="+d.proof("AUTHENTICATE")+",") {
		return fmt.Errorf("the answer %q is wrong", answer)
	}
	s, err := d.seal(readWriter{from, c})
	if err != nil {
		return err
	}
	s.in, s.out, s.inKey, s.outKey = s.out, s.in, s.outKey, s.inKey
	var both io.ReadWriter = s
	if level == qopAuthentication {
		both = readWriter{from, c}
	}
	var options []byte
	if aesToo {
		both, options = withAES(s, readWriter{from, c})
	}
	if err := give(c, "rspauth="+d.proof(""), options); err != nil {
		return err
	}
	_, err = io.Copy(both, struct{ io.Reader }{both})
	return err
}

// withAES is a stream over c, and the option that says so, whose keys s signs.
func withAES(s *sealed, c io.ReadWriter) (io.ReadWriter, []byte) {
	var option bytes.Buffer
	option.WriteString("\x08\x02")
	streams := make([]cipher.Stream, 2)
	for i := range streams {
		key, iv := bytes.Repeat([]byte{byte(i + 1)}, 16), bytes.Repeat([]byte{byte(i + 3)}, 16)
		var signed bytes.Buffer
		signer := *s
		signer.conn, signer.outNum = &signed, uint32(i)
		_, _ = signer.Write(key)
		option.WriteByte(byte(0x12 + 16*i))
		option.Write(protowire.AppendBytes(nil, signed.Bytes()[4:]))
		option.WriteByte(byte(0x1a + 16*i))
		option.Write(protowire.AppendBytes(nil, iv))
		block, _ := aes.NewCipher(key)
		streams[i] = cipher.NewCTR(block, iv)
	}
	return readWriter{cipher.StreamReader{S: streams[0], R: c}, cipher.StreamWriter{S: streams[1], W: c}}, option.Bytes()
}

func give(c io.Writer, payload string, option []byte) error {
	m := append([]byte("\x08\x00\x12"), protowire.AppendBytes(nil, []byte(payload))...)
	if option != nil {
		m = append(append(m, 0x22), protowire.AppendBytes(nil, option)...)
	}
	_, err := c.Write(protowire.AppendBytes(nil, m))
	return err
}

func take(from *bufio.Reader) (string, error) {
	size, err := binary.ReadUvarint(from)
	if err != nil {
		return "", err
	}
	data := make([]byte, size)
	if _, err := io.ReadFull(from, data); err != nil {
		return "", err
	}
	kind, err := protoregistry.GlobalTypes.FindMessageByName("hadoop.hdfs.DataTransferEncryptorMessageProto")
	if err != nil {
		return "", err
	}
	m := kind.New()
	err = proto.Unmarshal(data, m.Interface())
	return string(value(m, "payload").Bytes()), err
}

// TestProtected: what goes over a protected connection comes back, however it is cut.
func TestProtected(t *testing.T) {
	for _, c := range []struct {
		level, setting string
		aes            bool
	}{
		{qopAuthentication, "authentication", false}, {qopIntegrity, "integrity", false}, {qopPrivacy, "privacy", false}, {qopPrivacy, "privacy,authentication", true},
		{qopAuthentication, "Integrity, authentication", false},
	} {
		t.Run(fmt.Sprint(c.setting, c.aes), func(t *testing.T) {
			levels, err := dataLevels(c.setting)
			if err != nil {
				t.Fatal(err)
			}
			here, there := net.Pipe()
			node := make(chan error, 1)
			go func() { node <- dataNode(there, c.level, c.aes) }()
			conn, err := protected(func(context.Context, string, string) (net.Conn, error) { return here, nil }, levels)(t.Context(), "tcp", "node")
			if err != nil {
				t.Fatal(err)
			}
			random := rand.New(rand.NewPCG(1, 2))
			sent := request(t)
			if _, err := conn.Write(sent); err != nil {
				t.Fatal(err)
			}
			rest := make([]byte, 200_000)
			for i := range rest {
				rest[i] = byte(random.Uint32())
			}
			wrote := make(chan error, 1)
			go func() { wrote <- inPieces(conn, rest, random) }()
			sent = append(sent, rest...)
			got := make([]byte, len(sent))
			const first = 100_000
			if _, err := io.ReadFull(iotest.HalfReader(conn), got[:first]); err != nil {
				t.Fatal(err)
			}
			if _, err := io.ReadFull(conn, got[first:]); err != nil {
				t.Fatal(err)
			}
			if err := <-wrote; err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(got, sent) {
				t.Error("what came back differs")
			}
			_ = conn.Close()
			<-node
		})
	}
	if _, err := dataLevels("privcy"); err == nil {
		t.Error("privcy is a level")
	}
}

func inPieces(w io.Writer, p []byte, random *rand.Rand) error {
	for len(p) > 0 {
		n := min(len(p), 1+random.IntN(3*sealedMost))
		if _, err := w.Write(p[:n]); err != nil {
			return err
		}
		p = p[n:]
	}
	return nil
}

// A data node that does not offer a level, or does not know the token, gets nothing.
func TestNotProtected(t *testing.T) {
	for level, want := range map[string]string{qopAuthentication: "dfs.data.transfer.protection here says", qopIntegrity: "dfs.data.transfer.protection here says"} {
		here, there := net.Pipe()
		node := make(chan error, 1)
		go func() { node <- dataNode(there, level, false) }()
		conn, err := protected(func(context.Context, string, string) (net.Conn, error) { return here, nil }, []string{qopPrivacy})(t.Context(), "tcp", "node")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := conn.Write(request(t)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", level, err)
		}
		<-node
	}
}

// A message that was changed on its way is not read.
func TestSealed(t *testing.T) {
	for _, qop := range []string{qopIntegrity, qopPrivacy} {
		d := &digest{uri: "hdfs/0", user: "u", password: "p", nonce: "n", cnonce: "c", qop: qop}
		var wire bytes.Buffer
		out, err := d.seal(&wire)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := out.Write([]byte("content")); err != nil {
			t.Fatal(err)
		}
		for at := range wire.Len() {
			changed := bytes.Clone(wire.Bytes())
			changed[at] ^= 1
			in, err := d.seal(bytes.NewBuffer(changed))
			if err != nil {
				t.Fatal(err)
			}
			in.in, in.inKey = in.out, in.outKey
			if n, err := in.Read(make([]byte, 100)); err == nil {
				t.Errorf("%s: changed at %d, %d bytes are read", qop, at, n)
			}
		}
	}
}
