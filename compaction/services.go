package compaction

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/couch2hudi/couch2hudi/commitmeta"
	"github.com/couch2hudi/couch2hudi/hudi"
	"github.com/couch2hudi/couch2hudi/table"
)

// Mode says who runs compactions.
type Mode string

// The modes.
const (
	// Async runs them in the background of the ingest, which goes on.
	Async Mode = "async"
	// Inline runs them between two commits.
	Inline Mode = "inline"
	// ScheduleOnly writes plans for another engine or process to run.
	ScheduleOnly Mode = "schedule-only"
	// Off does neither.
	Off Mode = "off"
)

// Options say what services do; Table is needed.
type Options struct {
	Table *table.Table
	// Mode is who runs compactions; default Async.
	Mode Mode
	// Policy is when slices are compacted.
	Policy Policy
	// Run is how.
	Run RunOptions
	// Turn, of capacity 1, lets one of several tables run a compaction in the
	// background at a time, so that one's memory is what they all take; nil lets
	// each as it likes.
	Turn chan struct{}
	// Clean says what is kept of the past, Archive how long the active timeline
	// gets.
	Clean   CleanPolicy
	Archive ArchivePolicy
	// Clock is the wall clock; default time.Now. The ages of slices are
	// measured by the table's.
	Clock func() time.Time
	// Events tells an observer what happens; nil functions are not called.
	Events Events
}

// Events is how services report: they neither log nor fail an ingest. Calls may
// come from another goroutine, one at a time.
type Events struct {
	// Scheduled is called after a plan of so many slices was written.
	Scheduled func(at hudi.Time, slices int)
	// Running is called with true when a run begins and with false when it has
	// ended, whatever became of it.
	Running func(bool)
	// Compacted is called after a run.
	Compacted func(Result)
	// Cleaned and Archived are called after files, or instants, went.
	Cleaned  func(table.Cleaned)
	Archived func(table.Archived)
	// Failed is called when a service failed; it is tried again after a while.
	Failed func(service string, err error, again time.Duration)
}

// Services are what keeps a table small beside its ingest. Due is for one
// goroutine, the ingest's; what it starts in the background ends with Stop.
type Services struct {
	o     Options
	ages  ages
	known bool // the slices were looked at once
	// last is the instant of the last compaction planned.
	last  time.Time
	plans map[hudi.Time]bool // pending plans that were read: whether they are ours
	// cleaned is when a clean was last looked for.
	cleaned time.Time

	mu      sync.Mutex // guards what follows
	retries map[string]*retry
	// running is closed when the background run ends, nil when there is none.
	running chan struct{}
	cancel  context.CancelFunc
	told    sync.Mutex // held while Events are called
}

// retry is when a service that failed is tried again.
type retry struct {
	after time.Time
	wait  time.Duration
}

const (
	firstRetry = 10 * time.Second
	lastRetry  = 5 * time.Minute
	// busyRetry is when to look again whether another executor is done.
	busyRetry = 30 * time.Second

	serviceSchedule = "schedule a compaction"
	serviceCompact  = "compact"
	serviceClean    = "clean"
	serviceArchive  = "archive"

	// extraPlanner marks plans of ours. It ends up in the commit, too.
	extraPlanner = "couch2hudi.planner"
)

// New is services that have not done anything yet.
func New(o Options) *Services {
	o.Mode = cmp.Or(o.Mode, Async)
	o.Policy, o.Clean = o.Policy.withDefaults(), o.Clean.withDefaults()
	if o.Clock == nil {
		o.Clock = time.Now
	}
	if o.Run.Clock == nil {
		o.Run.Clock = o.Clock
	}
	return &Services{o: o, retries: map[string]*retry{}, plans: map[hudi.Time]bool{}}
}

// Every is how often Due is to be called on a table without commits.
func (s *Services) Every() time.Duration {
	const share, least, most = 20, 50 * time.Millisecond, 30 * time.Second
	return min(max(s.o.Policy.MaxAge/share, least), most)
}

// Due does what is due: it plans a compaction, starts to run it, and looks after
// the rest. It needs the table's lease and must be called while no commit is
// open. What fails is told and tried again later; the error is that of ctx
// alone.
func (s *Services) Due(ctx context.Context) error {
	if s.o.Mode != Off {
		s.attempt(ctx, serviceSchedule, func() error { return s.schedule(ctx) })
		if s.o.Mode != ScheduleOnly {
			s.attempt(ctx, serviceCompact, func() error { return s.execute(ctx) })
		}
	}
	s.attempt(ctx, serviceClean, func() error { return s.clean(ctx) })
	s.attempt(ctx, serviceArchive, func() error { return s.archive(ctx) })
	return ctx.Err()
}

// attempt runs a step unless it failed a moment ago.
func (s *Services) attempt(ctx context.Context, service string, step func() error) {
	s.mu.Lock()
	r := s.retries[service]
	wait := r != nil && s.o.Clock().Before(r.after)
	s.mu.Unlock()
	if wait || ctx.Err() != nil {
		return
	}
	s.ended(ctx, service, step())
}

// ended notes how a step ended.
func (s *Services) ended(ctx context.Context, service string, err error) {
	s.mu.Lock()
	switch {
	case err == nil, errors.Is(err, table.ErrNotPending):
		delete(s.retries, service)
		err = nil
	case errors.Is(err, table.ErrBusy):
		s.retries[service] = &retry{after: s.o.Clock().Add(busyRetry), wait: firstRetry}
		err = nil
	case ctx.Err() != nil:
		err = nil // being stopped is no failure
	}
	if err == nil {
		s.mu.Unlock()
		return
	}
	r := s.retries[service]
	if r == nil {
		r = &retry{wait: firstRetry}
		s.retries[service] = r
	}
	again := r.wait
	r.after, r.wait = s.o.Clock().Add(again), min(2*again, lastRetry)
	s.mu.Unlock()
	if s.o.Events.Failed != nil {
		s.tell(func() { s.o.Events.Failed(service, err, again) })
	}
}

func (s *Services) tell(event func()) {
	s.told.Lock()
	defer s.told.Unlock()
	event()
}

// schedule plans a compaction when one is due. While one is pending that this
// process is to run there is no other: two would only be longer on their way.
func (s *Services) schedule(ctx context.Context) error {
	v, err := s.o.Table.Current(ctx)
	if err != nil {
		return err
	}
	if s.o.Mode != ScheduleOnly {
		if at, err := s.pending(ctx, v); err != nil || at != "" {
			return err
		}
	}
	plan, ok, err := s.plan(ctx, v)
	if err != nil || !ok {
		return err
	}
	at, err := s.o.Table.Schedule(ctx, plan)
	if err != nil {
		return err
	}
	if s.last, err = at.Clock(); err != nil {
		return err
	}
	if s.o.Events.Scheduled != nil {
		s.tell(func() { s.o.Events.Scheduled(at, len(plan.Operations)) })
	}
	return nil
}

// plan asks PlanCompact, when what was committed since gives a reason to.
func (s *Services) plan(ctx context.Context, v *table.View) (commitmeta.CompactionPlan, bool, error) {
	none := commitmeta.CompactionPlan{}
	now, err := s.o.Table.Now().Clock()
	if err != nil {
		return none, false, err
	}
	if s.known {
		if err := s.ages.read(ctx, v, ""); err != nil {
			return none, false, err
		}
		if !s.ages.due(s.o.Policy, now) {
			return none, false, nil
		}
	}
	if !s.last.IsZero() && now.Sub(s.last) < s.o.Policy.MinGap {
		return none, false, nil
	}
	latest, err := latestOf(ctx, v)
	if err != nil {
		return none, false, err
	}
	if !s.known {
		if err := s.learn(ctx, v, latest); err != nil {
			return none, false, err
		}
	}
	h := History{Last: s.last, Oldest: s.ages.oldest(latest)}
	if h.Busy, err = v.Clustering(ctx); err != nil {
		return none, false, err
	}
	plan, ok := PlanCompact(latest, h, s.o.Policy, now)
	plan.Extra = map[string]string{extraPlanner: string(s.o.Mode)}
	return plan, ok, nil
}

// learn reads of the past what it needs: the commits since the oldest slice that
// has log files, and the last compaction.
func (s *Services) learn(ctx context.Context, v *table.View, latest []hudi.Slice) error {
	since := v.Last()
	for i := range latest {
		if len(latest[i].Logs) > 0 && latest[i].Instant.Before(since) {
			since = latest[i].Instant
		}
	}
	if err := s.ages.read(ctx, v, since); err != nil {
		return err
	}
	for _, i := range v.Instants() {
		if i.Action != commitmeta.ActionCommit && i.Action != commitmeta.ActionCompaction {
			continue
		}
		at, err := i.Time.Clock()
		if err != nil {
			return err
		}
		s.last = at
	}
	s.known = true
	return nil
}

// latestOf are the latest slices of all partitions.
func latestOf(ctx context.Context, v *table.View) ([]hudi.Slice, error) {
	partitions, err := v.Partitions(ctx)
	if err != nil {
		return nil, err
	}
	var all []hudi.Slice
	for _, p := range partitions {
		list, err := v.Slices(ctx, p)
		if err != nil {
			return nil, err
		}
		all = append(all, list...)
	}
	return all, nil
}

// pending is the first pending compaction that this process is to run: one of
// ours, or one that its planner has left alone for longer than MaxAge.
func (s *Services) pending(ctx context.Context, v *table.View) (hudi.Time, error) {
	now, err := s.o.Table.Now().Clock()
	if err != nil {
		return "", err
	}
	plans := map[hudi.Time]bool{}
	defer func() { s.plans = plans }()
	found := hudi.Time("")
	for _, i := range v.Compactions() {
		ours, read := s.plans[i.Time]
		if !read {
			p, err := s.o.Table.CompactionPlan(ctx, i.Time)
			if errors.Is(err, table.ErrNotPending) {
				continue
			}
			if err != nil {
				return "", err
			}
			_, ours = p.Extra[extraPlanner]
		}
		plans[i.Time] = ours
		at, err := i.Time.Clock()
		if err != nil {
			return "", err
		}
		if found == "" && (ours || now.Sub(at) >= s.o.Policy.MaxAge) {
			found = i.Time
		}
	}
	return found, nil
}

// execute runs what is pending: here, or in the background when nothing runs
// there.
func (s *Services) execute(ctx context.Context) error {
	s.mu.Lock()
	busy := s.running != nil
	s.mu.Unlock()
	if busy {
		return nil
	}
	v, err := s.o.Table.Current(ctx)
	if err != nil {
		return err
	}
	at, err := s.pending(ctx, v)
	if err != nil || at == "" {
		return err
	}
	if s.o.Mode == Inline {
		return s.run(ctx, at)
	}
	if s.o.Turn == nil {
		s.start(ctx, at, func() {})
		return nil
	}
	select {
	case s.o.Turn <- struct{}{}:
		s.start(ctx, at, func() { <-s.o.Turn })
	default: // another table's runs; Due is called again
	}
	return nil
}

// start runs a compaction in the background, and calls after behind it. It outlives
// Due's ctx, and ends by Stop.
func (s *Services) start(ctx context.Context, at hudi.Time, after func()) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	done := make(chan struct{})
	s.mu.Lock()
	s.running, s.cancel = done, cancel
	s.mu.Unlock()
	go func() {
		defer cancel()
		err := s.run(ctx, at)
		after()
		s.ended(ctx, serviceCompact, err)
		s.mu.Lock()
		s.running, s.cancel = nil, nil
		s.mu.Unlock()
		close(done)
	}()
}

func (s *Services) run(ctx context.Context, at hudi.Time) error {
	if s.o.Events.Running != nil {
		s.tell(func() { s.o.Events.Running(true) })
		defer s.tell(func() { s.o.Events.Running(false) })
	}
	r, err := Run(ctx, s.o.Table, at, s.o.Run)
	if err != nil {
		return fmt.Errorf("run compaction %s: %w", at, err)
	}
	if s.o.Events.Compacted != nil {
		s.tell(func() { s.o.Events.Compacted(r) })
	}
	return nil
}

// Wait waits until nothing runs in the background, as long as ctx lives. What was
// planned while a run was ending, and Due left because of it, is run too: who calls
// Wait calls Due no more.
func (s *Services) Wait(ctx context.Context) error {
	for {
		if s.o.Mode == Async {
			s.attempt(ctx, serviceCompact, func() error { return s.execute(ctx) })
		}
		s.mu.Lock()
		running := s.running
		s.mu.Unlock()
		if running == nil {
			return ctx.Err()
		}
		select {
		case <-running:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// Stop ends what runs in the background and waits for its end: a compaction is
// taken back, and its plan run by the next process.
func (s *Services) Stop() {
	s.mu.Lock()
	running, cancel := s.running, s.cancel
	s.mu.Unlock()
	if running == nil {
		return
	}
	cancel()
	<-running
}
