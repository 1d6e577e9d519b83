package pipeline

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/couch2hudi/couch2hudi/changes"
	"github.com/couch2hudi/couch2hudi/commitmeta"
	"github.com/couch2hudi/couch2hudi/hudi"
	"github.com/couch2hudi/couch2hudi/index"
	"github.com/couch2hudi/couch2hudi/normalize"
	"github.com/couch2hudi/couch2hudi/table"
)

// Retried is what became of quarantined changes that were tried again.
type Retried struct {
	// Changes were looked at. Applied are those of them whose document was written, into
	// whichever table it is for, Older those that are not newer than what the table
	// holds, Elsewhere those of documents that are not for it, Gone those of documents,
	// or of a database, that are no more. All of these are settled. Broken ones are
	// broken still and stay.
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
	asked bool
	// read is the bytes of the documents that came.
	read    int64
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
	p, err := open(ctx, o, dry)
	if err != nil {
		return Retried{}, err
	}
	return p.retryAll(ctx, nil, dry)
}

// RetryGroup is RetryQuarantine for the tables of a group, in their order. What stands
// in one table's quarantine may be for another one: that is written first.
func RetryGroup(ctx context.Context, o GroupOptions, dry bool) ([]Retried, error) {
	o.Feed = o.Feed.withDefaults()
	r, err := o.routes()
	if err != nil {
		return nil, err
	}
	r.first = false
	all := make([]*Ingest, len(o.Tables))
	for i := range all {
		if all[i], err = open(ctx, o.tableOptions(i, o.Feed.Source), dry); err != nil {
			return nil, o.of(i, err)
		}
		all[i].own = func(cs []changes.Change) ([]changes.Change, error) { return r.only(i, cs) }
	}
	done := make([]Retried, len(all))
	for i, p := range all {
		others := slices.Delete(slices.Clone(all), i, i+1)
		if done[i], err = p.retryAll(ctx, others, dry); err != nil {
			return done, o.of(i, err)
		}
	}
	return done, nil
}

// retryAll tries all that waits in the table's quarantine again. The others are the
// tables that what is tried may be for instead.
func (p *Ingest) retryAll(ctx context.Context, others []*Ingest, dry bool) (Retried, error) {
	total := Retried{Reasons: map[string]int64{}}
	v, err := p.o.Table.View(ctx)
	if err != nil {
		return total, fmt.Errorf("view table: %w", err)
	}
	r := &retry{dry: dry}
	bytes, most := int64(0), firstRetries
	budget := p.budget.bytes(p.o.MaxBytes)
	for one, err := range Quarantine(ctx, v) {
		if err != nil {
			return total, err
		}
		if one.Source != "" && one.Source != p.name {
			continue
		}
		r.pending = append(r.pending, one)
		if bytes += one.bytes; len(r.pending) >= most || bytes >= budget {
			if err := p.retry(ctx, r, others, &total); err != nil {
				return total, err
			}
			most = nextRetries(most, r.read, budget)
			r, bytes = &retry{dry: dry}, 0
		}
	}
	return total, p.retry(ctx, r, others, &total)
}

// firstRetries is how many documents are asked for at first: how large they are shows
// when they come.
const firstRetries = 16

// nextRetries is how many are asked for next, when that many gave so many bytes.
func nextRetries(most int, bytes, budget int64) int {
	const room = 4
	switch {
	case bytes > budget:
		return max(1, most/2)
	case bytes < budget/room:
		return min(2*most, changes.ReadAtOnce)
	}
	return most
}

// retry tries a batch again and adds up what became of it.
func (p *Ingest) retry(ctx context.Context, r *retry, others []*Ingest, total *Retried) error {
	if len(r.pending) == 0 {
		return nil
	}
	r.settled = make([]bool, len(r.pending))
	cs, err := p.revive(ctx, r)
	if err != nil {
		return err
	}
	f := &r.found
	var taken int64
	for _, other := range others {
		applied, err := other.share(ctx, r, cs, total)
		if err != nil {
			return err
		}
		taken += applied
	}
	if cs, err = p.keep(r, cs); err != nil {
		return err
	}
	if err := p.applyRetry(ctx, r, cs, total); err != nil {
		return err
	}
	taken = min(taken, f.Elsewhere)
	f.Applied, f.Elsewhere = f.Applied+taken, f.Elsewhere-taken
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

// applyRetry commits what a batch makes of the table.
func (p *Ingest) applyRetry(ctx context.Context, r *retry, cs []changes.Change, total *Retried) error {
	progress, err := p.apply(ctx, gathered{batch: changes.Batch{Changes: cs, Last: p.position}, retry: r})
	if err != nil {
		return fmt.Errorf("apply quarantined changes: %w", err)
	}
	p.uncommitted = commitmeta.Stats{}
	p.tell(progress)
	if progress.Instant != "" {
		total.Commits++
	}
	return nil
}

// share gives another table its part of what is tried again, and says how many
// documents it wrote.
func (p *Ingest) share(ctx context.Context, r *retry, cs []changes.Change, total *Retried) (int64, error) {
	cs, err := p.ours(cs)
	if err != nil {
		return 0, err
	}
	part := &retry{dry: r.dry, asked: r.asked}
	if err := p.applyRetry(ctx, part, cs, total); err != nil {
		return 0, err
	}
	return part.found.Applied, nil
}

// keep is what the changes are to the table. Those that cannot be routed stay in
// quarantine.
func (p *Ingest) keep(r *retry, cs []changes.Change) ([]changes.Change, error) {
	if p.own == nil {
		return cs, nil
	}
	var kept []changes.Change
	var from [][]int
	for i := range cs {
		mine, err := p.own(cs[i : i+1])
		if err != nil {
			return nil, err
		}
		if len(mine) == 0 { // it is as broken to the table that puts aside what cannot be read
			mine = []changes.Change{{ID: cs[i].ID, Defect: or(cs[i].Defect, "it cannot be routed")}}
		}
		kept, from = append(kept, mine[0]), append(from, r.from[i])
	}
	r.from = from
	return kept, nil
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
			c := one.q.change()
			if p.o.Layout.ofMany() {
				c.Database = p.name
			}
			cs, r.from = append(cs, c), append(r.from, []int{i})
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
		r.read += int64(len(c.Body))
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
	if r.count() == 0 {
		return nil
	}
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
