package cloud

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/couch2hudi/couch2hudi/storage"
)

// upload gathers an object. One of no more than a part is put by a single request;
// a larger one goes in parts, one being sent while the next is gathered.
type upload struct {
	d          *Driver
	ctx        context.Context //nolint:containedctx // it governs the upload: storage.Driver's contract
	key, token string
	cond       storage.Cond

	buffer, spare []byte
	parts         parts
	number        int
	// sending has the error of the part that is on its way; nil when none is.
	sending  chan error
	failed   error
	finished bool
}

// Create implements storage.Driver.
func (d *Driver) Create(ctx context.Context, name string, cond storage.Cond) (storage.Upload, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	key, err := d.key(name)
	if err != nil {
		return nil, err
	}
	return &upload{d: d, ctx: ctx, key: key, cond: cond, token: uuid.NewString()}, nil
}

// Write implements io.Writer.
func (u *upload) Write(p []byte) (int, error) {
	if u.finished {
		return 0, storage.ErrFinished
	}
	written := 0
	for len(p) > 0 && u.failed == nil {
		if len(u.buffer) == u.d.part {
			u.failed = u.send()
			continue
		}
		n := min(len(p), u.d.part-len(u.buffer))
		u.buffer = append(u.buffer, p[:n]...)
		written, p = written+n, p[n:]
	}
	return written, u.failed
}

// send sends the buffer as the next part, when the part before has arrived.
func (u *upload) send() error {
	if err := u.sent(); err != nil {
		return err
	}
	if u.parts == nil {
		if err := u.begin(); err != nil {
			return err
		}
	}
	u.number++
	const most = 10_000 // S3's limit
	if u.number > most {
		return fmt.Errorf("more than %d parts of %d bytes", most, u.d.part)
	}
	data, number := u.buffer, u.number
	u.buffer, u.spare = u.spare[:0], data
	sending := make(chan error, 1)
	u.sending = sending
	go func() {
		sending <- u.d.safely(u.ctx, len(data), func(ctx context.Context) error { return u.parts.part(ctx, number, data) })
	}()
	return nil
}

// sent waits for the part on its way.
func (u *upload) sent() error {
	if u.sending == nil {
		return nil
	}
	err := <-u.sending
	u.sending = nil
	return err
}

func (u *upload) begin() error {
	err := u.d.safely(u.ctx, 0, func(ctx context.Context) (err error) {
		u.parts, err = u.d.store.begin(ctx, u.ctx, u.key, u.cond, u.token)
		return err
	})
	if err != nil {
		return err
	}
	u.d.mu.Lock()
	defer u.d.mu.Unlock()
	u.d.open[u.parts.id()] = true
	return nil
}

// Commit implements storage.Upload. The condition is checked by the store, with the
// request that makes the object visible.
func (u *upload) Commit() (storage.Object, error) {
	if u.finished {
		return storage.Object{}, storage.ErrFinished
	}
	if err := errors.Join(u.failed, u.ctx.Err()); err != nil {
		return storage.Object{}, errors.Join(err, u.Abort())
	}
	if u.parts == nil {
		u.finished = true
		o, err := u.d.settle(u.ctx, u.key, u.cond, u.token, len(u.buffer), func(ctx context.Context) (info, error) {
			return u.d.store.put(ctx, u.key, u.buffer, u.cond, u.token)
		})
		return u.d.object(o), err
	}
	var err error
	if len(u.buffer) > 0 {
		err = u.send()
	}
	if err = errors.Join(err, u.sent()); err != nil {
		return storage.Object{}, errors.Join(err, u.Abort())
	}
	o, err := u.d.settle(u.ctx, u.key, u.cond, u.token, 0, u.parts.complete)
	if err != nil {
		return storage.Object{}, errors.Join(err, u.Abort())
	}
	u.end()
	return u.d.object(o), nil
}

func (u *upload) end() {
	u.finished, u.buffer, u.spare = true, nil, nil
	if u.parts != nil {
		u.d.mu.Lock()
		defer u.d.mu.Unlock()
		delete(u.d.open, u.parts.id())
	}
}

// Abort implements storage.Upload. It works after the upload's context is done, too.
func (u *upload) Abort() error {
	if u.finished {
		return nil
	}
	_ = u.sent() // a part that arrives after the abort would stay
	u.end()
	if u.parts == nil {
		return nil
	}
	const patience = 30 * time.Second
	ctx, cancel := context.WithTimeout(context.WithoutCancel(u.ctx), patience)
	defer cancel()
	err := u.d.safely(ctx, 0, u.parts.abort)
	if err != nil && (u.d.fault(err) == lost || u.d.fault(err) == missing) {
		return nil
	}
	return err
}
