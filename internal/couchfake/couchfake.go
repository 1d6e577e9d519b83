// Package couchfake is a CouchDB over real HTTP that lives in a test or a demo.
//
// It keeps a tree of revisions for every document and picks winners as CouchDB 3.5 does, computes the same revisions,
// serves opaque seqs over shards whose rows come in varying order, and stores JSON as a real server would give it back.
// On top of that it misbehaves on demand (Control), and it tells from the trees themselves what a follower should have
// come to (Database.Docs).
//
// One file holds one endpoint. What is not there: views, Mango, the content of attachments, replication jobs, more than
// one node. A database lives in memory.
package couchfake

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"
)

// Options say what kind of server it is. The zero value listens on a free local port, lets everyone do everything, and
// has the limits of a real server.
type Options struct {
	// Address to listen on; empty is a free port of 127.0.0.1.
	Address string
	// Admins are names and passwords of server admins. Without any, every request is an admin's, as on a fresh CouchDB 2.
	Admins map[string]string
	// Users are names and passwords of users who are no admins. They see the databases that they are members of.
	Users map[string]string
	// Shards is the number of shards (q) of a database that does not ask for another; zero is 2.
	Shards int
	// Seed varies in what order the shards' rows are mixed. Each request mixes in a way of its own, the same at each run.
	Seed uint64
	// MaxDocumentSize in bytes; zero is 8,000,000. A larger document is refused with 413.
	MaxDocumentSize int64
	// FeedTimeout ends an idle feed without heartbeat, and is the most that a request may ask for; zero is 60 s.
	FeedTimeout time.Duration
	// SessionLifetime of a cookie; zero is 10 minutes.
	SessionLifetime time.Duration
	// HeaderAuth turns on proxy authentication and JSON Web Tokens.
	HeaderAuth HeaderAuth
	// Trace, when set, is called with each request before it is answered. It must not keep or change it, and be safe for concurrent use.
	Trace func(*http.Request)
}

func (o Options) withDefaults() Options {
	if o.Address == "" {
		o.Address = "127.0.0.1:0"
	}
	if o.Shards <= 0 {
		o.Shards = 2
	}
	if o.MaxDocumentSize <= 0 {
		o.MaxDocumentSize = 8_000_000
	}
	if o.FeedTimeout <= 0 {
		o.FeedTimeout = time.Minute
	}
	if o.SessionLifetime <= 0 {
		o.SessionLifetime = 10 * time.Minute
	}
	return o
}

// Server is a fake CouchDB. It is an http.Handler, and listens by itself when Start made it.
type Server struct {
	opts   Options
	uuid   string
	secret []byte

	mu        sync.Mutex
	databases map[string]*Database
	lastBorn  int64
	orders    []*Order
	updates   updates
	epoch     int // sessions of an earlier one have expired

	running int           // handlers at work
	closed  bool          // no handler may begin
	closing chan struct{} // closed to end the handlers that wait
	idle    chan struct{} // closed when the last of them is gone; nil while nobody waits

	address  string
	http     *http.Server
	served   chan error
	stopping sync.Mutex // held by Stop and Restart
}

// New returns a server that does not listen: mount it as a handler.
func New(o Options) *Server {
	return &Server{
		opts: o.withDefaults(), uuid: newUUID(), secret: []byte(newUUID()),
		databases: map[string]*Database{}, closing: make(chan struct{}),
	}
}

// Start returns a server that listens.
func Start(o Options) (*Server, error) {
	s := New(o)
	if err := s.listen(s.opts.Address); err != nil {
		return nil, fmt.Errorf("start fake couchdb: %w", err)
	}
	return s, nil
}

func (s *Server) listen(address string) error {
	l, err := net.Listen("tcp", address) //nolint:noctx // the listener lives until Stop
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	s.address = l.Addr().String()
	s.http = &http.Server{Handler: s, ReadHeaderTimeout: time.Minute}
	s.served = make(chan error, 1)
	go func(h *http.Server, served chan<- error) { served <- h.Serve(l) }(s.http, s.served)
	return nil
}

// URL is the root of a started server, without a slash at its end. It stays the same over Stop and Restart.
func (s *Server) URL() string { return "http://" + s.address }

// Close ends the server for good, as Stop does.
func (s *Server) Close() error { return s.Stop() }

// Stop ends the server as a kill would: connections break, open feeds have no last line, new connections are refused. It
// returns when no handler runs any more. The databases stay, for Restart.
func (s *Server) Stop() error {
	s.stopping.Lock()
	defer s.stopping.Unlock()
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil
	}
	s.closed = true
	close(s.closing)
	idle := make(chan struct{})
	if s.running == 0 {
		close(idle)
	} else {
		s.idle = idle
	}
	s.mu.Unlock()
	var err error
	if s.http != nil {
		err = s.http.Close()
		if served := <-s.served; !errors.Is(served, http.ErrServerClosed) {
			err = errors.Join(err, served)
		}
	}
	<-idle
	return err
}

// Restart listens again at the same address. Databases, seqs and sessions are as they were.
func (s *Server) Restart() error {
	s.stopping.Lock()
	defer s.stopping.Unlock()
	s.mu.Lock()
	s.closed, s.closing, s.idle = false, make(chan struct{}), nil
	s.mu.Unlock()
	if err := s.listen(s.address); err != nil {
		return fmt.Errorf("restart fake couchdb: %w", err)
	}
	return nil
}

// enter counts a handler in, and tells what ends it. After Stop none may begin.
func (s *Server) enter() (closing <-chan struct{}, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, false
	}
	s.running++
	return s.closing, true
}

func (s *Server) leave() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.running--; s.running == 0 && s.idle != nil {
		close(s.idle)
		s.idle = nil
	}
}

// ErrNoDatabase and ErrDatabaseExists are what the methods that name a database return.
var (
	ErrNoDatabase     = errors.New("database does not exist")
	ErrDatabaseExists = errors.New("database exists")
)

// Create makes a database with the default number of shards.
func (s *Server) Create(name string) (*Database, error) { return s.CreateSharded(name, s.opts.Shards) }

// CreateSharded makes a database of q shards.
func (s *Server) CreateSharded(name string, q int) (*Database, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.create(name, q)
}

func (s *Server) create(name string, q int) (*Database, error) {
	if _, ok := s.databases[name]; ok {
		return nil, fmt.Errorf("create %q: %w", name, ErrDatabaseExists)
	}
	s.lastBorn = max(time.Now().Unix(), s.lastBorn+1)
	db := newDatabase(name, q, s.lastBorn, s.opts)
	db.tell = func() { s.updates.tell(name, updateUpdated) }
	s.databases[name] = db
	s.updates.tell(name, updateCreated)
	return db, nil
}

// Database returns a database by name.
func (s *Server) Database(name string) (*Database, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	db, ok := s.databases[name]
	return db, ok
}

// Drop deletes a database. Its open feeds end politely.
func (s *Server) Drop(name string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.remove(name)
}

func (s *Server) remove(name string) error {
	db, ok := s.databases[name]
	if !ok {
		return fmt.Errorf("drop %q: %w", name, ErrNoDatabase)
	}
	delete(s.databases, name)
	db.drop()
	s.updates.tell(name, updateDeleted)
	return nil
}

// Recreate deletes a database and makes an empty one of the same name and number of shards. Old seqs begin anew in it, without an error; only instance_start_time tells.
func (s *Server) Recreate(name string) (*Database, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	old, ok := s.databases[name]
	if !ok {
		return nil, fmt.Errorf("recreate %q: %w", name, ErrNoDatabase)
	}
	if err := s.remove(name); err != nil {
		return nil, err
	}
	return s.create(name, len(old.shards))
}

// ExpireSessions makes all cookies worthless: their bearers must log in again.
func (s *Server) ExpireSessions() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.epoch++
}

// SetPassword changes or adds the password of a user who is no admin, and expires all sessions.
func (s *Server) SetPassword(user, password string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	users := map[string]string{user: password}
	for u, p := range s.opts.Users {
		if u != user {
			users[u] = p
		}
	}
	s.opts.Users = users
	s.epoch++
}
