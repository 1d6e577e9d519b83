package s3fake

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// Way is how a request goes wrong.
type Way string

// The ways. What they say of the effect is of requests that have one; of others only
// the answer is lost.
const (
	// Before and After answer with a 500: it took no effect, or it did.
	Before Way = "500 before"
	After  Way = "500 after"
	// Late answers with a 500 and takes effect when the next try was answered.
	Late Way = "500, and takes effect late"
	// CutBefore and CutAfter end the connection instead of an answer.
	CutBefore Way = "cut before"
	CutAfter  Way = "cut after"
	// SilentBefore and SilentAfter say nothing until the client gives up.
	SilentBefore Way = "silent before"
	SilentAfter  Way = "silent after"
	// SlowDown and TooMany are how stores throttle: 503 and 429, with Retry-After.
	SlowDown Way = "503 SlowDown"
	TooMany  Way = "429"
	// Conflict is a 409 to a write under a condition, which says that another write
	// was on its way.
	Conflict Way = "409 ConditionalRequestConflict"
	// ErrorIn200 answers a completion with a 200 that holds an error, as S3 may once it
	// has sent a header; without effect, and ErrorIn200After with it.
	ErrorIn200      Way = "an error in a 200"
	ErrorIn200After Way = "an error in a 200, after"
	// Half breaks off in the middle of a body; Stalled says nothing more there until
	// the client gives up.
	Half    Way = "half a body"
	Stalled Way = "half a body, then silence"
	// Short answers a read with a range that is shorter than what was asked for.
	Short Way = "a short range"
	// Trickle sends a body in small pieces. It is no error.
	Trickle Way = "a body in pieces"
)

// Ways are all of them.
func Ways() []Way {
	return []Way{
		Before, After, Late, CutBefore, CutAfter, SilentBefore, SilentAfter, SlowDown, TooMany, Conflict,
		ErrorIn200, ErrorIn200After, Half, Stalled, Short, Trickle,
	}
}

// Waits says whether a client comes out of it by its time-out alone.
func (w Way) Waits() bool { return w == SilentBefore || w == SilentAfter || w == Stalled }

// Fits says whether requests of a kind can go wrong in that way.
func (w Way) Fits(kind Kind) bool {
	switch w {
	case Conflict:
		return kind == Put || kind == Complete
	case ErrorIn200, ErrorIn200After:
		return kind == Complete
	case Half, Stalled:
		return kind == Get || kind == List || kind == Uploads
	case Short, Trickle:
		return kind == Get
	case After, Late, CutAfter, SilentAfter:
		return kind != Get && kind != Head && kind != List && kind != Uploads
	default:
		return true
	}
}

// Faults make requests go wrong. Their Wrap is for Server.Wrap.
type Faults struct {
	pick func(r *http.Request, kind Kind, n int) Way

	mu     sync.Mutex
	counts map[Kind]int
	hit    int
	// held are the writes that take effect late, by their object.
	held map[string][]func()
}

func faults(pick func(r *http.Request, kind Kind, n int) Way) *Faults {
	return &Faults{pick: pick, counts: map[Kind]int{}, held: map[string][]func(){}}
}

// One has the n-th request of a kind, counted from 1, go wrong.
func One(kind Kind, n int, way Way) *Faults {
	return faults(func(_ *http.Request, k Kind, i int) Way {
		if k == kind && i == n && way.Fits(k) {
			return way
		}
		return ""
	})
}

// FirstTries has the first try of each every-th request of a kind go wrong, from
// the first on, and the second one pass: requests are taken for the same that ask for the same.
func FirstTries(kind Kind, way Way, every int) *Faults {
	tries, n := map[string]int{}, 0
	return faults(func(r *http.Request, k Kind, _ int) Way {
		if k != kind || !way.Fits(k) {
			return ""
		}
		what := r.Method + r.URL.String() + r.Header.Get("Range")
		if tries[what]++; tries[what]%2 == 0 {
			return ""
		}
		if n++; (n-1)%every != 0 {
			return ""
		}
		return way
	})
}

// Storm has requests go wrong with the probability share, in one of the ways that fit.
// Of r's numbers two are drawn for each request.
func Storm(r *rand.Rand, share float64, ways ...Way) *Faults {
	return faults(func(_ *http.Request, kind Kind, _ int) Way {
		x, way := r.Float64(), ways[r.IntN(len(ways))]
		if x < share && way.Fits(kind) {
			return way
		}
		return ""
	})
}

// Down has all requests from the n-th on, of whatever kind, go wrong in that way, so
// many of them; for good when it is 0.
func Down(n, many int, way Way) *Faults {
	seen := 0
	return faults(func(*http.Request, Kind, int) Way {
		if seen++; seen >= n && (many == 0 || seen < n+many) {
			return way
		}
		return ""
	})
}

// Hit says how many requests went wrong.
func (f *Faults) Hit() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.hit
}

func (f *Faults) next(r *http.Request) Way {
	f.mu.Lock()
	defer f.mu.Unlock()
	kind := KindOf(r)
	f.counts[kind]++
	way := f.pick(r, kind, f.counts[kind])
	if way != "" {
		f.hit++
	}
	return way
}

// Wrap is for Server.Wrap.
func (f *Faults) Wrap(store http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		way := f.next(r)
		if way == "" {
			store.ServeHTTP(w, r)
			f.release(r.URL.Path)
			return
		}
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		switch way {
		case After, CutAfter, SilentAfter, ErrorIn200After:
			store.ServeHTTP(httptest.NewRecorder(), r)
		case Late:
			f.hold(store, r, body)
		case Half, Stalled, Short, Trickle:
			answer := httptest.NewRecorder()
			store.ServeHTTP(answer, r)
			spoil(w, r, answer, way)
			return
		default:
		}
		fail(w, r, way)
	})
}

// hold keeps a request for later.
func (f *Faults) hold(store http.Handler, r *http.Request, body []byte) {
	f.mu.Lock()
	defer f.mu.Unlock()
	late := r.Clone(r.Context())
	late.Body = io.NopCloser(bytes.NewReader(body))
	f.held[r.URL.Path] = append(f.held[r.URL.Path], func() { store.ServeHTTP(httptest.NewRecorder(), late) })
}

// release has the requests that wait for their time take effect.
func (f *Faults) release(path string) {
	f.mu.Lock()
	held := f.held[path]
	delete(f.held, path)
	f.mu.Unlock()
	for _, late := range held {
		late()
	}
}

// fail answers without the store.
func fail(w http.ResponseWriter, r *http.Request, way Way) {
	switch way {
	case CutBefore, CutAfter:
		panic(http.ErrAbortHandler)
	case SilentBefore, SilentAfter:
		<-r.Context().Done()
		panic(http.ErrAbortHandler)
	case SlowDown:
		w.Header().Set("Retry-After", "1")
		Refuse(w, http.StatusServiceUnavailable, "SlowDown")
	case TooMany:
		w.Header().Set("Retry-After", "1")
		Refuse(w, http.StatusTooManyRequests, "TooManyRequests")
	case Conflict:
		Refuse(w, http.StatusConflict, "ConditionalRequestConflict")
	case ErrorIn200, ErrorIn200After:
		Refuse(w, http.StatusOK, "InternalError")
	default:
		Refuse(w, http.StatusInternalServerError, "InternalError")
	}
}

// spoil gives an answer as it should not be.
func spoil(w http.ResponseWriter, r *http.Request, answer *httptest.ResponseRecorder, way Way) {
	body := answer.Body.Bytes()
	half := body[:len(body)/2]
	if answer.Code >= http.StatusMultipleChoices || way == Short && (answer.Code != http.StatusPartialContent || len(half) == 0) {
		Copy(w, answer)
		return
	}
	pieces, rest := [][]byte{half}, body[len(half):]
	switch way {
	case Short:
		var from, to, size int64
		if _, err := fmt.Sscanf(answer.Header().Get("Content-Range"), "bytes %d-%d/%d", &from, &to, &size); err == nil {
			answer.Header().Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", from, from+int64(len(half))-1, size))
		}
		body = half
	case Trickle:
		const piece = 1 + 4096/7
		pieces = slices.Collect(slices.Chunk(body, piece))
	default:
	}
	answer.Header().Set("Content-Length", strconv.Itoa(len(body)))
	for name, values := range answer.Header() {
		w.Header().Set(name, strings.Join(values, ", "))
	}
	w.WriteHeader(answer.Code)
	flush := http.NewResponseController(w)
	for _, p := range pieces {
		if _, err := w.Write(p); err != nil {
			return
		}
		_ = flush.Flush()
	}
	switch way {
	case Stalled:
		<-r.Context().Done()
		panic(http.ErrAbortHandler)
	case Half:
		if len(rest) > 0 {
			panic(http.ErrAbortHandler)
		}
	default:
	}
}
