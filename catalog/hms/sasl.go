package hms

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/apache/thrift/lib/go/thrift"
)

// What a message of the log in is about, as Thrift's TSaslTransport has it.
const (
	saslStart    = 1
	saslOK       = 2
	saslComplete = 5
)

// mechanism is a way of SASL to say who one is.
type mechanism interface {
	// name is SASL's name for it.
	name() string
	// step answers what the server said, which is nothing at first.
	step(said []byte) ([]byte, error)
	// wrap and unwrap are what is done to messages after that.
	wrap(message []byte) ([]byte, error)
	unwrap(message []byte) ([]byte, error)
}

// plain is PLAIN: user and password.
type plain struct{ user, password string }

func (p plain) name() string { return "PLAIN" }

func (p plain) step([]byte) ([]byte, error) {
	return []byte("\x00" + p.user + "\x00" + p.password), nil
}

func (p plain) wrap(message []byte) ([]byte, error)   { return message, nil }
func (p plain) unwrap(message []byte) ([]byte, error) { return message, nil }

// saslTransport sends each message of Thrift with its length, as the mechanism wraps it.
type saslTransport struct {
	thrift.TTransport // the connection

	how  mechanism
	most uint32 // bytes of a message
	out  bytes.Buffer
	in   bytes.Reader
}

// logIn says who we are.
func (s *saslTransport) logIn(ctx context.Context) error {
	if err := s.send(ctx, saslStart, []byte(s.how.name())); err != nil {
		return err
	}
	var said []byte
	for {
		answer, err := s.how.step(said)
		if err != nil {
			return err
		}
		if err := s.send(ctx, saslOK, answer); err != nil {
			return err
		}
		var status byte
		if status, said, err = s.receive(); err != nil {
			return fmt.Errorf("no answer to %s: %w", s.how.name(), err)
		}
		switch status {
		case saslComplete:
			return nil
		case saslOK:
		default:
			return fmt.Errorf("the metastore refuses %s: %s", s.how.name(), said)
		}
	}
}

func (s *saslTransport) send(ctx context.Context, status byte, text []byte) error {
	message := append(binary.BigEndian.AppendUint32([]byte{status}, uint32(len(text))), text...)
	if _, err := s.TTransport.Write(message); err != nil {
		return err
	}
	return s.TTransport.Flush(ctx)
}

func (s *saslTransport) receive() (byte, []byte, error) {
	const most = 1 << 16 // of what is said while one logs in
	var status [1]byte
	if _, err := io.ReadFull(s.TTransport, status[:]); err != nil {
		return 0, nil, err
	}
	text, err := s.frame(most)
	return status[0], text, err
}

// frame is what follows its length.
func (s *saslTransport) frame(most uint32) ([]byte, error) {
	var head [4]byte
	if _, err := io.ReadFull(s.TTransport, head[:]); err != nil {
		return nil, err
	}
	n := binary.BigEndian.Uint32(head[:])
	if n > most {
		return nil, fmt.Errorf("a message of %d bytes, where at most %d are expected: does the metastore speak SASL?", n, most)
	}
	text := make([]byte, n)
	_, err := io.ReadFull(s.TTransport, text)
	return text, err
}

// Read reads of the messages that come.
func (s *saslTransport) Read(b []byte) (int, error) {
	for s.in.Len() == 0 {
		wrapped, err := s.frame(s.most)
		if err != nil {
			return 0, thrift.NewTTransportExceptionFromError(err)
		}
		message, err := s.how.unwrap(wrapped)
		if err != nil {
			return 0, thrift.NewTTransportExceptionFromError(err)
		}
		s.in.Reset(message)
	}
	return s.in.Read(b)
}

// Write gathers a message.
func (s *saslTransport) Write(b []byte) (int, error) { return s.out.Write(b) }

// Flush sends it.
func (s *saslTransport) Flush(ctx context.Context) error {
	message, err := s.how.wrap(s.out.Bytes())
	s.out.Reset()
	if err != nil {
		return thrift.NewTTransportExceptionFromError(err)
	}
	_, err = s.TTransport.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(message))), message...))
	return errors.Join(err, s.TTransport.Flush(ctx))
}

// RemainingBytes are not known.
func (s *saslTransport) RemainingBytes() uint64 { return ^uint64(0) }
