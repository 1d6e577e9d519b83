package couchfake

import (
	"bufio"
	"math/rand/v2"
	"net/http"
	"strconv"
	"time"
)

// ref is a row to send: a version, and where its reader is once it has it.
type ref struct {
	v      *version
	shard  int
	update uint64
}

// Sizes of a feed's work: rows that are looked up under one hold of the lock, rows of one shard in a row, bytes per chunk.
const (
	batchRows  = 256
	longestRun = 64
	chunkBytes = 64 << 10
)

// feed is one answer of _changes.
type feed struct {
	x    *exchange
	db   *Database
	o    feedOptions
	out  *bufio.Writer
	rng  *rand.Rand
	seqs *seqWriter

	pos   position // what has been sent
	ahead position // what has been looked up
	end   position // where this pass ends
	rows  int
	total int // documents behind since, when pending is not told by the position
	batch []ref
	buf   []byte
	over  bool // limit reached, ended on order, connection lost, or database gone
	lost  bool // nothing more can be sent
}

func newFeed(x *exchange, o feedOptions) (*feed, error) {
	var list []shardSeq
	if o.since != "0" && o.since != "now" {
		var err error
		if list, err = parseSeq(o.since); err != nil {
			return nil, err
		}
	}
	db := x.db
	f := &feed{x: x, db: db, o: o, out: bufio.NewWriterSize(x, chunkBytes)}
	db.mu.Lock()
	defer db.mu.Unlock()
	if db.dropped {
		return nil, errNoDatabase
	}
	db.reads++
	f.rng = rand.New(rand.NewPCG(x.s.opts.Seed, db.reads))
	f.seqs = db.seqs(f.rng.IntN(len(db.shards)))
	f.end = db.end()
	switch o.since {
	case "0":
		f.pos = make(position, len(db.shards))
	case "now":
		f.pos = f.end.clone()
	default:
		f.pos = db.locate(list)
	}
	f.ahead = f.pos.clone()
	switch {
	case o.descending:
		f.total = db.behind(make(position, len(db.shards)))
	case o.keep != nil && o.feed == feedNormal:
		f.total = db.behind(f.pos)
	}
	return f, nil
}

// look fills the batch with the next rows up to the end of the pass: runs of one shard, then of another.
func (f *feed) look() {
	f.batch = f.batch[:0]
	f.db.mu.RLock()
	defer f.db.mu.RUnlock()
	for len(f.batch) < batchRows {
		k := f.pick()
		if k < 0 {
			return
		}
		f.run(k, min(1+f.rng.IntN(longestRun), batchRows-len(f.batch)))
	}
}

// pick chooses a shard that has not come to its end.
func (f *feed) pick() int {
	open, last := 0, -1
	for i := range f.ahead {
		if f.ahead[i] < f.end[i] {
			open++
			last = i
		}
	}
	if open < 2 {
		return last
	}
	nth := f.rng.IntN(open)
	for i := range f.ahead {
		if f.ahead[i] < f.end[i] {
			if nth == 0 {
				return i
			}
			nth--
		}
	}
	return last
}

// run looks up some rows of one shard.
func (f *feed) run(k, most int) {
	log := f.db.log(k)
	i := after(log, f.ahead[k])
	for ; i < len(log) && most > 0; i++ {
		v := log[i]
		if v.update > f.end[k] {
			break
		}
		f.ahead[k] = v.update
		if f.db.skips(v) || f.o.keep != nil && !f.o.keep(v.doc.id) {
			continue
		}
		f.batch = append(f.batch, ref{v, k, v.update})
		most--
	}
	if i == len(log) || log[i].update > f.end[k] {
		f.ahead[k] = f.end[k]
	}
}

// drain sends all rows up to the end of the pass.
func (f *feed) drain(send func(ref)) {
	for !f.over {
		if f.o.limit <= int64(f.rows) {
			f.over = true
			return
		}
		f.look()
		for _, r := range f.batch {
			if f.over {
				return
			}
			if f.o.limit <= int64(f.rows) {
				f.over = true
				return
			}
			f.pos[r.shard] = r.update
			send(r)
			f.rows++
			f.spoilAfterRow()
		}
		if len(f.batch) < batchRows {
			if !f.over {
				copy(f.pos, f.ahead)
			}
			return
		}
	}
}

// spoilAfterRow lets an order act when its row has been sent.
func (f *feed) spoilAfterRow() {
	x := f.x
	if x.spoil == nil || x.acted || x.spoil.Rows == 0 || f.rows != x.spoil.Rows {
		return
	}
	f.flush()
	x.act()
	if x.finish {
		f.over = true
	}
}

// appendRow writes {"seq":…,…}.
func (f *feed) appendRow(b []byte, r ref) []byte {
	b = append(b, `{"seq":`...)
	spoil := f.x.spoil
	if (f.o.limit-int64(f.rows))%f.o.interval == 0 && (spoil == nil || !spoil.NullSeq) {
		b = f.seqs.append(b, f.pos)
	} else {
		b = append(b, "null"...)
	}
	if spoil != nil && spoil.NullDoc == r.v.doc.id && f.o.shape.includeDocs {
		return r.v.appendNullRow(b, f.o.shape)
	}
	return r.v.appendRow(b, f.o.shape)
}

func (f *feed) write(b []byte) {
	if _, err := f.out.Write(b); err != nil {
		f.over, f.lost = true, true
	}
}

func (f *feed) flush() {
	if err := f.out.Flush(); err != nil {
		f.over, f.lost = true, true
		return
	}
	f.x.flush()
}

// row sends a row of a list.
func (f *feed) row(r ref) {
	f.buf = f.buf[:0]
	if f.rows > 0 {
		f.buf = append(f.buf, ",\r\n"...)
	}
	f.buf = f.appendRow(f.buf, r)
	f.write(f.buf)
}

// line sends a row of a stream.
func (f *feed) line(r ref) {
	f.buf = f.buf[:0]
	if f.o.feed == feedEventsource {
		f.buf = append(f.buf, "data: "...)
	}
	f.buf = f.appendRow(f.buf, r)
	f.buf = append(f.buf, '\n')
	if f.o.feed == feedEventsource {
		f.buf = append(f.buf, "id: "...)
		f.buf = f.seqs.append(f.buf, f.pos)
		f.buf = append(f.buf, "\n\n"...)
	}
	f.write(f.buf)
}

// normal sends everything that is there as one list.
func (f *feed) normal() {
	f.open()
	if f.o.descending {
		f.backwards()
	} else {
		f.drain(f.row)
	}
	f.close()
}

// open starts a list.
func (f *feed) open() {
	f.over = f.x.finish
	f.write([]byte(`{"results":[` + "\n"))
}

// close ends a list.
func (f *feed) close() {
	if f.lost {
		return
	}
	f.buf = append(f.buf[:0], "\n],\n\"last_seq\":"...)
	f.write(f.appendLast(f.buf))
	f.flush()
}

// appendLast writes the last_seq, how many changes are behind it, and the blank line at the end of all feeds. A feed that
// ended before its time has nothing pending, by its own account: so does a real server when a shard goes away.
func (f *feed) appendLast(b []byte) []byte {
	b = f.seqs.append(b, f.pos)
	b = append(b, `,"pending":`...)
	n := 0
	if !f.x.finish {
		n = f.pending()
	}
	b = strconv.AppendInt(b, int64(n), 10)
	return append(b, "}\n\n"...)
}

// pending counts the documents behind the position. With a filter it is what a real server gives: the rows that were left out count as pending.
func (f *feed) pending() int {
	f.db.mu.RLock()
	defer f.db.mu.RUnlock()
	switch {
	case f.db.dropped:
		return 0
	case f.total > 0:
		return f.total - f.rows
	}
	return f.db.behind(f.pos)
}

// behind counts the documents behind a position. The caller holds the lock.
func (db *Database) behind(p position) int {
	n := 0
	for k := range p {
		n += db.pending(k, p[k])
	}
	return n
}

// backwards sends the rows from the last one to the first, wherever since is.
func (f *feed) backwards() {
	f.pos = f.end.clone()
	f.db.mu.RLock()
	var all []ref
	for k := range f.end {
		log := f.db.log(k)
		for i := after(log, f.end[k]) - 1; i >= 0; i-- {
			if v := log[i]; !f.db.skips(v) && (f.o.keep == nil || f.o.keep(v.doc.id)) {
				all = append(all, ref{v, k, v.update})
			}
		}
	}
	f.db.mu.RUnlock()
	for _, r := range all {
		if f.over || int64(f.rows) >= f.o.limit {
			return
		}
		f.pos[r.shard] = r.update
		f.row(r)
		f.rows++
		f.spoilAfterRow()
	}
}

// longpoll sends what is there, or waits for the first that comes.
func (f *feed) longpoll() {
	f.open()
	f.drain(f.row)
	for first := true; f.rows == 0 && !f.over; first = false {
		if first {
			f.beat()
		}
		if !f.wait() {
			break
		}
		f.drain(f.row)
	}
	f.close()
}

// continuous sends rows as they come until a limit, a timeout or the end of the database.
func (f *feed) continuous() {
	f.over = f.x.finish
	f.drain(f.line)
	if f.rows == 0 && !f.over {
		f.beat()
	}
	for !f.over {
		f.flush()
		if f.over || !f.wait() {
			break
		}
		f.drain(f.line)
	}
	if f.lost {
		return
	}
	if f.o.feed != feedEventsource {
		f.write(f.appendLast([]byte(`{"last_seq":`)))
	}
	f.flush()
}

// beat sends the sign of life of the feed.
func (f *feed) beat() {
	if f.o.feed == feedEventsource {
		f.write([]byte("event: heartbeat\ndata: \n\n"))
	} else {
		f.write([]byte("\n"))
	}
	f.flush()
}

// wait returns true when there is more to read, and false when the feed is to end. Heartbeats go out meanwhile; with them, the timeout never comes.
func (f *feed) wait() bool {
	changed, more, gone := f.watch()
	if gone || f.o.heartbeat == 0 && f.o.timeout <= 0 {
		return false
	}
	if more {
		f.beat()
		return !f.over
	}
	period := f.o.timeout
	if f.o.heartbeat > 0 {
		period = f.o.heartbeat
	}
	timer := time.NewTicker(period)
	defer timer.Stop()
	for !f.over {
		select {
		case <-changed:
			if _, _, gone = f.watch(); gone {
				return false
			}
			f.beat()
			return !f.over
		case <-timer.C:
			if f.o.heartbeat == 0 {
				return false
			}
			f.beat()
		case <-f.x.r.Context().Done():
			f.over, f.lost = true, true
		case <-f.x.closing:
			panic(http.ErrAbortHandler) // a kill leaves no final chunk
		}
	}
	return false
}

// watch moves the end of the pass to where the database is, and returns a channel that tells of the next change.
func (f *feed) watch() (changed <-chan struct{}, more, gone bool) {
	f.db.mu.Lock()
	defer f.db.mu.Unlock()
	if f.db.dropped {
		return nil, false, true
	}
	f.end = f.db.end()
	for k := range f.end {
		f.ahead[k] = min(f.ahead[k], f.end[k])
		more = more || f.ahead[k] < f.end[k]
	}
	return f.db.wait(), more, false
}
