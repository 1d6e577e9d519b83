package couchfake

import (
	"fmt"
	"iter"
	"slices"
)

// Leaf is one leaf of a document's tree of revisions.
type Leaf struct {
	Rev     Rev
	Deleted bool
	Body    []byte // the document as GET …?rev= shows it: {"_id":…,"_rev":…}
}

// Doc is the state of one document, told from the tree of revisions itself and not from what a feed showed.
type Doc struct {
	ID     string
	Leaves []Leaf // the winner first, then in the order of style=all_docs
}

// Winner is the leaf that reads without a revision show.
func (d Doc) Winner() Leaf { return d.Leaves[0] }

// Deleted says that no leaf is live.
func (d Doc) Deleted() bool { return d.Leaves[0].Deleted }

// GenerationSum is the sum of the generations of all leaves. It grows with every change of the tree but for a purge.
func (d Doc) GenerationSum() int64 {
	n := int64(0)
	for _, l := range d.Leaves {
		n += int64(l.Rev.Gen)
	}
	return n
}

// Docs iterates over all documents, deleted and design documents included, in the order of their ids as bytes. It shows
// the state at the call; later writes are not in it.
func (db *Database) Docs() iter.Seq[Doc] {
	db.mu.RLock()
	list := make([]Doc, 0, len(db.docs))
	for d := range db.all() {
		list = append(list, d.model())
	}
	db.mu.RUnlock()
	slices.SortFunc(list, func(a, b Doc) int { return compareStrings(a.ID, b.ID) })
	return slices.Values(list)
}

// Doc returns one document, or false when the database never had it or it was purged.
func (db *Database) Doc(id string) (Doc, bool) {
	db.mu.RLock()
	defer db.mu.RUnlock()
	d, ok := db.docs[id]
	if !ok {
		return Doc{}, false
	}
	return d.model(), true
}

func (d *document) model() Doc {
	m := Doc{ID: d.id, Leaves: make([]Leaf, 0, len(d.leaves))}
	for i, n := range d.leaves {
		l := Leaf{Rev: n.rev(), Deleted: n.deleted}
		if i == 0 {
			l.Body = slices.Clip(d.cur.document())
		} else {
			l.Body = appendDocument(nil, d, n, extras{})
		}
		m.Leaves = append(m.Leaves, l)
	}
	return m
}

// Len is the number of documents, deleted ones included.
func (db *Database) Len() int {
	db.mu.RLock()
	defer db.mu.RUnlock()
	return len(db.docs)
}

// Put writes body (a JSON object, whose own _id and _rev are ignored) as the next revision of the winner, or as a new
// document. It needs no revision: the test that calls it is the only one to know better.
func (db *Database) Put(id string, body []byte) (Rev, error) {
	return db.onWinner(&scratch{}, id, body)
}

// Delete writes a tombstone without a body on top of the winner.
func (db *Database) Delete(id string) (Rev, error) {
	return db.onWinner(&scratch{}, id, []byte(`{"_deleted":true}`))
}

func (db *Database) onWinner(sc *scratch, id string, body []byte) (Rev, error) {
	w, err := sc.parseFor(id, body)
	if err != nil {
		return Rev{}, err
	}
	db.mu.Lock()
	defer db.mu.Unlock()
	w.path = nil
	if d := db.docs[id]; d != nil {
		w.path = []Rev{d.winner().rev()}
	}
	return db.editLocked(w)
}

// Edit writes body as the child of a leaf, which need not be the winner. A zero parent makes a new document. A body with "_deleted":true ends the branch.
func (db *Database) Edit(id string, parent Rev, body []byte) (Rev, error) {
	w, err := new(scratch).parseFor(id, body)
	if err != nil {
		return Rev{}, err
	}
	w.path = nil
	if parent.Gen > 0 {
		w.path = []Rev{parent}
	}
	return db.edit(w)
}

// Replicate puts a revision in the tree with its ancestors, newest first, as a replicator does: the path is kept as it is, and conflicts are made.
func (db *Database) Replicate(id string, path []Rev, body []byte) error {
	if len(path) == 0 {
		return fmt.Errorf("replicate %q: no revision", id)
	}
	w, err := new(scratch).parseFor(id, body)
	if err != nil {
		return err
	}
	w.path = path
	return db.replicate(w)
}

// parseFor is parse for the methods of a test, which name the id.
func (sc *scratch) parseFor(id string, body []byte) (write, error) {
	if err := checkID(id); err != nil {
		return write{}, fmt.Errorf("write %q: %w", id, err)
	}
	w, err := sc.parse(body, id)
	if err != nil {
		return write{}, fmt.Errorf("write %q: %w", id, err)
	}
	return w, nil
}

// Load writes many documents, each on top of its winner. It is the fast way to fill a database.
func (db *Database) Load(docs iter.Seq2[string, []byte]) error {
	sc := &scratch{}
	for id, body := range docs {
		if _, err := db.onWinner(sc, id, body); err != nil {
			return err
		}
	}
	return nil
}

// Purge takes leaves out of a document as if they had never been, all of them when none is named. It returns those that were there.
func (db *Database) Purge(id string, revs ...Rev) []Rev {
	if len(revs) == 0 {
		if d, ok := db.Doc(id); ok {
			for _, l := range d.Leaves {
				revs = append(revs, l.Rev)
			}
		}
	}
	return db.purge(id, revs)
}

// PurgeSeq is how many purges there were.
func (db *Database) PurgeSeq() uint64 {
	db.mu.RLock()
	defer db.mu.RUnlock()
	return db.purgeNo
}
