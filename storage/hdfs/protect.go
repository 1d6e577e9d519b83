package hdfs

import (
	"bufio"
	"bytes"
	"context"
	"crypto/aes"
	"crypto/cipher"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"sync"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
)

// What goes to and from data nodes is protected here (dfs.data.transfer.protection):
// the library, up to 2.4.0 at least, loses bytes where a read begins in one signed
// message and ends in the next, so that nothing can be read. It is told that there is
// no protection, and gets connections that have it: its first words name the block's
// token, and that is what the data node asks for.

type dialFunc func(ctx context.Context, network, address string) (net.Conn, error)

// dataLevels are the levels of dfs.data.transfer.protection, as DIGEST-MD5 calls them.
func dataLevels(setting string) (levels []string, err error) {
	names := map[string]string{"authentication": qopAuthentication, "integrity": qopIntegrity, "privacy": qopPrivacy}
	for name := range strings.SplitSeq(setting, ",") {
		level, ok := names[strings.ToLower(strings.TrimSpace(name))]
		if !ok {
			return nil, fmt.Errorf("dfs.data.transfer.protection is %q: it has authentication, integrity and privacy", setting)
		}
		levels = append(levels, level)
	}
	return levels, nil
}

// protected has connections protected at one of the levels, the first that a data node
// offers. One on a port that only root can have needs none.
func protected(dial dialFunc, levels []string) dialFunc {
	const privileged = 1024
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		c, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		if at, ok := c.RemoteAddr().(*net.TCPAddr); ok && at.Port < privileged {
			return c, nil
		}
		return &protectedConn{Conn: c, levels: levels}, nil
	}
}

// encrypted is how a handshake begins.
var encrypted = []byte{0xde, 0xad, 0xbe, 0xef}

// protectedConn is protected from its first write on.
type protectedConn struct {
	net.Conn
	levels []string

	writing sync.Mutex
	to      io.Writer // nil before the first write
	from    io.Reader
}

// Read implements net.Conn.
func (c *protectedConn) Read(p []byte) (int, error) {
	if c.from == nil {
		return 0, errors.New("a data node is to speak first")
	}
	return c.from.Read(p)
}

// Write implements net.Conn.
func (c *protectedConn) Write(p []byte) (int, error) {
	c.writing.Lock()
	defer c.writing.Unlock()
	if c.to == nil && bytes.HasPrefix(p, encrypted) {
		c.to, c.from = c.Conn, c.Conn // the library does it: the name node says that all is encrypted
	}
	if c.to == nil {
		if err := c.shake(p); err != nil {
			_ = c.Close()
			return 0, fmt.Errorf("agree with the data node %s upon the protection of data: %w", c.RemoteAddr(), err)
		}
	}
	return c.to.Write(p)
}

// shake is the handshake, before the request that follows.
func (c *protectedConn) shake(request []byte) error {
	d, err := digestOf(request)
	if err != nil {
		return err
	}
	from := bufio.NewReader(c.Conn)
	if _, err := c.Conn.Write(encrypted); err != nil {
		return err
	}
	m, err := c.exchange(from, nil, false)
	if err != nil {
		return err
	}
	answer, err := d.answer(value(m, "payload").Bytes(), c.levels)
	if err != nil {
		return err
	}
	if m, err = c.exchange(from, answer, d.qop == qopPrivacy); err != nil {
		return err
	}
	if err := d.check(value(m, "payload").Bytes()); err != nil {
		return err
	}
	if d.qop == qopAuthentication {
		c.to, c.from = c.Conn, from
		return nil
	}
	s, err := d.seal(readWriter{from, c.Conn})
	if err != nil {
		return err
	}
	c.to, c.from = s, s
	if options := value(m, "cipherOption").List(); options.Len() > 0 {
		return c.faster(s, from, options.Get(0).Message())
	}
	return nil
}

type readWriter struct {
	io.Reader
	io.Writer
}

// faster goes on with AES, by keys that the data node has chosen.
func (c *protectedConn) faster(s *sealed, from io.Reader, option protoreflect.Message) error {
	stream := func(keyField, ivField protoreflect.Name) (cipher.Stream, error) {
		key, err := s.open(slices.Clone(value(option, keyField).Bytes()))
		if err != nil {
			return nil, err
		}
		block, err := aes.NewCipher(key)
		if err != nil {
			return nil, err
		}
		iv := value(option, ivField).Bytes()
		if len(iv) != block.BlockSize() {
			return nil, fmt.Errorf("the data node's cipher begins with %d bytes, not %d", len(iv), block.BlockSize())
		}
		return cipher.NewCTR(block, iv), nil
	}
	out, err := stream("inKey", "inIv") // the data node's names
	if err != nil {
		return err
	}
	in, err := stream("outKey", "outIv")
	if err != nil {
		return err
	}
	c.to, c.from = cipher.StreamWriter{S: out, W: c.Conn}, cipher.StreamReader{S: in, R: from}
	return nil
}

// exchange sends a message of the handshake, and gives the answer.
func (c *protectedConn) exchange(from *bufio.Reader, payload []byte, offerAES bool) (protoreflect.Message, error) {
	kind, err := protoregistry.GlobalTypes.FindMessageByName("hadoop.hdfs.DataTransferEncryptorMessageProto")
	if err != nil {
		return nil, err
	}
	m := kind.New()
	m.Set(m.Descriptor().Fields().ByName("status"), protoreflect.ValueOfEnum(0))
	if payload != nil {
		m.Set(m.Descriptor().Fields().ByName("payload"), protoreflect.ValueOfBytes(payload))
	}
	if offerAES {
		const aesCTR = 2 // AES_CTR_NOPADDING of hdfs.proto
		options := m.Mutable(m.Descriptor().Fields().ByName("cipherOption")).List()
		option := options.NewElement()
		option.Message().Set(option.Message().Descriptor().Fields().ByName("suite"), protoreflect.ValueOfEnum(aesCTR))
		options.Append(option)
	}
	data, err := proto.Marshal(m.Interface())
	if err != nil {
		return nil, err
	}
	if _, err := c.Conn.Write(protowire.AppendBytes(nil, data)); err != nil {
		return nil, err
	}
	size, err := binary.ReadUvarint(from)
	if err != nil {
		return nil, unexpected(err)
	}
	if size > sealedLimit {
		return nil, fmt.Errorf("it sends a message of %d bytes", size)
	}
	data = make([]byte, size)
	if _, err := io.ReadFull(from, data); err != nil {
		return nil, unexpected(err)
	}
	m = kind.New()
	if err := proto.Unmarshal(data, m.Interface()); err != nil {
		return nil, err
	}
	if status := value(m, "status").Enum(); status != 0 {
		return nil, fmt.Errorf("it refuses (%d): %s", status, value(m, "message").String())
	}
	return m, nil
}

// digestOf is how to log in with the token that is named by a request to read or write
// a block: two bytes of version, a code, and a message with its length.
func digestOf(request []byte) (*digest, error) {
	const header, write, read = 3, 0x50, 0x51
	if len(request) < header {
		return nil, errors.New("the request is too short")
	}
	names := map[byte]protoreflect.FullName{write: "hadoop.hdfs.OpWriteBlockProto", read: "hadoop.hdfs.OpReadBlockProto"}
	kind, err := protoregistry.GlobalTypes.FindMessageByName(names[request[header-1]])
	if err != nil {
		return nil, fmt.Errorf("request %#x: %w", request[header-1], err)
	}
	data, n := protowire.ConsumeBytes(request[header:])
	if n < 0 {
		return nil, protowire.ParseError(n)
	}
	m := kind.New()
	if err := proto.Unmarshal(data, m.Interface()); err != nil {
		return nil, err
	}
	token := value(value(value(m, "header").Message(), "baseHeader").Message(), "token").Message()
	text := base64.StdEncoding.EncodeToString
	return &digest{uri: "hdfs/0", user: text(value(token, "identifier").Bytes()), password: text(value(token, "password").Bytes())}, nil
}

func value(m protoreflect.Message, field protoreflect.Name) protoreflect.Value {
	return m.Get(m.Descriptor().Fields().ByName(field))
}
