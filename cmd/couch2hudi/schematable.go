package main

import (
	"context"
	"fmt"
	"iter"
	"math"
	"strconv"

	"github.com/couch2hudi/couch2hudi/commitmeta"
	"github.com/couch2hudi/couch2hudi/hudi"
	"github.com/couch2hudi/couch2hudi/hudi/timeline"
	"github.com/couch2hudi/couch2hudi/normalize"
	"github.com/couch2hudi/couch2hudi/reader"
	"github.com/couch2hudi/couch2hudi/table"
)

// runTableSchema is schema --table.
func runTableSchema(ctx context.Context, s streams, f schemaFlags) error {
	t, closeTable, err := openForReading(ctx, f.table)
	if err != nil {
		return err
	}
	defer closeTable()
	v, err := t.View(ctx)
	if err != nil {
		return err
	}
	d := described{partition: t.PartitionField()}
	if d.Schema, err = v.Schema(ctx); err != nil {
		return err
	}
	if !f.suggest && f.format != "avro" {
		if err := d.columnsSince(ctx, v, f.history); err != nil {
			return err
		}
	}
	if d.envelope() == nil || f.format == "avro" {
		return d.print(s.out, f.format) // none of ours rescues values
	}
	if err := d.look(ctx, v, f.sample); err != nil {
		return fmt.Errorf("count rescued values: %w", err)
	}
	if f.suggest {
		return d.suggestFixes(s.out)
	}
	if err := d.print(s.out, f.format); err != nil {
		return err
	}
	return d.sum(s, f.table)
}

// columnsSince finds the first commit with a column, for all columns that a commit
// ever had.
func (d *described) columnsSince(ctx context.Context, v *table.View, history bool) error {
	d.since = map[string]hudi.Time{}
	last := ""
	see := func(i timeline.Instant, b *commitmeta.Body) error {
		text := b.Extra[commitmeta.ExtraSchema]
		if d.oldest == "" || i.Time.Before(d.oldest) {
			d.oldest = i.Time
		} else if text == last {
			return nil
		}
		if text == "" {
			return nil
		}
		last = text
		schema, err := hudi.ParseSchema(text)
		if err != nil {
			return fmt.Errorf("schema of commit %s: %w", i.Time, err)
		}
		for _, c := range schema.Columns() {
			if at, known := d.since[c.Name]; !known || i.Time.Before(at) {
				d.since[c.Name] = i.Time
			}
		}
		return nil
	}
	for _, i := range v.Writes() {
		b, err := v.Body(ctx, i)
		if err != nil {
			return err
		}
		if err := see(i, &b); err != nil {
			return err
		}
	}
	if history {
		_, err := v.EachArchived(ctx, see)
		return err
	}
	files, err := v.EachArchived(ctx, nil)
	d.before = files > 0
	return err
}

// mostSlices bounds the file groups that a sample is taken from, and the
// partitions whose files are listed for it.
const mostSlices = 64

// look counts rescued values in a sample of rows: of each of up to 64 file groups
// the same number, as many as there are, the groups and their partitions spread
// evenly over the table. With rows 0 it takes all.
func (d *described) look(ctx context.Context, v *table.View, rows int) error {
	var o reader.Options
	for _, c := range d.Columns() {
		if c.Name != hudi.ColumnDoc && c.Name != hudi.ColumnLeaves {
			o.Columns = append(o.Columns, c.Name)
		}
	}
	target, err := reader.Target(ctx, v, o)
	if err != nil {
		return err
	}
	if d.audit, err = normalize.NewAudit(target, d.partition); err != nil {
		return err
	}
	d.whole = true
	if rows == 0 {
		return d.take(reader.Snapshot(ctx, v, o), math.MaxInt)
	}
	groups, err := d.groups(ctx, v)
	if err != nil {
		return err
	}
	places := d.spread(len(groups))
	for k, at := range places {
		quota := max(1, (rows-d.audit.Rows())/(len(places)-k))
		if err := d.take(reader.Slice(ctx, v, groups[at], target, o), quota); err != nil {
			return err
		}
	}
	return nil
}

// groups are the slices of some partitions.
func (d *described) groups(ctx context.Context, v *table.View) (all []hudi.Slice, err error) {
	partitions, err := v.Partitions(ctx)
	if err != nil {
		return nil, err
	}
	for _, at := range d.spread(len(partitions)) {
		list, err := v.Slices(ctx, partitions[at])
		if err != nil {
			return nil, err
		}
		all = append(all, list...)
	}
	return all, nil
}

// spread are up to mostSlices of n places, the first and the last among them.
func (d *described) spread(n int) []int {
	most := min(n, mostSlices)
	d.whole = d.whole && most == n
	places := make([]int, most)
	for k := range places {
		places[k] = k
		if most < n {
			places[k] = k * (n - 1) / (most - 1)
		}
	}
	return places
}

// take looks at up to most live rows.
func (d *described) take(rows iter.Seq2[*hudi.Record, error], most int) error {
	upTo := math.MaxInt
	if most < upTo {
		upTo = d.audit.Rows() + most
	}
	for r, err := range rows {
		if err != nil {
			return err
		}
		if d.audit.Rows() == upTo {
			d.whole = false
			return nil
		}
		if r.Delete {
			continue
		}
		d.audit.Add(r.Row)
	}
	return nil
}

// counted puts what was counted into the lines of columns, and adds lines for
// fields that have none.
func (d described) counted(lines []columnLine) []columnLine {
	if d.audit == nil {
		return lines
	}
	at := map[string]int{}
	for i := range lines {
		at[lines[i].Name] = i
	}
	for _, f := range d.audit.Fields() {
		if len(f.Columns) == 0 {
			l := columnLine{Field: f.Path, Origin: "rescued", Rescued: f.Rescued}
			if f.Inside == "" {
				l.Values = f.Rescued
			}
			lines = append(lines, l)
			continue
		}
		l := &lines[at[f.Columns[0]]]
		l.Values, l.Rescued = f.Held+f.Rescued, f.Rescued
	}
	return lines
}

func (l *columnLine) sinceWords() string {
	if l.OrBefore {
		return l.Since + " or before"
	}
	return l.Since
}

func (l *columnLine) rescuedWords() string {
	switch {
	case l.Rescued == 0:
		return ""
	case l.Values == 0:
		return strconv.Itoa(l.Rescued)
	}
	return shareWords(l.Rescued, l.Values)
}

func shareWords(n, of int) string {
	const percent, digits = 100, 3
	share := strconv.FormatFloat(percent*float64(n)/float64(of), 'g', digits, 64)
	return fmt.Sprintf("%d of %d, %s%%", n, of, share)
}

// sum tells people how much was looked at, and what to do.
func (d described) sum(s streams, table string) error {
	fields := 0
	for _, f := range d.audit.Fields() {
		if f.Rescued > 0 {
			fields++
		}
	}
	rows := "rows, a sample"
	if d.whole {
		rows = "rows, all of them"
	}
	said := fmt.Sprintf("looked at %d live %s: values of %d fields are rescued", d.audit.Rows(), rows, fields)
	if n := d.audit.More(); n > 0 {
		said += fmt.Sprintf(", and %d values of still more fields", n)
	}
	if n := d.audit.Broken(); n > 0 {
		said += fmt.Sprintf("; _rescued of %d rows cannot be read, another writer left it so", n)
	}
	if fields > 0 {
		said += "; couch2hudi schema --table " + table + " --suggest"
	}
	_, err := fmt.Fprintln(s.err, said)
	return err
}
