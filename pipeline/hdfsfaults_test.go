//go:build stores

package pipeline_test

import (
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/couch2hudi/couch2hudi/internal/hdfsfake"
	"github.com/couch2hudi/couch2hudi/storage"
	"github.com/couch2hudi/couch2hudi/storage/hdfs"
)

// hdfsLake is a lake in HDFS, where every call of a client can fail.
type hdfsLake struct {
	*lake
	fs       *hdfsfake.FS
	patience time.Duration
}

const hdfsHidden = ".hoodie/couch2hudi/hdfs"

func newHDFSLake(t *testing.T, seed uint64) *hdfsLake {
	t.Helper()
	l := &hdfsLake{fs: hdfsfake.New(), patience: time.Hour}
	l.lake = newLake(t, seed, func(clock func() time.Time) (storage.Driver, error) {
		return hdfs.New("/lake/docs", l.fs.Connect,
			&hdfs.Options{Hidden: hdfsHidden, Patience: l.patience, Sleep: hurry, Lease: storage.LeaseOptions{Clock: clock}})
	})
	return l
}

// fails is how a call fails: the name node cannot now, or the connection is lost, before
// the call takes effect or after.
type fails struct {
	name  string
	err   error
	after bool
}

func hdfsFailures() []fails {
	lost := &net.OpError{Op: "read", Net: "tcp", Err: io.EOF}
	return []fails{
		{"refused", hdfsfake.RemoteError{Class: "org.apache.hadoop.hdfs.server.namenode.SafeModeException", Text: "Name node is in safe mode."}, false},
		{"lost before", lost, false},
		{"lost after", lost, true},
	}
}

// under is a start in which those calls fail that pick chooses, which is told the
// operation and how many calls there were before it; and how many failed.
func (l *hdfsLake) under(f fails, pick func(op string, n int) bool) (hit int, err error) {
	l.t.Helper()
	var mu sync.Mutex
	n := 0
	hook := func(c hdfsfake.Call) error {
		mu.Lock()
		defer mu.Unlock()
		n++
		if !pick(c.Op, n) {
			return nil
		}
		hit++
		return f.err
	}
	if l.fs.Before = hook; f.after {
		l.fs.Before, l.fs.After = nil, hook
	}
	err = l.start()
	l.fs.Before, l.fs.After = nil, nil
	return hit, err
}

// swept says that after one more start there is nothing left of unfinished puts but
// what another process may still look for.
func (l *hdfsLake) swept(what string) {
	l.t.Helper()
	l.settled(what)
	for p := range l.fs.Files() {
		if name, hidden := strings.CutPrefix(p, "/lake/docs/"+hdfsHidden+"/"); hidden && !strings.HasPrefix(name, "next-") {
			l.t.Errorf("%s: left over: %s", what, p)
		}
	}
}

// A fifth of the calls of one kind fails, of one kind after the other. With patience
// that is not seen.
func TestHDFSCallsFail(t *testing.T) {
	for _, f := range hdfsFailures() {
		t.Run(f.name, func(t *testing.T) {
			l := newHDFSLake(t, 1)
			r := rand.New(rand.NewPCG(1, 23))
			hits := 0
			for _, kind := range []string{"connect", "stat", "list", "open", "read", "create", "write", "close", "mkdir", "rename(false)", "rename(true)", "remove"} {
				l.round(20)
				hit, err := l.under(f, func(op string, _ int) bool { return op == kind && r.IntN(5) == 0 })
				if err != nil {
					t.Fatalf("%s: %v", kind, err)
				}
				l.whole(kind)
				hits += hit
			}
			l.swept("in the end")
			t.Logf("%d calls failed", hits)
		})
	}
}

// Calls fail at random, also while a process recovers from the last failure, and it has
// no patience.
func TestHDFSStorm(t *testing.T) {
	for seed := range uint64(*storms) {
		l := newHDFSLake(t, seed)
		l.patience = -1
		r := rand.New(rand.NewPCG(seed, 29))
		hits := 0
		for round := range 6 {
			l.round(20)
			for try := 1; ; try++ {
				f, share := hdfsFailures()[r.IntN(3)], 0.02*r.Float64()/float64(try)
				hit, err := l.under(f, func(string, int) bool { return r.Float64() < share })
				hits += hit
				if err == nil {
					break
				}
				if try == 100 {
					t.Fatalf("seed %d, round %d: %v", seed, round, err)
				}
			}
			l.whole(fmt.Sprintf("seed %d, round %d", seed, round))
		}
		l.swept(fmt.Sprint("seed ", seed))
		t.Logf("seed %d: %d calls failed, %d starts for 6 rounds", seed, hits, l.starts)
	}
}

// One call fails and nobody tries again, or all calls from one on: the process goes on
// or ends, and the next one goes on.
func TestHDFSCallSweep(t *testing.T) {
	for i, f := range hdfsFailures() {
		for j, down := range []bool{false, true} {
			l := newHDFSLake(t, 5)
			step := *stride
			if step > 1 {
				step *= 10
			}
			for n := 1 + (i*50+j*30)%step; ; n += step {
				what := fmt.Sprintf("call %d %s, all from there on %v", n, f.name, down)
				l.round(15)
				l.patience = -1
				hit, err := l.under(f, func(_ string, at int) bool { return at == n || down && at > n })
				l.patience = time.Hour
				if err != nil && hit == 0 {
					t.Fatalf("%s: %v", what, err)
				}
				if err != nil {
					if !strings.Contains(err.Error(), "see that the name node") {
						t.Errorf("%s: the error does not say what to do: %v", what, err)
					}
					if err := l.start(); err != nil {
						t.Fatalf("%s: started again: %v", what, err)
					}
				}
				l.whole(what)
				if hit == 0 {
					break
				}
			}
			l.swept(f.name)
		}
	}
}
