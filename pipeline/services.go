package pipeline

import (
	"context"
	"time"
)

// serve does what the table's services have to do between two commits. What
// fails there does not fail the ingest.
func (p *Ingest) serve(ctx context.Context) error {
	if p.o.Services == nil {
		return nil
	}
	return p.o.Services.Due(ctx)
}

// wait is the next batch. Meanwhile the services are served, so that a quiet
// table is looked after, too.
func (p *Ingest) wait(ctx context.Context) (gathered, error) {
	for {
		g, ok, err := p.feed.next(ctx, p.tick)
		if ok || err != nil {
			return g, err
		}
		if err := p.serve(ctx); err != nil {
			return gathered{}, err
		}
	}
}

// startServices begins to serve; stop ends what runs in the background.
func (p *Ingest) startServices() (stop func()) {
	if p.o.Services == nil {
		return func() {}
	}
	t := time.NewTicker(p.o.Services.Every())
	p.tick = t.C
	return func() {
		t.Stop()
		p.o.Services.Stop()
	}
}

// finishServices lets what runs in the background come to its end: a process
// that stops when it has caught up would otherwise never get there.
func (p *Ingest) finishServices(ctx context.Context) error {
	if p.o.Services == nil {
		return nil
	}
	return p.o.Services.Wait(ctx)
}
