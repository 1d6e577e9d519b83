package index

import (
	"fmt"
	"strings"
	"testing"

	"github.com/couch2hudi/couch2hudi/hudi"
)

// The words of the table below: a record is "key order rev partition flags",
// a place "partition/file".
const (
	here    = "pt=a"
	there   = "pt=b"
	nowhere = "pt=" + hudi.DefaultPartition
)

func envelope(t *testing.T) *hudi.Schema {
	t.Helper()
	s, err := hudi.NewSchema("docs", hudi.Column{Name: "_id", Kind: hudi.KindString}, hudi.Column{Name: "_rev", Kind: hudi.KindString},
		hudi.Column{Name: "_rev_order", Kind: hudi.KindLong}, hudi.Column{Name: "_op", Kind: hudi.KindString},
		hudi.Column{Name: "_deleted", Kind: hudi.KindBoolean}, hudi.Column{Name: "pt", Kind: hudi.KindString})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// row is a record as normalize makes it.
func row(key string, order int64, rev, partition string) hudi.Record {
	pt := hudi.Value{}
	if v, ok := strings.CutPrefix(partition, "pt="); ok && v != hudi.DefaultPartition {
		pt = hudi.String(v)
	}
	return hudi.Record{Key: hudi.Key{Record: key, Partition: partition}, Order: order,
		Row: hudi.Row{hudi.String(key), hudi.String(rev), hudi.Long(order), hudi.String("u"), hudi.Boolean(false), pt}}
}

func anywhere(r hudi.Record) hudi.Record {
	r.AnyPartition = true
	return r
}

func gone(key string, order int64) hudi.Record {
	return hudi.Record{Key: hudi.Key{Record: key, Partition: nowhere}, Order: order, Delete: true, AnyPartition: true}
}

// deletedRow is a tombstone, left one of a document that is not for the table.
func deletedRow(key string, order int64, rev string) hudi.Record {
	r := anywhere(row(key, order, rev, nowhere))
	r.Row[4] = hudi.Boolean(true)
	return r
}

func left(key string, order int64, rev string) hudi.Record {
	return onlyHeld(deletedRow(key, order, rev))
}

func onlyHeld(r hudi.Record) hudi.Record {
	r.OnlyHeld = true
	return r
}

func purged(r hudi.Record) hudi.Record {
	r.NewEra = true
	return r
}

// dead is a stored tombstone.
func dead(order int64, rev, partition, file string) hudi.Stored {
	s := lives(order, rev, partition, file)
	s.Deleted = true
	return s
}

func lives(order int64, rev, partition, file string, others ...hudi.Location) hudi.Stored {
	return hudi.Stored{Found: true, Order: order, Rev: rev, Location: hudi.Location{Partition: partition, File: hudi.FileID(file)}, Others: others}
}

func hidden(order int64, partition, file string) hudi.Stored {
	s := lives(order, "", partition, file)
	s.Found = false
	return s
}

// erased is what another writer's delete of a row left.
func erased(order int64, rev, partition, file string) hudi.Stored {
	s := hidden(order, partition, file)
	s.Rev, s.Natural = rev, true
	return s
}

// besides adds a place where a delete of the order given hides the key.
func besides(s hudi.Stored, partition, file string, order int64) hudi.Stored {
	s.Hidden = append(s.Hidden, hudi.Hidden{Location: at(partition, file), Order: order})
	return s
}

// text shows what was decided: place, order, and for rows the order and
// partition cells.
func text(rs []hudi.Located) string {
	var out []string
	for _, r := range rs {
		s := fmt.Sprintf("%s/%s %s %d", r.Partition, r.File, r.Key.Record, r.Order)
		if r.Key.Partition != r.Partition || r.AnyPartition {
			s += " ASTRAY"
		}
		if r.Delete {
			out = append(out, "-"+s)
			continue
		}
		if r.Row[2].Long() != r.Order {
			s += fmt.Sprintf(" cell %d", r.Row[2].Long())
		}
		pt := "null"
		if !r.Row[5].IsNull() {
			pt = r.Row[5].Text()
		}
		out = append(out, "+"+s+" "+pt)
	}
	return strings.Join(out, "; ")
}

func at(partition, file string) hudi.Location {
	return hudi.Location{Partition: partition, File: hudi.FileID(file)}
}

func TestPlace(t *testing.T) {
	era := hudi.Order
	for _, c := range []struct {
		name   string
		r      hudi.Record
		stored hudi.Stored
		o      TagOptions
		want   string
		counts Tagged
	}{
		{name: "new key", r: row("k", 1, "1-a", here), want: "+pt=a/ k 1 a", counts: Tagged{Inserts: 1}},
		{name: "newer", r: row("k", 3, "2-b", here), stored: lives(2, "2-a", here, "f"), want: "+pt=a/f k 3 a", counts: Tagged{Updates: 1}},
		{name: "older", r: row("k", 2, "1-a", here), stored: lives(3, "3-a", here, "f"), counts: Tagged{Replayed: 1}},
		{name: "the same again", r: row("k", 3, "3-a", here), stored: lives(3, "3-a", here, "f"), counts: Tagged{Replayed: 1}},
		{name: "the same again, elsewhere", r: row("k", 3, "3-a", there), stored: lives(3, "3-a", here, "f"), counts: Tagged{Replayed: 1}},
		{name: "equal order, other revision: the later wins", r: row("k", 3, "2-b", here), stored: lives(3, "3-a", here, "f"), want: "+pt=a/f k 3 a", counts: Tagged{Updates: 1}},
		{name: "rewrite of the same", r: row("k", 3, "3-a", here), stored: lives(3, "3-a", here, "f"), o: TagOptions{Rewrite: true}, want: "+pt=a/f k 3 a", counts: Tagged{Updates: 1}},
		{name: "rewrite never brings older back", r: row("k", 2, "2-a", here), stored: lives(3, "3-a", here, "f"), o: TagOptions{Rewrite: true}, counts: Tagged{Replayed: 1}},

		{name: "older than a remembered delete", r: row("k", 2, "2-a", here), stored: hidden(3, "", ""), counts: Tagged{Replayed: 1}},
		{name: "newer than a remembered delete", r: row("k", era(2, 4)-era(2, 0), "4-a", here), stored: hidden(era(2, 3), "", ""), want: fmt.Sprintf("+pt=a/ k %d a", era(2, 4)), counts: Tagged{Inserts: 1}},
		{name: "a delete again, of what is remembered", r: gone("k", 3), stored: hidden(3, "", ""), counts: Tagged{Unknown: 1}},
		{name: "a tombstone of what is remembered", r: anywhere(row("k", 4, "4-a", nowhere)), stored: hidden(3, "", ""), want: "+" + nowhere + "/ k 4 null", counts: Tagged{Inserts: 1}},

		{name: "stored era", r: row("k", 1, "1-a", here), stored: lives(era(2, 0), "", here, "f"), want: fmt.Sprintf("+pt=a/f k %d a", era(2, 1)), counts: Tagged{Updates: 1}},
		{name: "stored era, older sum", r: row("k", 4, "4-a", here), stored: lives(era(2, 7), "", here, "f"), counts: Tagged{Replayed: 1}},
		{name: "its own era", r: row("k", 4, "4-a", here), stored: lives(era(2, 1), "1-b", here, "f"), o: TagOptions{OwnEra: true}, counts: Tagged{Replayed: 1}},
		{name: "epoch beats the stored era", r: row("k", 1, "1-a", here), stored: lives(9, "9-a", here, "f"), o: TagOptions{Epoch: 1}, want: fmt.Sprintf("+pt=a/f k %d a", era(1, 1)), counts: Tagged{Updates: 1}},
		{name: "epoch of a new key", r: row("k", 1, "1-a", here), o: TagOptions{Epoch: 3}, want: fmt.Sprintf("+pt=a/ k %d a", era(3, 1)), counts: Tagged{Inserts: 1}},
		{name: "stored era above the epoch", r: row("k", 2, "2-a", here), stored: lives(era(5, 1), "", here, "f"), o: TagOptions{Epoch: 3}, want: fmt.Sprintf("+pt=a/f k %d a", era(5, 2)), counts: Tagged{Updates: 1}},

		{name: "tombstone of a known key takes its partition", r: anywhere(row("k", 3, "3-a", nowhere)), stored: lives(2, "2-a", here, "f"), want: "+pt=a/f k 3 a", counts: Tagged{Updates: 1}},
		{name: "tombstone of a moved key takes the new one", r: anywhere(row("k", 3, "3-a", nowhere)), stored: lives(2, "2-a", there, "g"), want: "+pt=b/g k 3 b", counts: Tagged{Updates: 1}},
		{name: "tombstone of an unknown key", r: anywhere(row("k", 3, "3-a", nowhere)), want: "+" + nowhere + "/ k 3 null", counts: Tagged{Inserts: 1}},
		{name: "tombstone of a key in the default partition", r: anywhere(row("k", 3, "3-a", here)), stored: lives(2, "2-a", nowhere, "f"), want: "+" + nowhere + "/f k 3 null", counts: Tagged{Updates: 1}},

		{name: "moved", r: row("k", 3, "3-a", there), stored: lives(2, "2-a", here, "f"), want: "-pt=a/f k 3; +pt=b/ k 3 b", counts: Tagged{Updates: 1, Moved: 1}},
		{name: "moved in a later era", r: row("k", 1, "1-a", there), stored: lives(era(1, 5), "2-a", here, "f"), o: TagOptions{Epoch: 2}, want: fmt.Sprintf("-pt=a/f k %d; +pt=b/ k %d b", era(2, 1), era(2, 1)), counts: Tagged{Updates: 1, Moved: 1}},
		{name: "out of the default partition", r: row("k", 3, "3-a", here), stored: lives(2, "2-a", nowhere, "f"), want: "-" + nowhere + "/f k 3; +pt=a/ k 3 a", counts: Tagged{Updates: 1, Moved: 1}},
		{name: "moves stay", r: row("k", 3, "3-a", there), stored: lives(2, "2-a", here, "f"), o: TagOptions{Stay: true}, want: "+pt=a/f k 3 a", counts: Tagged{Updates: 1}},

		{name: "hard delete", r: gone("k", 3), stored: lives(2, "2-a", here, "f"), want: "-pt=a/f k 3", counts: Tagged{Deletes: 1}},
		{name: "hard delete of an unknown key", r: gone("k", 3), counts: Tagged{Unknown: 1}},
		{name: "late hard delete", r: gone("k", 3), stored: lives(4, "4-a", here, "f"), counts: Tagged{Replayed: 1}},
		{name: "hard delete of equal order", r: gone("k", 3), stored: lives(3, "3-a", here, "f"), want: "-pt=a/f k 3", counts: Tagged{Deletes: 1}},
		{name: "purged after a hard delete", r: purged(gone("k", 0)), stored: hidden(3, here, "f"), want: fmt.Sprintf("-pt=a/f k %d", era(1, 0)), counts: Tagged{Deletes: 1}},
		{name: "purged after a hard delete, and not for the table", r: purged(onlyHeld(gone("k", 1))), stored: hidden(3, here, "f"), want: fmt.Sprintf("-pt=a/f k %d", era(1, 1)), counts: Tagged{Deletes: 1, Left: 1}},
		{name: "purged after a remembered delete", r: purged(gone("k", 0)), stored: hidden(3, "", ""), counts: Tagged{Unknown: 1}},
		{name: "hard delete again", r: gone("k", 3), stored: hidden(3, here, "f"), counts: Tagged{Unknown: 1}},

		{name: "a late row does not undo a hard delete", r: row("k", 2, "2-a", here), stored: hidden(3, here, "f"), counts: Tagged{Replayed: 1}},
		{name: "born again where its bytes lie", r: row("k", 4, "4-a", here), stored: hidden(3, here, "f"), want: "+pt=a/f k 4 a", counts: Tagged{Inserts: 1}},
		{name: "born again elsewhere", r: row("k", 4, "4-a", there), stored: hidden(3, here, "f"), want: "+pt=b/ k 4 b", counts: Tagged{Inserts: 1}},
		{name: "born again in the era of the delete", r: row("k", 1, "1-a", there), stored: hidden(era(1, 0), here, "f"), want: fmt.Sprintf("+pt=b/ k %d b", era(1, 1)), counts: Tagged{Inserts: 1}},

		{name: "back where its bytes lie, though it was deleted elsewhere", r: row("k", 5, "5-a", there), stored: besides(hidden(4, here, "f"), there, "g", 3), want: "+pt=b/g k 5 b", counts: Tagged{Inserts: 1}},
		{name: "back to neither place", r: row("k", 5, "5-a", nowhere), stored: besides(hidden(4, here, "f"), there, "g", 3), want: "+" + nowhere + "/ k 5 null", counts: Tagged{Inserts: 1}},
		{name: "moved back where its bytes lie", r: row("k", 5, "5-a", there), stored: besides(lives(4, "4-a", here, "f"), there, "g", 4), want: "-pt=a/f k 5; +pt=b/g k 5 b", counts: Tagged{Updates: 1, Moved: 1}},
		{name: "moved where a later delete would hide it", r: row("k", 5, "5-a", there), stored: besides(lives(4, "4-a", here, "f"), there, "g", 6), want: "-pt=a/f k 5; +pt=b/ k 5 b", counts: Tagged{Updates: 1, Moved: 1}},
		{name: "another writer deleted it: read again", r: row("k", 3, "3-a", here), stored: erased(3, "3-a", here, "f"), counts: Tagged{Replayed: 1}},
		{name: "another writer deleted it: rewritten", r: row("k", 3, "3-a", here), stored: erased(3, "3-a", here, "f"), o: TagOptions{Rewrite: true}, want: "+pt=a/f k 3 a", counts: Tagged{Inserts: 1}},
		{name: "another writer deleted it: equal order, other revision", r: row("k", 3, "3-b", here), stored: erased(3, "3-a", here, "f"), want: "+pt=a/f k 3 a", counts: Tagged{Inserts: 1}},
		{name: "another writer deleted it: changed", r: row("k", 4, "4-a", here), stored: erased(3, "3-a", here, "f"), want: "+pt=a/f k 4 a", counts: Tagged{Inserts: 1}},
		{name: "another writer deleted a row of a later era", r: row("k", 4, "4-a", here), stored: erased(era(1, 3), "3-a", here, "f"), want: fmt.Sprintf("+pt=a/f k %d a", era(1, 4)), counts: Tagged{Inserts: 1}},
		{name: "another writer deleted it: a tombstone", r: anywhere(row("k", 4, "4-a", nowhere)), stored: erased(3, "3-a", here, "f"), want: "+pt=a/f k 4 a", counts: Tagged{Inserts: 1}},
		{name: "another writer deleted it: a hard delete", r: gone("k", 4), stored: erased(3, "3-a", here, "f"), counts: Tagged{Unknown: 1}},

		{name: "not for the table, which holds it", r: left("k", 3, "3-a"), stored: lives(2, "2-a", here, "f"), want: "+pt=a/f k 3 a", counts: Tagged{Updates: 1, Left: 1}},
		{name: "not for the table, which never held it", r: left("k", 3, "3-a"), counts: Tagged{Elsewhere: 1}},
		{name: "not for the table, which holds a tombstone", r: left("k", 3, "3-a"), stored: dead(2, "2-a", here, "f"), counts: Tagged{Elsewhere: 1}},
		{name: "not for the table, which hides it", r: left("k", 3, "3-a"), stored: hidden(2, here, "f"), counts: Tagged{Elsewhere: 1}},
		{name: "not for the table, and late", r: left("k", 3, "3-a"), stored: lives(4, "4-a", here, "f"), counts: Tagged{Replayed: 1}},
		{name: "not for the table any more, by another rule", r: left("k", 3, "3-a"), stored: lives(3, "3-a", here, "f"), want: "+pt=a/f k 3 a", counts: Tagged{Updates: 1, Left: 1}},
		{name: "for the table again, by another rule", r: row("k", 3, "3-a", here), stored: dead(3, "3-a", here, "f"), want: "+pt=a/f k 3 a", counts: Tagged{Updates: 1}},
		{name: "a tombstone again", r: deletedRow("k", 3, "3-a"), stored: dead(3, "3-a", here, "f"), counts: Tagged{Replayed: 1}},
		{name: "not for the table, hard", r: onlyHeld(gone("k", 3)), stored: lives(2, "2-a", here, "f"), want: "-pt=a/f k 3", counts: Tagged{Deletes: 1, Left: 1}},
		{name: "not for the table by another rule, hard", r: onlyHeld(gone("k", 3)), stored: lives(3, "3-a", here, "f"), want: "-pt=a/f k 3", counts: Tagged{Deletes: 1, Left: 1}},
		{name: "not for the table, hard and unknown", r: onlyHeld(gone("k", 3)), counts: Tagged{Elsewhere: 1}},
		{name: "not for the table, hard, in two places", r: onlyHeld(gone("k", 5)), stored: lives(4, "4-a", here, "f", at(there, "g")), want: "-pt=b/g k 5; -pt=a/f k 5", counts: Tagged{Deletes: 1, Left: 1, Repaired: 1}},
		{name: "not for the table, purged before: later rows of a lower sum must win", r: purged(left("k", 1, "1-b")), stored: dead(4, "4-a", here, "f"), want: fmt.Sprintf("+pt=a/f k %d a", era(1, 1)), counts: Tagged{Updates: 1, Left: 1}},

		{name: "key in two places, updated", r: row("k", 5, "5-a", here), stored: lives(4, "4-a", here, "f", at(there, "g")), want: "-pt=b/g k 5; +pt=a/f k 5 a", counts: Tagged{Updates: 1, Repaired: 1}},
		{name: "key in two places, deleted", r: gone("k", 5), stored: lives(4, "4-a", here, "f", at(there, "g"), at(there, "h")), want: "-pt=b/g k 5; -pt=b/h k 5; -pt=a/f k 5", counts: Tagged{Deletes: 1, Repaired: 2}},
		{name: "key in two places, moved to the other", r: row("k", 5, "5-a", there), stored: lives(4, "4-a", here, "f", at(there, "g")), want: "-pt=a/f k 5; +pt=b/g k 5 b", counts: Tagged{Updates: 1, Moved: 1, Repaired: 1}},
		{name: "key in two places, replayed", r: row("k", 4, "4-a", here), stored: lives(4, "4-a", here, "f", at(there, "g")), counts: Tagged{Replayed: 1}},
	} {
		t.Run(c.name, func(t *testing.T) {
			tg := newTagger(envelope(t), hudi.OurPartitioning("pt"), c.o)
			if err := tg.place(c.r, c.stored); err != nil {
				t.Fatal(err)
			}
			if got := text(tg.Records); got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
			counts := tg.Tagged
			counts.Records = nil
			if fmt.Sprint(counts) != fmt.Sprint(c.counts) {
				t.Errorf("counts %+v, want %+v", counts, c.counts)
			}
		})
	}
}

func TestPlaceWithoutPartitions(t *testing.T) {
	tg := newTagger(envelope(t), hudi.Partitioning{}, TagOptions{})
	r := anywhere(row("k", 3, "3-a", ""))
	r.Row[5] = hudi.String("the document's own")
	if err := tg.place(r, lives(2, "2-a", "", "f")); err != nil {
		t.Fatal(err)
	}
	if got := text(tg.Records); got != "+/f k 3 the document's own" {
		t.Fatal(got)
	}
}

func TestPlaceReportsForeignFolders(t *testing.T) {
	tg := newTagger(envelope(t), hudi.OurPartitioning("pt"), TagOptions{})
	if err := tg.place(anywhere(row("k", 3, "3-a", nowhere)), lives(2, "2-a", "20240101", "f")); err == nil {
		t.Fatal("a folder that is no value of the partition column was accepted")
	}
}

func TestCollapse(t *testing.T) {
	for _, c := range []struct {
		name string
		rs   []hudi.Record
		want string
	}{
		{"nothing twice", []hudi.Record{row("a", 1, "1-a", here), row("b", 1, "1-a", here)}, "a1 b1"},
		{"newest wins, wherever it stands", []hudi.Record{row("a", 3, "3-a", here), row("b", 1, "1-a", here), row("a", 2, "2-a", there)}, "a3 b1"},
		{"of equals the later", []hudi.Record{row("a", 2, "2-a", here), row("b", 1, "1-a", here), row("a", 2, "2-b", here)}, "b1 a2"},
		{"delete and birth", []hudi.Record{gone("a", 4), row("a", 5, "5-a", here), row("b", 2, "2-a", here), gone("b", 3)}, "a5 b3-"},
	} {
		t.Run(c.name, func(t *testing.T) {
			tg := newTagger(envelope(t), hudi.OurPartitioning("pt"), TagOptions{})
			n := len(c.rs)
			var got []string
			for _, r := range tg.collapse(c.rs) {
				mark := ""
				if r.Delete {
					mark = "-"
				}
				got = append(got, fmt.Sprintf("%s%d%s", r.Key.Record, r.Order, mark))
			}
			if strings.Join(got, " ") != c.want || tg.Collapsed != int64(n-len(got)) {
				t.Fatalf("%v, %d collapsed; want %s", got, tg.Collapsed, c.want)
			}
		})
	}
}
