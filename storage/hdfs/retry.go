package hdfs

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/couch2hudi/couch2hudi/storage"
)

// errAgain marks what another attempt may mend.
var errAgain = errors.New("try again")

// errSwept: a hidden file is gone before it was an object.
var errSwept = errors.New("its hidden file was removed")

// errUnknown: it may have taken effect, and others did something since.
var errUnknown = errors.New("it is not known whether the object was stored")

// localError is an error of this machine, which no other attempt mends.
type localError struct{ error }

// Unwrap implements errors.
func (e localError) Unwrap() error { return e.error }

// retry says how operations are tried again.
type retry struct {
	patience time.Duration
	told     func(err error, wait time.Duration)
	sleep    func(context.Context, time.Duration) error
}

// The first wait, and the longest.
const (
	firstWait = 50 * time.Millisecond
	maxWait   = 5 * time.Second
)

// try calls f until it succeeds or fails for good, or patience is at its end.
// again says that an earlier attempt may have taken effect without our knowing.
func (d *Driver) try(ctx context.Context, f func(c Cluster, again bool) error) error {
	var waited time.Duration
	again := false
	for wait := firstWait; ; wait = min(2*wait, maxWait) {
		if err := ctx.Err(); err != nil {
			return err
		}
		c, err := d.cluster(ctx)
		if err == nil {
			err = f(c, again)
			again = true
		}
		if err == nil || !transient(err) {
			return err
		}
		if waited >= d.retry.patience {
			return fmt.Errorf("%w (tried again for %s: see that the name node and data nodes run, can be reached and are out of safe mode)", explain(err), waited.Round(time.Second))
		}
		if isLocal(err) {
			d.drop(c)
		}
		if d.retry.told != nil {
			d.retry.told(explain(err), wait)
		}
		if sleepErr := d.retry.sleep(ctx, wait); sleepErr != nil {
			return errors.Join(sleepErr, err)
		}
		waited += wait
	}
}

// sleep waits, or fails with the context.
func sleep(ctx context.Context, wait time.Duration) error {
	t := time.NewTimer(wait)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}

// remote is an exception of the name node, as the library gives it.
type remote interface {
	// Exception is the name of its Java class.
	Exception() string
	// Message is its text, with a stack trace in lines of its own.
	Message() string
}

// transient says whether another attempt may succeed: the connection failed, or
// the file system says that it cannot do it now.
func transient(err error) bool {
	if errors.Is(err, errAgain) {
		return true
	}
	for _, final := range []error{
		context.Canceled, context.DeadlineExceeded, os.ErrClosed, errSwept, errUnknown,
		fs.ErrNotExist, fs.ErrExist, fs.ErrPermission, fs.ErrInvalid, syscall.ENOTEMPTY, syscall.ENOTDIR,
		storage.ErrNotExist, storage.ErrExist, storage.ErrChanged,
	} {
		if errors.Is(err, final) {
			return false
		}
	}
	var here localError
	if errors.As(err, &here) {
		return false
	}
	var r remote
	if !errors.As(err, &r) {
		return true // of the connection
	}
	class := r.Exception()[strings.LastIndex(r.Exception(), ".")+1:]
	switch class {
	case "SafeModeException", "RetriableException", "StandbyException", "ObserverRetryOnActiveException", "NotReplicatedYetException",
		"LeaseExpiredException", "RecoveryInProgressException", "SocketTimeoutException", "ConnectException":
		return true
	}
	// Of data nodes that have not reported yet, or are all too busy.
	return strings.Contains(r.Message(), "could only be ")
}

// isLocal says whether an error is not the name node's own word: then nothing is
// known of the connection, and a new one is made.
func isLocal(err error) bool {
	var r remote
	return !errors.As(err, &r) && !errors.Is(err, errAgain)
}

// explain adds the first line of what the name node said.
func explain(err error) error {
	var r remote
	if !errors.As(err, &r) {
		return err
	}
	line, _, _ := strings.Cut(r.Message(), "\n")
	if line == "" || slices.Contains(strings.Split(err.Error(), ": "), line) {
		return err
	}
	return fmt.Errorf("%w: %s", err, line)
}
