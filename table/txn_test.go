package table_test

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/couch2hudi/couch2hudi/commitmeta"
	"github.com/couch2hudi/couch2hudi/hudi"
	"github.com/couch2hudi/couch2hudi/hudi/timeline"
	"github.com/couch2hudi/couch2hudi/internal/teststore"
	"github.com/couch2hudi/couch2hudi/storage"
	"github.com/couch2hudi/couch2hudi/storage/file"
	"github.com/couch2hudi/couch2hudi/storage/mem"
	"github.com/couch2hudi/couch2hudi/storage/storagetest"
	"github.com/couch2hudi/couch2hudi/table"
)

var update = flag.Bool("update", false, "write golden files anew")

// What a commit does to storage, in its order: nothing of it may change unseen.
func TestCommitTrace(t *testing.T) {
	var trace bytes.Buffer
	ctx := t.Context()
	// In memory always: how much a read asks for, and what a store with folders of its
	// own has to remove, differ from driver to driver.
	d := storagetest.Trace(mem.New(nil), &trace, &storagetest.TraceOptions{Reads: true})
	tb := must[*table.Table](t)(table.Create(ctx, bucketOf(d), table.CreateOptions{Name: "docs", PartitionField: "pt"}, options()))
	fmt.Fprintln(&trace, "# created")
	l := must[interface{ Close() error }](t)(tb.Lease(ctx))
	for i := range 2 {
		fmt.Fprintf(&trace, "# commit %d begins\n", i+1)
		x := must[*table.Txn](t)(tb.Begin(ctx))
		must[[]hudi.Slice](t)(x.View().Slices(ctx, "pt=1"))
		var stats []commitmeta.WriteStat
		for g := range 2 {
			stats = append(stats, must[commitmeta.WriteStat](t)(put(ctx, x, "pt=1", base(x, 2*i+g), table.MarkCreate, "base")))
		}
		fmt.Fprintf(&trace, "# commit %d ends\n", i+1)
		if err := x.Commit(ctx, body(stats...)); err != nil {
			t.Fatal(err)
		}
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	const golden = "testdata/commit.trace"
	if *update {
		if err := cmpErr(os.MkdirAll("testdata", 0o755), os.WriteFile(golden, trace.Bytes(), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	got := trace.String()
	if want := must[[]byte](t)(os.ReadFile(golden)); string(want) != got {
		t.Errorf("the trace differs from %s (go test -update writes it anew):\n%s", golden, got)
	}
}

func cmpErr(errs ...error) error { return errors.Join(errs...) }

// After the first listing our own commits are known without another, and a
// view made so is the same as one made by listing.
func TestViewIsDerived(t *testing.T) {
	ctx, d := t.Context(), teststore.New(t)
	var lists []string
	var mu sync.Mutex
	b := storage.New(d, &storage.Options{Observe: func(e storage.Event) {
		mu.Lock()
		defer mu.Unlock()
		if e.Op == "list" && e.Name != ".hoodie/" && !strings.HasPrefix(e.Name, ".hoodie/.temp/") {
			lists = append(lists, e.Name)
		}
	}})
	tb := must[*table.Table](t)(table.Create(ctx, b, table.CreateOptions{Name: "docs", PartitionField: "pt"}, options()))
	lease(t, tb)
	must[hudi.Time](t)(commitBases(ctx, tb, 1, 2))
	allSlices(t, must[*table.View](t)(tb.View(ctx)))
	if !slices.Equal(lists, []string{""}) {
		t.Fatalf("first listing: %q", lists)
	}
	lists = nil
	for i := range 4 {
		x := must[*table.Txn](t)(tb.Begin(ctx))
		on := must[[]hudi.Slice](t)(x.View().Slices(ctx, "pt=1"))[0].Instant
		s1 := must[commitmeta.WriteStat](t)(put(ctx, x, "pt=1", logName(1, on, i+1), table.MarkAppend, "log"))
		s2 := must[commitmeta.WriteStat](t)(put(ctx, x, fmt.Sprintf("pt=new%d", i), base(x, 10+i), table.MarkCreate, "new"))
		if i == 3 {
			if err := x.Abort(ctx); err != nil {
				t.Fatal(err)
			}
			lists = slices.DeleteFunc(lists, func(s string) bool { return s == ".hoodie/couch2hudi/" })
		} else if err := x.Commit(ctx, body(s1, s2)); err != nil {
			t.Fatal(err)
		}
		v := must[*table.View](t)(tb.View(ctx))
		if again := must[*table.View](t)(tb.View(ctx)); again != v {
			t.Error("a second view of the same state is another")
		}
		got := allSlices(t, v)
		if len(lists) > 0 {
			t.Fatalf("round %d listed %q", i, lists)
		}
		fresh := must[*table.View](t)(must[*table.Table](t)(table.Open(ctx, bucketOf(d), options())).View(ctx))
		want := slices.DeleteFunc(allSlices(t, fresh), func(s hudi.Slice) bool { return s.Base.Name == "" })
		if !slices.EqualFunc(got, want, sameSlice) {
			t.Errorf("round %d: derived %+v\nlisted %+v", i, got, want)
		}
	}
	// Somebody else commits: the next view lists.
	foreign := must[hudi.Time](t)(commitBehind(t, d, 77))
	v := must[*table.View](t)(tb.View(ctx))
	if got := allSlices(t, v); len(lists) == 0 || !slices.ContainsFunc(got, func(s hudi.Slice) bool { return s.Instant == foreign }) {
		t.Errorf("listed %q, slices %+v", lists, got)
	}
}

// commitBehind commits as another engine would, without asking for a lease.
func commitBehind(t *testing.T, d storage.Driver, group int) (hudi.Time, error) {
	t.Helper()
	at := hudi.Time("20990101000000000")
	name := hudi.BaseFileName{File: groupID(group), Token: "0-1-0", Instant: at}.String()
	data, err := commitmeta.Encode(hudi.Version6, body(commitmeta.WriteStat{File: groupID(group), Path: "pt=1/" + name, Partition: "pt=1", Bytes: 1}))
	putAll(t, d, map[string]string{
		"pt=1/" + name: "x",
		".hoodie/" + string(at) + ".deltacommit.requested": "",
		".hoodie/" + string(at) + ".deltacommit.inflight":  "",
		".hoodie/" + string(at) + ".deltacommit":           string(data),
	})
	return at, err
}

func TestConflict(t *testing.T) {
	const later = ".hoodie/20990101000000000."
	for what, c := range map[string]struct {
		files    map[string]string
		gone     string
		conflict bool
	}{
		"nothing":                 {},
		"a completed commit":      {files: map[string]string{later + "commit": "{}"}, conflict: true},
		"a pending deltacommit":   {files: map[string]string{later + "deltacommit.requested": ""}, conflict: true},
		"a compaction planned":    {files: map[string]string{later + "compaction.requested": ""}, conflict: true},
		"a replacecommit":         {files: map[string]string{later + "replacecommit.inflight": ""}, conflict: true},
		"a rollback":              {files: map[string]string{later + "rollback": ""}, conflict: true},
		"a clean":                 {files: map[string]string{later + "clean": ""}},
		"a savepoint":             {files: map[string]string{later + "savepoint": ""}},
		"our own was rolled back": {gone: ".deltacommit.inflight", conflict: true},
		"our own was completed":   {files: map[string]string{".hoodie/OWN.deltacommit": "{}"}, conflict: true},
		"an engine's other files": {files: map[string]string{".hoodie/.heartbeat/20990101000000000": ""}},
	} {
		t.Run(what, func(t *testing.T) {
			ctx, d := t.Context(), start(t)
			tb := open(t, d)
			x := must[*table.Txn](t)(tb.Begin(ctx))
			for name, content := range c.files {
				putAll(t, d, map[string]string{strings.Replace(name, "OWN", string(x.Instant()), 1): content})
			}
			if c.gone != "" {
				if err := bucketOf(d).Delete(ctx, ".hoodie/"+string(x.Instant())+c.gone); err != nil {
					t.Fatal(err)
				}
			}
			err := x.Commit(ctx, body())
			if c.conflict {
				wantErr(t, "commit", err, table.ErrConflict)
			} else if err != nil {
				t.Error(err)
			}
		})
	}
}

// A compaction that was pending completes meanwhile: log files carry its
// instant, so that is no conflict.
func TestNoConflictWithCompaction(t *testing.T) {
	ctx, g := t.Context(), load(t, "w015-v6-compaction-pending")
	tb := open(t, g.driver)
	x := must[*table.Txn](t)(tb.Begin(ctx))
	for _, i := range x.View().Instants() {
		if i.Action == commitmeta.ActionCompaction {
			putAll(t, g.driver, map[string]string{".hoodie/" + string(i.Time) + ".commit": "{}"})
		}
	}
	schema := must[*hudi.Schema](t)(x.View().Schema(ctx)).Avro()
	if err := x.Commit(ctx, commitmeta.Body{Extra: map[string]string{commitmeta.ExtraSchema: schema}}); err != nil {
		t.Error(err)
	}
}

func TestMetadataTableAppears(t *testing.T) {
	ctx, d := t.Context(), start(t)
	tb := open(t, d)
	x := must[*table.Txn](t)(tb.Begin(ctx))
	p := tb.Properties().With(hudi.PropMetadata, "files")
	putAll(t, d, map[string]string{".hoodie/hoodie.properties": string(p.Encode(time.Now()))})
	err := x.Commit(ctx, body())
	wantErr(t, "commit", err, table.ErrMetadataTable)
	var hint *table.Error
	if !errors.As(err, &hint) || hint.Hint == "" {
		t.Errorf("no hint: %v", err)
	}
	if err := x.Abort(ctx); err != nil {
		t.Error(err)
	}
}

func TestBodyMustFit(t *testing.T) {
	ctx, d := t.Context(), start(t)
	tb := open(t, d)
	x := must[*table.Txn](t)(tb.Begin(ctx))
	s := must[commitmeta.WriteStat](t)(put(ctx, x, "pt=1", base(x, 5), table.MarkCreate, "base"))
	change := func(f func(*commitmeta.WriteStat)) commitmeta.WriteStat {
		c := s
		f(&c)
		return c
	}
	noSchema := body(s)
	noSchema.Extra = nil
	badSchema := body(s)
	badSchema.Extra = map[string]string{commitmeta.ExtraSchema: `{"type":"int"}`}
	for what, b := range map[string]commitmeta.Body{
		"not named":       body(),
		"wrong size":      body(change(func(c *commitmeta.WriteStat) { c.Bytes++ })),
		"wrong path":      body(change(func(c *commitmeta.WriteStat) { c.Path = "pt=1/y.parquet" })),
		"wrong partition": body(change(func(c *commitmeta.WriteStat) { c.Partition = "pt=2" })),
		"twice":           body(s, s),
		"no schema":       noSchema,
		"bad schema":      badSchema,
	} {
		wantErr(t, what, x.Commit(ctx, b), table.ErrBody)
	}
	// None of these was the attempt that decides.
	if err := x.Commit(ctx, body(s)); err != nil {
		t.Error(err)
	}
	wantErr(t, "again", x.Commit(ctx, body(s)), table.ErrFinished)
	_, err := x.Create(ctx, "pt=1", base(x, 6), table.MarkCreate)
	wantErr(t, "create after the end", err, table.ErrFinished)
	wantErr(t, "put aside after the end", x.PutAside(ctx, "q/"+string(x.Instant())+".x", nil), table.ErrFinished)
}

func TestCreateChecksNames(t *testing.T) {
	ctx := t.Context()
	x := must[*table.Txn](t)(open(t, start(t)).Begin(ctx))
	other := hudi.BaseFileName{File: groupID(1), Token: "0-1-0", Instant: "20200101000000000"}.String()
	for _, c := range []struct {
		partition, name string
		marker          table.Marker
		want            error
	}{
		{"pt=1", "x", table.MarkCreate, hudi.ErrName},
		{"pt=1", other, table.MarkCreate, hudi.ErrName},
		{"pt=1", base(x, 1), table.MarkAppend, hudi.ErrName},
		{"pt=1", base(x, 1), "OTHER", table.ErrUnsupported},
		{"../up", base(x, 1), table.MarkCreate, storage.ErrName},
		{"/", base(x, 1), table.MarkCreate, storage.ErrName},
	} {
		_, err := x.Create(ctx, c.partition, c.name, c.marker)
		wantErr(t, fmt.Sprintf("%q %q %s", c.partition, c.name, c.marker), err, c.want)
	}
	up := must[storage.Upload](t)(x.Create(ctx, "pt=1", base(x, 1), table.MarkCreate))
	_, err := x.Create(ctx, "pt=1", base(x, 1), table.MarkCreate)
	wantErr(t, "twice", err, storage.ErrExist)
	if err := up.Abort(); err != nil {
		t.Error(err)
	}
	// What was given up may be begun again, and need not be named.
	up = must[storage.Upload](t)(x.Create(ctx, "pt=1", base(x, 1), table.MarkCreate))
	if err := up.Abort(); err != nil {
		t.Error(err)
	}
	for _, name := range []string{"quarantine/x.ndjson", string(x.Instant()), "lock", string(x.Instant()) + "."} {
		wantErr(t, name, x.PutAside(ctx, name, nil), hudi.ErrName)
	}
	if err := x.Commit(ctx, body()); err != nil {
		t.Error(err)
	}
}

func TestAbort(t *testing.T) {
	ctx, d := t.Context(), start(t)
	tb := open(t, d)
	before := dataFiles(t, d)
	x := must[*table.Txn](t)(tb.Begin(ctx))
	must[commitmeta.WriteStat](t)(put(ctx, x, "pt=8", base(x, 8), table.MarkCreate, "base"))
	if err := x.PutAside(ctx, "quarantine/"+string(x.Instant())+".ndjson", nil); err != nil {
		t.Fatal(err)
	}
	if err := x.Abort(ctx); err != nil {
		t.Fatal(err)
	}
	wantErr(t, "again", x.Abort(ctx), table.ErrFinished)
	settled(t, d)
	if after := dataFiles(t, d); len(after) != len(before) {
		t.Errorf("files %v", after)
	}
	// The put was taken for failed and had arrived: the table keeps it.
	x = must[*table.Txn](t)(tb.Begin(ctx))
	data := must[[]byte](t)(commitmeta.Encode(hudi.Version6, body()))
	putAll(t, d, map[string]string{".hoodie/" + string(x.Instant()) + ".deltacommit": string(data)})
	wantErr(t, "abort", x.Abort(ctx), table.ErrCommitted)
}

// An Abort that fails is Recover's to finish; nothing is begun before.
func TestAbortFails(t *testing.T) {
	ctx, d := t.Context(), start(t)
	for k := range 4 {
		f := storagetest.Faults(d, storagetest.Fault{Kind: storagetest.Put, N: 4 + k})
		tb := must[*table.Table](t)(table.Open(ctx, bucketOf(f), options()))
		l := must[interface{ Close() error }](t)(tb.Lease(ctx))
		x := must[*table.Txn](t)(tb.Begin(ctx))
		if err := x.Abort(ctx); (err == nil) != (k == 3) {
			t.Errorf("put %d: %v", k, err)
		}
		if k < 3 {
			_, err := tb.Begin(ctx)
			wantErr(t, "begin after it", err, table.ErrRecover)
			must[[]timeline.Instant](t)(tb.Recover(ctx))
		}
		settled(t, d)
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// A column may be promoted, not changed.
func TestSchemaMayGrow(t *testing.T) {
	ctx, d := t.Context(), start(t)
	tb := open(t, d)
	for _, c := range []struct {
		fields string
		ok     bool
	}{
		{`"int"`, true}, {`"int"`, true}, {`"long"`, true}, {`"int"`, false}, {`"string"`, false}, {`"double"`, true}, {`"float"`, false}, {`"boolean"`, false},
	} {
		x := must[*table.Txn](t)(tb.Begin(ctx))
		b := body()
		b.Extra[commitmeta.ExtraSchema] = strings.Replace(someSchema, `"fields":[`, `"fields":[{"name":"n","type":["null",`+c.fields+`],"default":null},`, 1)
		err := x.Commit(ctx, b)
		if c.ok && err != nil || !c.ok && !errors.Is(err, table.ErrBody) {
			t.Errorf("%s: %v", c.fields, err)
		}
		if err != nil {
			if err := x.Abort(ctx); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// The clock stands still, goes back, and another writer is ahead of it:
// instants grow all the same.
func TestInstantsGrow(t *testing.T) {
	ctx, d, c := t.Context(), start(t), newClock()
	tb := must[*table.Table](t)(table.Open(ctx, bucketOf(d), table.Options{Clock: c.Now}))
	lease(t, tb)
	last := must[*table.View](t)(tb.View(ctx)).Last()
	for i := range 6 {
		switch i {
		case 2:
			c.add(-48 * time.Hour)
		case 3:
			putAll(t, d, map[string]string{".hoodie/20270101000000000.clean": ""})
			last = "20270101000000000"
		case 5:
			c.add(3 * 365 * 24 * time.Hour)
		}
		at := must[hudi.Time](t)(commitBases(ctx, tb, 100+i))
		if !at.After(last) {
			t.Errorf("%d: %s after %s", i, at, last)
		}
		if i == 5 && at != hudi.FormatTime(c.Now()) {
			t.Errorf("the clock says %s, the instant is %s", hudi.FormatTime(c.Now()), at)
		}
		last = at
	}
}

// In a table whose writers use their local zone we use the one we are told.
func TestLocalZone(t *testing.T) {
	ctx, d := t.Context(), start(t)
	p := must[*table.Table](t)(table.Open(ctx, bucketOf(d), options())).Properties().With(hudi.PropZone, "LOCAL")
	putAll(t, d, map[string]string{".hoodie/hoodie.properties": string(p.Encode(time.Now()))})
	c := newClock()
	c.add(time.Hour)
	tb := must[*table.Table](t)(table.Open(ctx, bucketOf(d), table.Options{Clock: c.Now, Zone: time.FixedZone("", 2*60*60)}))
	lease(t, tb)
	if at, want := must[hudi.Time](t)(commitBases(ctx, tb, 1)), hudi.FormatTime(c.Now().Add(2*time.Hour)); at != want {
		t.Errorf("%s, want %s", at, want)
	}
}

func TestLease(t *testing.T) {
	ctx, dir := t.Context(), t.TempDir()
	one := must[*file.Driver](t)(file.New(dir, nil))
	two := must[*file.Driver](t)(file.New(dir, nil))
	tb := must[*table.Table](t)(table.Create(ctx, bucketOf(one), table.CreateOptions{Name: "docs"}, options()))
	l := must[interface{ Close() error }](t)(tb.Lease(ctx))
	other := must[*table.Table](t)(table.Open(ctx, bucketOf(two), options()))
	_, err := other.Lease(ctx)
	wantErr(t, "second lease", err, table.ErrHeld)
	if err == nil || !strings.Contains(err.Error(), strconv.Itoa(os.Getpid())) {
		t.Errorf("the error does not say who: %v", err)
	}
	x := must[*table.Txn](t)(tb.Begin(ctx))
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	wantErr(t, "commit without the lease", x.Commit(ctx, body()), table.ErrNoLease)
	l = must[interface{ Close() error }](t)(other.Lease(ctx))
	if rolled, err := other.Recover(ctx); err != nil || len(rolled) != 1 {
		t.Errorf("rolled back %v, %v", rolled, err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
}

// Pending work of others that a new commit must not be written beside.
func TestBeginRefuses(t *testing.T) {
	for name, want := range map[string]error{
		"20990101000000000.deltacommit.inflight":    table.ErrRecover,
		"20990101000000000.inflight":                table.ErrRecover,
		"20990101000000000.rollback.requested":      table.ErrRecover,
		"20990101000000000.replacecommit.requested": table.ErrRecover,
		"20990101000000000.restore.inflight":        table.ErrForeign,
	} {
		d := start(t)
		putAll(t, d, map[string]string{".hoodie/" + name: ""})
		_, err := open(t, d).Begin(t.Context())
		wantErr(t, name, err, want)
	}
}
