package couchfake

import (
	"hash/crc32"
	"iter"
	"slices"
	"strconv"
	"sync"
)

// Database is one database of the fake. All its methods may be called while the server answers requests.
type Database struct {
	tell        func() // says that a document changed; nil for nobody
	name        string
	uuid        string
	born        int64 // instance_start_time, seconds since the epoch
	partitioned bool
	opts        Options

	mu       sync.RWMutex
	dropped  bool
	docs     map[string]*document
	shards   []*shard
	local    map[string]*localDoc
	live     int // documents whose winner is not deleted
	dead     int
	bytes    int64 // of bodies
	old      int64 // bytes of bodies that no leaf shows
	limit    int   // _revs_limit
	security *security
	purges   []purge
	purgeNo  uint64
	byID     []*document   // the documents by id, as _all_docs last needed them; nil when one was purged
	reads    uint64        // requests of the feed so far: each gets an order of its own
	stale    *Snapshot     // what readers of the feed see instead, if set
	changed  chan struct{} // closed at the next change; nil while nobody waits
}

// purge is one entry of _purged_infos.
type purge struct {
	id   string
	revs []Rev
}

func newDatabase(name string, q int, born int64, o Options) *Database {
	db := &Database{
		name: name, uuid: newUUID(), born: born, opts: o, limit: defaultRevsLimit,
		docs: map[string]*document{}, local: map[string]*localDoc{}, security: defaultSecurity(),
	}
	for range q {
		db.shards = append(db.shards, &shard{token: newToken()})
	}
	return db
}

// Name is the name of the database.
func (db *Database) Name() string { return db.name }

// shardOf spreads ids over the shards as the server does: by CRC-32, in equal ranges.
func (db *Database) shardOf(id string) int {
	return int(uint64(crc32.ChecksumIEEE([]byte(id))) * uint64(len(db.shards)) >> 32)
}

// publish renders a document's new state and puts it at the end of its shard. The caller holds the lock.
func (db *Database) publish(d *document) {
	d.stem(db.limit)
	s := db.shards[d.shard]
	if d.cur != nil {
		db.count(d.cur, -1)
		s.bury(d.cur)
	}
	d.cur = d.render()
	s.append(d.cur)
	db.count(d.cur, 1)
	db.wake()
	if db.tell != nil {
		db.tell()
	}
}

// count keeps the document counts of GET /db.
func (db *Database) count(v *version, by int) {
	if v.deleted {
		db.dead += by
	} else {
		db.live += by
	}
	db.bytes += int64(by) * int64(len(v.row)-int(v.docAt))
}

func (db *Database) wake() {
	if db.changed != nil {
		close(db.changed)
		db.changed = nil
	}
}

// wait returns a channel that is closed at the next change. The caller holds the lock for writing.
func (db *Database) wait() <-chan struct{} {
	if db.changed == nil {
		db.changed = make(chan struct{})
	}
	return db.changed
}

// drop ends every open feed politely.
func (db *Database) drop() {
	db.mu.Lock()
	defer db.mu.Unlock()
	db.dropped = true
	db.wake()
}

// write is one document as a client sends it.
type write struct {
	id      string
	path    []Rev // the revision (when it replicates one) and its ancestors, newest first
	deleted bool
	body    []byte
	atts    []attachment
	scratch *scratch // what body lives in; nil when it is nobody else's
}

// edit writes a new revision on top of the one that the write names, as a PUT does.
func (db *Database) edit(w write) (Rev, error) {
	db.mu.Lock()
	defer db.mu.Unlock()
	return db.editLocked(w)
}

func (db *Database) editLocked(w write) (Rev, error) {
	if db.dropped {
		return Rev{}, errNoDatabase
	}
	d := db.docs[w.id]
	path, err := parents(d, w)
	if err != nil {
		return Rev{}, err
	}
	var parent Rev
	if len(path) > 0 {
		parent = path[0]
	}
	atts, digests, err := renderAttachments(w.atts, parent, d)
	if err != nil {
		return Rev{}, err
	}
	rev := w.hash(parent, digests)
	if d == nil {
		d = db.add(w.id)
	}
	db.retire(d, parent)
	n, changed := d.graft(append([]Rev{rev}, path...), state{w.deleted, w.body, atts})
	db.settle(d, n, changed)
	return rev, nil
}

// hash computes the revision of a write on top of parent.
func (w write) hash(parent Rev, digests []attachmentDigest) Rev {
	if w.scratch == nil {
		r, _ := nextRev(nil, parent, w.deleted, w.body, digests)
		return r
	}
	var r Rev
	r, w.scratch.term = nextRev(w.scratch.term, parent, w.deleted, w.body, digests)
	return r
}

// settle shows a change of the tree. The body of a winner is in its row afterwards; that of another leaf is copied, for it may live in a scratch.
func (db *Database) settle(d *document, n *node, changed bool) {
	if !changed {
		return
	}
	db.publish(d)
	if n != nil && n != d.winner() {
		n.body, n.atts = slices.Clone(n.body), slices.Clone(n.atts)
	}
}

// parents finds what an edit stands on, or refuses it.
func parents(d *document, w write) ([]Rev, error) {
	switch {
	case d == nil:
		return w.path, nil
	case len(w.path) > 0:
		if d.leaf(w.path[0]) == nil {
			return nil, errConflict
		}
		return w.path[:1], nil
	case d.winner().deleted && !w.deleted:
		return []Rev{d.winner().rev()}, nil
	}
	return nil, errConflict
}

// replicate puts a revision with its history into the tree, as new_edits=false does.
func (db *Database) replicate(w write) error {
	db.mu.Lock()
	defer db.mu.Unlock()
	return db.replicateLocked(w)
}

func (db *Database) replicateLocked(w write) error {
	if db.dropped {
		return errNoDatabase
	}
	d := db.docs[w.id]
	atts, _, err := renderAttachments(w.atts, w.path[0], d)
	if err != nil {
		return err
	}
	if d == nil {
		d = db.add(w.id)
	}
	if len(w.path) > 1 {
		db.retire(d, w.path[1])
	}
	n, changed := d.graft(w.path, state{w.deleted, w.body, atts})
	db.settle(d, n, changed)
	return nil
}

func (db *Database) add(id string) *document {
	d := &document{id: id, shard: db.shardOf(id)}
	db.docs[id] = d
	return d
}

// retire accounts for the body of a leaf that is about to get a child. Old bodies can be read until too many of them have gathered.
func (db *Database) retire(d *document, parent Rev) {
	if n := d.leaf(parent); n != nil {
		db.old += int64(len(n.body))
	}
	if db.old > maxOldBytes {
		db.compact()
	}
}

// maxOldBytes of superseded bodies are kept before the database compacts itself.
const maxOldBytes = 64 << 20

// Compact forgets the bodies of all revisions that are not leaves, as POST /db/_compact does.
func (db *Database) Compact() {
	db.mu.Lock()
	defer db.mu.Unlock()
	db.compact()
}

func (db *Database) compact() {
	db.old = 0
	for _, d := range db.docs {
		for _, leaf := range d.leaves {
			for n := leaf.parent; n != nil; n = n.parent {
				n.known, n.body, n.atts = false, nil, nil
			}
		}
	}
}

// purge removes leaves without a trace in the feed: the next winner is shown again, or nothing is.
func (db *Database) purge(id string, revs []Rev) []Rev {
	db.mu.Lock()
	defer db.mu.Unlock()
	db.purgeNo++
	db.purges = append(db.purges, purge{id, revs})
	if len(db.purges) > maxPurgedInfos {
		db.purges = slices.Delete(db.purges, 0, len(db.purges)-maxPurgedInfos)
	}
	d := db.docs[id]
	if d == nil {
		return nil
	}
	gone := d.prune(revs)
	switch {
	case len(gone) == 0:
	case len(d.leaves) > 0:
		db.publish(d)
	default:
		db.count(d.cur, -1)
		db.shards[d.shard].bury(d.cur)
		db.shards[d.shard].update++
		delete(db.docs, id)
		db.byID = nil
	}
	return gone
}

// Defaults of a real server.
const (
	defaultRevsLimit = 1000
	maxPurgedInfos   = 1000
)

// end is the position behind the last change. The caller holds the lock.
func (db *Database) end() position {
	if db.stale != nil {
		return db.stale.end.clone()
	}
	p := make(position, len(db.shards))
	for i, s := range db.shards {
		p[i] = s.update
	}
	return p
}

// locate turns the entries of a seq into a position: shards that it does not name, or names another copy of, begin anew.
func (db *Database) locate(list []shardSeq) position {
	p := make(position, len(db.shards))
	for i, s := range db.shards {
		for _, e := range list {
			if at := s.resume(e.token, e.update); at > p[i] {
				p[i] = at
			}
		}
	}
	return p
}

// seqs returns a writer for the present copies. The caller holds the lock.
func (db *Database) seqs(first int) *seqWriter {
	w := &seqWriter{uuid: db.uuid, first: first}
	for _, s := range db.shards {
		w.tokens = append(w.tokens, s.token)
	}
	return w
}

// Seq is the present update_seq.
func (db *Database) Seq() string {
	db.mu.RLock()
	defer db.mu.RUnlock()
	q := string(db.seqs(0).append(nil, db.end()))
	return q[1 : len(q)-1]
}

// StartTime is the instance_start_time of GET /db: seconds since the epoch. No two databases of a server share it.
func (db *Database) StartTime() string { return strconv.FormatInt(db.born, 10) }

// all iterates over the documents in no order. The caller holds the lock.
func (db *Database) all() iter.Seq[*document] {
	return func(yield func(*document) bool) {
		for _, d := range db.docs {
			if !yield(d) {
				return
			}
		}
	}
}
