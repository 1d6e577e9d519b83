package couchfake

import "slices"

// Rewind replaces a shard by a copy that knows the seqs of the present one only up to an update number: whoever resumes
// with a later seq gets the rows behind that number again, with other seqs. Zero replays the whole shard.
func (db *Database) Rewind(shard int, known uint64) {
	db.mu.Lock()
	defer db.mu.Unlock()
	db.shards[shard].replace(newToken(), known)
}

// FailOver replaces all shards by copies that know no seq of the present ones: every reader starts over, without an error and with other seqs.
func (db *Database) FailOver() {
	for i := range db.Shards() {
		db.Rewind(i, 0)
	}
}

// Shards is the number of shards, q.
func (db *Database) Shards() int { return len(db.shards) }

// Updates is the update number of each shard.
func (db *Database) Updates() []uint64 {
	db.mu.RLock()
	defer db.mu.RUnlock()
	return db.end()
}

// Snapshot is what the feed of a database showed at one time. It is made by Database.Snapshot.
type Snapshot struct {
	logs [][]*version
	end  position
}

// Snapshot keeps what the feed shows now.
func (db *Database) Snapshot() *Snapshot {
	db.mu.Lock()
	defer db.mu.Unlock()
	c := &Snapshot{}
	for _, s := range db.shards {
		c.logs = append(c.logs, slices.DeleteFunc(slices.Clone(s.log), func(v *version) bool { return v.gone }))
		c.end = append(c.end, s.update)
	}
	return c
}

// ServeStale makes the feed show an earlier state whatever was and will be written, as a copy does that misses updates:
// older revisions, documents that are deleted elsewhere, pending 0, no sign of it in the answer. A reader who is further
// sees nothing, unless its seqs are not known: see Rewind and FailOver. Seqs that the stale feed gives out are good resume
// points after Heal. Reads of documents and the model show the truth.
func (db *Database) ServeStale(s *Snapshot) {
	db.mu.Lock()
	defer db.mu.Unlock()
	db.stale = s
	db.wake()
}

// Heal ends ServeStale: the feed tells the newer states.
func (db *Database) Heal() {
	db.mu.Lock()
	defer db.mu.Unlock()
	db.stale = nil
	db.wake()
}

// log is what the feed reads of a shard. The caller holds the lock.
func (db *Database) log(k int) []*version {
	if db.stale != nil {
		return db.stale.logs[k]
	}
	return db.shards[k].log
}

// skips says that a version is not to be shown. The caller holds the lock.
func (db *Database) skips(v *version) bool { return v.gone && db.stale == nil }

// pending counts the documents of a shard behind an update number. The caller holds the lock.
func (db *Database) pending(k int, update uint64) int {
	if db.stale != nil {
		return len(db.stale.logs[k]) - after(db.stale.logs[k], update)
	}
	return db.shards[k].pending(update)
}
