package storagetest

import (
	"errors"
	"math/rand/v2"
	"sync"

	"github.com/couch2hudi/couch2hudi/storage"
)

// ErrFault is what an operation fails with when a Fault names no other error.
var ErrFault = errors.New("fault injected by the test")

// Fault makes one operation fail.
type Fault struct {
	// Kind and N: the N-th operation of that kind, counted from 1.
	Kind Kind
	N    int
	// Err is what it fails with; ErrFault by default.
	Err error
	// After lets the operation take effect first, as when only the answer was
	// lost.
	After bool
}

// Faulty is a driver whose operations fail as told, each fault once; it goes on
// afterwards.
type Faulty struct {
	wrapper

	mu     sync.Mutex
	faults []Fault
	counts map[Kind]int
	hit    int
	rand   *rand.Rand
	share  float64
}

// Faults is d with those faults.
func Faults(d storage.Driver, faults ...Fault) *Faulty {
	f := &Faulty{faults: faults, counts: map[Kind]int{}}
	f.wrapper = wrapper{driver: d, around: f.pass, parts: true}
	return f
}

// RandomFaults is d whose operations each fail with the probability share, one half
// of those that fail after they took effect; reads give a part. Of rand's numbers one
// is drawn for each operation. Locks are spared.
func RandomFaults(d storage.Driver, r *rand.Rand, share float64) *Faulty {
	f := Faults(d)
	f.rand, f.share = r, share
	return f
}

// Hit says how many of the faults came to pass.
func (f *Faulty) Hit() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.hit
}

// next is the fault for the operation of that kind that comes now.
func (f *Faulty) next(kind Kind) (Fault, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.counts[kind]++
	if f.rand != nil && kind != Lock && kind != Unlock {
		if x := f.rand.Float64(); x < f.share {
			f.hit++
			return Fault{After: x < f.share/2}, true
		}
	}
	for _, fault := range f.faults {
		if fault.Kind == kind && fault.N == f.counts[kind] {
			f.hit++
			return fault, true
		}
	}
	return Fault{}, false
}

func (f *Faulty) pass(op Op, do func() error) error {
	fault, ok := f.next(op.Kind)
	if !ok {
		return do()
	}
	failure := fault.Err
	if failure == nil {
		failure = ErrFault
	}
	if fault.After {
		return errors.Join(failure, do())
	}
	return failure
}

// Flip is d in which one byte of one object reads other than it was written:
// mask is XORed onto the byte at offset. A reader that does not notice is at
// fault.
func Flip(d storage.Driver, name string, offset int64, mask byte) storage.Driver {
	return &wrapper{
		driver: d,
		around: func(_ Op, do func() error) error { return do() },
		spoil: func(read string, p []byte, from int64) {
			if at := offset - from; read == name && at >= 0 && at < int64(len(p)) {
				p[at] ^= mask
			}
		},
	}
}
