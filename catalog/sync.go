package catalog

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/couch2hudi/couch2hudi/hudi"
	"github.com/couch2hudi/couch2hudi/table"
)

// Options say what a Sync does. The zero value of each but the names and the location
// is its default.
type Options struct {
	// Database and Name are what the table is called in the metastore, in lower case.
	Database, Name string
	// Location is the table's address as engines write it.
	Location string
	// Adopt drops what has a name there and is not this table, without its files.
	Adopt bool
	// OnlyChanges leaves alone a metastore that knows all columns and partitions, also
	// when it does not know of the last commit.
	OnlyChanges bool
	// DryRun changes nothing, and says what would be.
	DryRun bool
}

// Change is what was done about one table or view.
type Change struct {
	Name string
	Step Step
	// Added, Moved and Dropped count partitions.
	Added, Moved, Dropped int
	// Whole says that all partitions were compared, not only those that commits since
	// the last sync name.
	Whole bool
}

// Result is what a Sync did.
type Result struct {
	// Instant is the table's last commit, of which the metastore knows now.
	Instant hudi.Time
	// Database says that the database was made.
	Database bool
	Changes  []Change
}

// Changed says whether anything but the note of the last commit changed.
func (r *Result) Changed() bool {
	return r.Database || slices.ContainsFunc(r.Changes, func(c Change) bool {
		return c.Step != StepNone || c.Added+c.Moved+c.Dropped > 0
	})
}

// Sync tells a metastore the state of a table. It may be done again at any time, by
// several at once, and after one that died: the metastore's note of the last commit is
// written after all that the commit brought, so that what is missing is made up for.
// An ErrForeign: a name is taken by something else, and Adopt is not set; nothing was
// done then.
func Sync(ctx context.Context, m Metastore, t *table.Table, o Options) (Result, error) {
	s := syncer{m: m, o: o}
	want, there, fresh, err := s.look(ctx, t)
	if err == nil && s.behind(there) {
		// Another sync has seen a later commit. Unless that was taken back, it is on the
		// timeline by now.
		want, there, fresh, err = s.look(ctx, t)
	}
	if err != nil {
		return Result{}, err
	}
	result := Result{Instant: s.v.Last(), Database: fresh}
	if fresh && !o.DryRun {
		if err := m.CreateDatabase(ctx, o.Database); err != nil {
			return result, fmt.Errorf("make database %s: %w", o.Database, err)
		}
	}
	for i := range want {
		c, err := s.one(ctx, &want[i], there[i])
		if err != nil {
			return result, fmt.Errorf("%s.%s: %w", o.Database, want[i].Name, err)
		}
		result.Changes = append(result.Changes, c)
	}
	return result, nil
}

// syncer is one Sync.
type syncer struct {
	m     Metastore
	v     *table.View
	o     Options
	state State

	since map[marks]written
}

// look is what is wanted of the metastore, what has the names there, nil for nothing,
// and whether even the database is missing. It refuses before anything is changed.
func (s *syncer) look(ctx context.Context, t *table.Table) (want []Table, there []*Table, fresh bool, err error) {
	if s.v, err = t.View(ctx); err != nil {
		return nil, nil, false, err
	}
	schema, err := s.v.Schema(ctx)
	if err != nil {
		return nil, nil, false, err
	}
	s.since = map[marks]written{}
	s.state = State{Database: s.o.Database, Name: s.o.Name, Location: s.o.Location, Schema: schema, Partitioning: t.Partitioning(), Operation: t.Changelog()}
	if want, err = Describe(s.state); err != nil {
		return nil, nil, false, err
	}
	has, err := s.m.HasDatabase(ctx, s.o.Database)
	if err != nil {
		return nil, nil, false, fmt.Errorf("look for database %s: %w", s.o.Database, err)
	}
	there = make([]*Table, len(want))
	if !has {
		return want, there, true, nil
	}
	for i := range want {
		found, err := s.m.Table(ctx, s.o.Database, want[i].Name)
		switch {
		case errors.Is(err, ErrNotExist):
		case err != nil:
			return nil, nil, false, fmt.Errorf("%s.%s: %w", s.o.Database, want[i].Name, err)
		default:
			there[i] = &found
			if why := Foreign(&found, &want[i]); why != "" && !s.o.Adopt {
				return nil, nil, false, &ForeignError{s.o.Database, want[i].Name, why}
			}
		}
	}
	return want, there, false, nil
}

// behind says whether the metastore knows of a later commit than the view.
func (s *syncer) behind(there []*Table) bool {
	return slices.ContainsFunc(there, func(t *Table) bool {
		return t != nil && SameLocation(t.Location, s.o.Location) && hudi.Time(t.Parameters[paramLast]).After(s.v.Last())
	})
}

// one brings one table or view to what is wanted.
func (s *syncer) one(ctx context.Context, want, there *Table) (Change, error) {
	c := Change{Name: want.Name, Step: StepNone}
	if there != nil && Foreign(there, want) != "" {
		c.Step = StepAdopt
		if !s.o.DryRun {
			if err := s.m.Drop(ctx, s.o.Database, want.Name); err != nil {
				return c, err
			}
		}
		there = nil
	}
	if there == nil {
		there = want
		if c.Step == StepNone {
			c.Step = StepCreate
		}
		made, err := s.create(ctx, want)
		if err != nil {
			return c, err
		}
		if made != nil { // by another sync, at the same time
			there, c.Step = made, StepNone
		}
	}
	merged, changed := Merged(there, want)
	if changed {
		c.Step = StepAlter
		if err := s.alter(ctx, &merged, there); err != nil {
			return c, err
		}
	}
	if want.Query != "" {
		return c, nil
	}
	if err := s.partitions(ctx, &merged, there, &c); err != nil {
		return c, err
	}
	return c, s.note(ctx, merged, c)
}

// create makes a table. Who was quicker is returned.
func (s *syncer) create(ctx context.Context, want *Table) (*Table, error) {
	if s.o.DryRun {
		return nil, nil
	}
	t := *want
	err := s.m.Create(ctx, s.o.Database, t)
	if !errors.Is(err, ErrExist) {
		return nil, err
	}
	made, err := s.m.Table(ctx, s.o.Database, want.Name)
	if err != nil {
		return nil, err
	}
	if why := Foreign(&made, want); why != "" {
		return nil, &ForeignError{s.o.Database, want.Name, why}
	}
	return &made, nil
}

// alter gives a table its new columns and parameters. The note of the last commit
// stays the old one until the partitions are there.
func (s *syncer) alter(ctx context.Context, t, there *Table) error {
	if s.o.DryRun {
		return nil
	}
	if there.Parameters[paramOurs] == "" && t.Query == "" {
		// Another program's: it may have partitions that are not wanted.
		delete(t.Parameters, paramLast)
		delete(t.Parameters, paramCompleted)
	}
	return s.m.Alter(ctx, s.o.Database, *t)
}

// partitions adds, moves and drops the partitions of a table.
func (s *syncer) partitions(ctx context.Context, t, there *Table, c *Change) error {
	if len(t.Partitioned) == 0 {
		return nil
	}
	p, whole, err := s.plan(ctx, t, there, c.Step)
	if err != nil {
		return err
	}
	c.Added, c.Moved, c.Dropped, c.Whole = len(p.Add), len(p.Move), len(p.Drop), whole
	if s.o.DryRun {
		return nil
	}
	if len(p.Add) > 0 {
		if err := s.m.AddPartitions(ctx, s.o.Database, *t, p.Add); err != nil {
			return fmt.Errorf("add %d partitions: %w", len(p.Add), err)
		}
	}
	if len(p.Move) > 0 {
		if err := s.m.MovePartitions(ctx, s.o.Database, *t, p.Move); err != nil {
			return fmt.Errorf("move %d partitions: %w", len(p.Move), err)
		}
	}
	if len(p.Drop) > 0 {
		if err := s.m.DropPartitions(ctx, s.o.Database, *t, p.Drop); err != nil {
			return fmt.Errorf("drop %d partitions: %w", len(p.Drop), err)
		}
	}
	return nil
}

// plan says which partitions change, and whether all were compared: of a table that
// was synced before only those that commits since then name.
func (s *syncer) plan(ctx context.Context, t, there *Table, step Step) (PartitionPlan, bool, error) {
	m := marks{hudi.Time(there.Parameters[paramLast]), hudi.Time(there.Parameters[paramCompleted])}
	if step == StepCreate || step == StepAdopt || there.Parameters[paramOurs] == "" {
		m = marks{}
	}
	w, err := s.writtenSince(ctx, m)
	if err != nil {
		return PartitionPlan{}, false, err
	}
	if w.whole {
		var has []Partition
		if !s.o.DryRun || step != StepCreate && step != StepAdopt {
			if has, err = s.m.Partitions(ctx, s.o.Database, *t); err != nil {
				return PartitionPlan{}, false, fmt.Errorf("list partitions: %w", err)
			}
		}
		return PlanPartitions(has, w.live, nil, true), true, nil
	}
	values := make([]string, 0, len(w.live)+len(w.gone))
	for _, p := range w.live {
		values = append(values, p.Value)
	}
	if values = append(values, w.gone...); len(values) == 0 {
		return PartitionPlan{}, false, nil
	}
	has, err := s.m.Partitions(ctx, s.o.Database, *t, values...)
	if err != nil {
		return PartitionPlan{}, false, fmt.Errorf("find partitions: %w", err)
	}
	return PlanPartitions(has, w.live, w.gone, false), false, nil
}

// note writes down up to which commit the metastore knows the table.
func (s *syncer) note(ctx context.Context, t Table, c Change) error {
	last, completed := string(s.v.Last()), string(s.v.Latest())
	if last == "" || s.o.DryRun || t.Parameters[paramLast] == last && t.Parameters[paramCompleted] == completed {
		return nil
	}
	quiet := c.Step == StepNone && c.Added+c.Moved+c.Dropped == 0
	if s.o.OnlyChanges && quiet && (!c.Whole || len(t.Partitioned) == 0) {
		return nil
	}
	t.Parameters[paramLast], t.Parameters[paramCompleted] = last, completed
	return s.m.Alter(ctx, s.o.Database, t)
}
