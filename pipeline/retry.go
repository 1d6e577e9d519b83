package pipeline

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"

	"github.com/couch2hudi/couch2hudi/changes"
	"github.com/couch2hudi/couch2hudi/commitmeta"
	"github.com/couch2hudi/couch2hudi/hudi"
	"github.com/couch2hudi/couch2hudi/index"
	"github.com/couch2hudi/couch2hudi/normalize"
	"github.com/couch2hudi/couch2hudi/table"
)

// Retried is what became of quarantined changes that were tried again.
type Retried struct {
	// Changes were looked at. Applied are those of them whose document was written,
	// Older those that are not newer than what the table holds, Elsewhere those of
	// documents that are not for the table, Gone those of documents, or of a database,
	// that are no more. All of these are settled. Broken ones are broken still and stay.
	Changes, Applied, Older, Elsewhere, Gone, Broken int64
	// Commits were written.
	Commits int
	// Reasons count the broken ones by what is wrong with them.
	Reasons map[string]int64
}

// Reasons may name revisions, so that there is no end to them.
const (
	mostReasons  = 20
	otherReasons = "other reasons"
)

// retry is a batch of quarantined changes.
type retry struct {
	// dry writes nothing.
	dry bool
	// asked says that the changes are the source's present states.
	asked   bool
	pending []*Pending
	// from are, by the places of the batch's changes, the pending ones that it answers.
	from [][]int
	// settled says of each pending one that it needs no further try.
	settled []bool
	found   Retried
}

// RetryQuarantine tries what stands in the quarantine of completed instants again, in
// batches of the options' limits, each a commit with the position as it is. What is
// settled is noted with the commit, so that whatever dies it is tried once. Changes of
// a source that can be asked (changes.Purger) are asked for: what counts is the present
// state of a document. Those of other sources are taken from the quarantine.
// With dry nothing is written.
func RetryQuarantine(ctx context.Context, o Options, dry bool) (Retried, error) {
	total := Retried{Reasons: map[string]int64{}}
	p, err := open(ctx, o, dry)
	if err != nil {
		return total, err
	}
	v, err := o.Table.View(ctx)
	if err != nil {
		return total, fmt.Errorf("view table: %w", err)
	}
	r := &retry{dry: dry}
	bytes := int64(0)
	for one, err := range Quarantine(ctx, v) {
		if err != nil {
			return total, err
		}
		if one.Source != "" && one.Source != p.name {
			continue
		}
		r.pending = append(r.pending, one)
		if bytes += one.bytes; len(r.pending) >= readPurged || bytes >= p.budget.bytes(p.o.MaxBytes) {
			if err := p.retry(ctx, r, &total); err != nil {
				return total, err
			}
			r, bytes = &retry{dry: dry}, 0
		}
	}
	return total, p.retry(ctx, r, &total)
}

// retry tries a batch again and adds up what became of it.
func (p *Ingest) retry(ctx context.Context, r *retry, total *Retried) error {
	if len(r.pending) == 0 {
		return nil
	}
	r.settled = make([]bool, len(r.pending))
	cs, err := p.revive(ctx, r)
	if err != nil {
		return err
	}
	g := gathered{batch: changes.Batch{Changes: cs, Last: p.position}, retry: r}
	progress, err := p.apply(ctx, g)
	if err != nil {
		return fmt.Errorf("apply quarantined changes: %w", err)
	}
	p.uncommitted = commitmeta.Stats{}
	p.tell(progress)
	if progress.Instant != "" {
		total.Commits++
	}
	f := &r.found
	total.Changes += int64(len(r.pending))
	total.Applied += f.Applied
	total.Elsewhere += f.Elsewhere
	total.Gone += f.Gone
	total.Broken += f.Broken
	total.Older += int64(len(r.pending)) - f.Applied - f.Elsewhere - f.Gone - f.Broken
	for reason, n := range f.Reasons {
		if _, known := total.Reasons[reason]; !known && len(total.Reasons) >= mostReasons {
			reason = otherReasons
		}
		total.Reasons[reason] += n
	}
	return nil
}

// revive makes changes of pending ones.
func (p *Ingest) revive(ctx context.Context, r *retry) ([]changes.Change, error) {
	purger, asks := p.o.Source.(changes.Purger)
	r.asked = asks
	places := map[string][]int{}
	var ids []string
	var cs []changes.Change
	for i, one := range r.pending {
		switch {
		case one.q.Epoch != p.epoch():
			r.gone(i) // of a database that was created again since
		case asks && one.ID != "":
			if places[one.ID] == nil {
				ids = append(ids, one.ID)
			}
			places[one.ID] = append(places[one.ID], i)
		default:
			cs, r.from = append(cs, one.q.change()), append(r.from, []int{i})
		}
	}
	if len(ids) == 0 {
		return cs, nil
	}
	states, err := purger.Read(ctx, ids)
	if err != nil {
		return nil, fmt.Errorf("read quarantined documents of %q: %w", p.identity.Name, err)
	}
	for _, c := range states {
		if c.Absent {
			r.gone(places[c.ID]...)
			continue
		}
		cs, r.from = append(cs, c), append(r.from, places[c.ID])
	}
	return cs, nil
}

// count is how many are settled.
func (r *retry) count() (n int64) {
	for _, is := range r.settled {
		if is {
			n++
		}
	}
	return n
}

func (r *retry) gone(pending ...int) {
	for _, i := range pending {
		r.settled[i] = true
		r.found.Gone++
	}
}

// judged notes what was rejected again, which is not quarantined twice, and whether
// there is anything to commit.
func (r *retry) judged(shaped *normalize.Result, placed *index.Tagged) (forced bool) {
	f := &r.found
	f.Reasons, f.Broken = map[string]int64{}, 0
	broken := map[int]string{}
	for i := range shaped.Rejects {
		broken[shaped.Rejects[i].Place] = shaped.Rejects[i].Reason
	}
	for i, pending := range r.from {
		for _, at := range pending {
			reason, still := broken[i]
			if r.settled[at] = !still; still {
				f.Broken++
				f.Reasons[reason]++
			}
		}
	}
	f.Applied = placed.Inserts + placed.Updates + placed.Deletes
	f.Elsewhere = placed.Elsewhere
	return r.count() > 0
}

// note puts what is settled aside with a transaction.
func (r *retry) note(ctx context.Context, x *table.Txn) error {
	var all []settledFile
	for i, one := range r.pending {
		if !r.settled[i] {
			continue
		}
		if len(all) == 0 || all[len(all)-1].Instant != one.Instant {
			all = append(all, settledFile{Instant: one.Instant})
		}
		last := &all[len(all)-1]
		last.Lines = append(last.Lines, one.line.line)
	}
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	for i := range all {
		if err := e.Encode(&all[i]); err != nil {
			return fmt.Errorf("render what is settled: %w", err)
		}
	}
	if err := x.PutAside(ctx, settledName(x.Instant()), out.Bytes()); err != nil {
		return fmt.Errorf("note what is settled: %w", err)
	}
	return nil
}

func settledName(instant hudi.Time) string { return quarantineFolder + string(instant) + settledSuffix }
