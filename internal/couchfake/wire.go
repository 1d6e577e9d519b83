package couchfake

import (
	"errors"
	"fmt"
	"net"
	"sync"
)

// Wire is a way to a server that can go dead without a word, as when a firewall forgets its connections: they stay open,
// and nothing passes any more. New ones are as good as ever, or are only accepted.
type Wire struct {
	listener net.Listener
	to       string
	running  sync.WaitGroup

	mu       sync.Mutex
	frozen   chan struct{} // closed when those that are open are dead
	mute     bool          // new ones are dead from the start
	closed   bool
	accepted int
	all      []net.Conn
}

// NewWire listens at a free local port and leads to a host:port.
func NewWire(to string) (*Wire, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // the listener lives until Close
	if err != nil {
		return nil, fmt.Errorf("listen for a wire: %w", err)
	}
	w := &Wire{listener: l, to: to, frozen: make(chan struct{})}
	w.running.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			w.running.Go(func() { w.carry(c) })
		}
	})
	return w, nil
}

// Address is where the wire begins, a host:port.
func (w *Wire) Address() string { return w.listener.Addr().String() }

// Freeze makes all open connections dead, and new ones too when mute.
func (w *Wire) Freeze(mute bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	close(w.frozen)
	w.frozen, w.mute = make(chan struct{}), mute
}

// Thaw makes new connections good again.
func (w *Wire) Thaw() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.mute = false
}

// Connections is how many were accepted so far.
func (w *Wire) Connections() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.accepted
}

// Close breaks all connections and waits for their goroutines.
func (w *Wire) Close() error {
	err := w.listener.Close()
	w.mu.Lock()
	w.closed = true
	for _, c := range w.all {
		if e := c.Close(); !errors.Is(e, net.ErrClosed) {
			err = errors.Join(err, e)
		}
	}
	w.mu.Unlock()
	w.running.Wait()
	return err
}

// carry keeps the connection's ends and passes bytes between them.
func (w *Wire) carry(client net.Conn) {
	w.mu.Lock()
	w.accepted++
	frozen := w.frozen
	w.all = append(w.all, client)
	if w.closed || w.mute {
		if w.closed {
			_ = client.Close()
		}
		w.mu.Unlock()
		return // a mute one is kept open and never read
	}
	server, err := net.Dial("tcp", w.to) //nolint:noctx // it lives until Close
	if err != nil {
		_ = client.Close()
		w.mu.Unlock()
		return
	}
	w.all = append(w.all, server)
	w.mu.Unlock()
	var both sync.WaitGroup
	both.Go(func() { pass(server, client, frozen) })
	pass(client, server, frozen)
	both.Wait()
}

// pass carries bytes until the wire freezes; then it drops them all.
func pass(to, from net.Conn, frozen <-chan struct{}) {
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		select {
		case <-frozen:
			if err != nil {
				return // and to stays open
			}
			continue
		default:
		}
		if err != nil {
			_ = to.Close()
			return
		}
		if _, err := to.Write(buf[:n]); err != nil {
			return
		}
	}
}
