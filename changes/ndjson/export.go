package ndjson

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/couch2hudi/couch2hudi/changes"
)

// ExportOptions say where bundles go and when one is closed. The zero value of
// each field but Folder is its default.
type ExportOptions struct {
	// Folder must exist.
	Folder string
	// Bytes closes a bundle once its rows, before compression, are so many bytes;
	// 256 MiB by default. Rows are read in parts of a few MiB, by which it may be
	// exceeded.
	Bytes int64
	// Interval closes a bundle so long after it was begun; 5 minutes by default.
	Interval time.Duration
	// Once ends Run when the source has nothing more.
	Once bool
	// Written is told of each bundle that is whole.
	Written func(Manifest)
	// Clock is the wall clock; time.Now by default.
	Clock func() time.Time

	disk disk // for tests
}

const (
	defaultBundleBytes    = 256 << 20
	defaultBundleInterval = 5 * time.Minute
	// partRows and partBytes bound what is read at a time.
	partRows, partBytes = 10_000, 8 << 20
	windowBytes         = 1 << 20
)

func (o ExportOptions) withDefaults() ExportOptions {
	if o.Bytes <= 0 {
		o.Bytes = defaultBundleBytes
	}
	if o.Interval <= 0 {
		o.Interval = defaultBundleInterval
	}
	if o.Clock == nil {
		o.Clock = time.Now
	}
	if o.disk == nil {
		o.disk = realDisk{}
	}
	return o
}

// Exporter writes what a source says into bundles.
type Exporter struct {
	o      ExportOptions
	source changes.Source
	lock   io.Closer
	// last is the newest manifest; its Number is 0 before the first. position is
	// how far the source was read.
	last     Manifest
	position changes.Position
	open     *bundle
	row      []byte
	followed bool // the source had nothing more once
	// purgeSeq is the purge sequence that was looked up to, purged are the documents of
	// the last list of purges, which the server bounds.
	purgeSeq string
	purged   map[string]bool
}

// NewExporter takes a folder: it finds the chain that is there, or begins one, and
// removes what a dead exporter left unfinished. A database that is not the chain's
// is changes.ErrRecreated, another exporter at work changes.ErrBusy, a damaged
// manifest changes.ErrChain.
func NewExporter(ctx context.Context, source changes.Source, o ExportOptions) (*Exporter, error) {
	o = o.withDefaults()
	if err := folderExists(o.Folder); err != nil {
		return nil, err
	}
	held, err := lock(o.Folder)
	if err != nil {
		return nil, err
	}
	e := &Exporter{o: o, source: source, lock: held}
	if err := e.begin(ctx); err != nil {
		return nil, errors.Join(err, held.Close())
	}
	return e, nil
}

// begin goes on where the newest manifest ends.
func (e *Exporter) begin(ctx context.Context) error {
	id, err := e.source.Identify(ctx)
	if err != nil {
		return fmt.Errorf("identify source: %w", err)
	}
	if err := e.recover(); err != nil {
		return err
	}
	if e.last.Number == 0 {
		e.last = Manifest{Version: formVersion, Chain: rand.Text(), Database: id.Name, Incarnation: id.Incarnation}
		e.purgeSeq = id.PurgeSeq // what was purged before has no row
		return nil
	}
	if e.last.Database != id.Name || e.last.Incarnation != id.Incarnation {
		return fmt.Errorf("%w: the bundles in %s are of database %q created at %s, this is %q created at %s; "+
			"export it to an empty folder, and follow that one into the table with --accept-recreated",
			changes.ErrRecreated, e.o.Folder, e.last.Database, e.last.Incarnation, id.Name, id.Incarnation)
	}
	e.position, e.purgeSeq = changes.Position(e.last.LastSeq), e.last.PurgeSeq
	return nil
}

// recover finds the newest manifest, completes the bundle whose manifest was about
// to get its name, and removes what lies beyond it.
func (e *Exporter) recover() error {
	names, err := os.ReadDir(e.o.Folder)
	if err != nil {
		return fmt.Errorf("list %s: %w", e.o.Folder, err)
	}
	newest := ""
	for _, n := range names {
		if number, ok := bundleNumber(n.Name(), manifestSuffix); ok && number > e.last.Number {
			e.last.Number, newest = number, n.Name()
		}
	}
	if newest != "" {
		if e.last, err = e.read(newest); err != nil {
			return err
		}
	}
	head, err := e.read(headName)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return err
	case head.Number > e.last.Number:
		// Killed before the manifest got its name, or all was carried away.
		if err := put(e.o.disk, e.o.Folder, bundleName(head.Number, manifestSuffix), head.encode()); err != nil {
			return err
		}
		e.last = head
	case head.Number == e.last.Number && head.Hash != e.last.Hash:
		return fmt.Errorf("%w: %s and %s in %s are of two chains; export to an empty folder", changes.ErrChain, newest, headName, e.o.Folder)
	}
	for _, n := range names {
		number, isData := bundleNumber(n.Name(), dataSuffix)
		stale := strings.HasPrefix(n.Name(), ".") && strings.HasSuffix(n.Name(), ".tmp")
		if !stale && (!isData || number <= e.last.Number) {
			continue
		}
		err := e.o.disk.remove(filepath.Join(e.o.Folder, n.Name()))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("remove an unfinished file: %w", err)
		}
	}
	return nil
}

func (e *Exporter) read(name string) (Manifest, error) {
	path := filepath.Join(e.o.Folder, name)
	data, err := readSmall(path)
	if err != nil {
		return Manifest{}, err
	}
	m, err := decodeManifest(data)
	if err != nil {
		return m, fmt.Errorf("%w: %s: %w; put the file of the last run back, or export to an empty folder", changes.ErrChain, path, err)
	}
	if number, ok := bundleNumber(name, manifestSuffix); ok && number != m.Number {
		return m, fmt.Errorf("%w: %s is the manifest of bundle %d; export to an empty folder", changes.ErrChain, path, m.Number)
	}
	return m, nil
}

// Last is the newest manifest; its Number is 0 when there is none.
func (e *Exporter) Last() Manifest { return e.last }

// Run writes bundles until ctx is done, which is no error, or with Once until the
// source has nothing more. What it has read is in a bundle when it returns nil.
func (e *Exporter) Run(ctx context.Context) error {
	for {
		b, err := e.step(ctx)
		if read := (readError{}); errors.As(err, &read) && ctx.Err() != nil {
			return e.finish()
		}
		if err != nil {
			return errors.Join(err, e.abandon())
		}
		if e.due(&b) {
			if err := e.finish(); err != nil {
				return err
			}
		}
		e.followed = e.followed || b.CaughtUp
		if e.o.Once && b.CaughtUp {
			return nil
		}
	}
}

func (e *Exporter) limit() changes.Limit {
	l := changes.Limit{Rows: partRows, Bytes: min(partBytes, e.o.Bytes), Wait: e.o.Interval}
	if e.open != nil {
		l.Wait = max(time.Millisecond, e.o.Interval-e.o.Clock().Sub(e.open.began))
		l.Bytes = max(1, min(l.Bytes, e.o.Bytes-e.open.plain))
	}
	if e.followed && !e.o.Once {
		l.Idle = l.Wait
	}
	return l
}

// due says whether the open bundle is to be closed after a batch.
func (e *Exporter) due(b *changes.Batch) bool {
	if e.open == nil {
		return false
	}
	return e.open.plain >= e.o.Bytes || e.o.Clock().Sub(e.open.began) >= e.o.Interval || b.CaughtUp && (e.o.Once || !e.followed)
}

// take writes a batch. A chain begins with a bundle even when there is nothing to
// tell: it says of which database.
func (e *Exporter) take(b *changes.Batch) error {
	if e.open == nil && (len(b.Changes) > 0 || b.CaughtUp && e.last.Number == 0) {
		var err error
		if e.open, err = e.create(); err != nil {
			return err
		}
	}
	for i := range b.Changes {
		e.row = appendRow(e.row[:0], &b.Changes[i])
		if err := e.open.write(e.row); err != nil {
			return e.full(e.open.name, err)
		}
	}
	e.position = b.Last
	return nil
}

// finish closes the open bundle and publishes it, manifest last.
func (e *Exporter) finish() error {
	if e.open == nil {
		return nil
	}
	b, d := e.open, e.o.disk
	m, err := b.close()
	if err != nil {
		return errors.Join(e.full(b.name, err), e.abandon())
	}
	m.Version, m.Chain, m.Database, m.Incarnation = formVersion, e.last.Chain, e.last.Database, e.last.Incarnation
	m.Number, m.Previous, m.FirstSeq, m.LastSeq = e.last.Number+1, e.last.Hash, e.last.LastSeq, string(e.position)
	m.PurgeSeq = e.purgeSeq
	text := m.encode()
	e.open = nil
	if err := publish(d, e.o.Folder, b.name); err != nil {
		return err
	}
	// Before the manifest has its name, which may be carried away at once.
	if err := put(d, e.o.Folder, headName, text); err != nil {
		return err
	}
	if err := put(d, e.o.Folder, bundleName(m.Number, manifestSuffix), text); err != nil {
		return err
	}
	e.last = m
	if e.o.Written != nil {
		e.o.Written(m)
	}
	return nil
}

// abandon removes the bundle that is open.
func (e *Exporter) abandon() error {
	if e.open == nil {
		return nil
	}
	b := e.open
	e.open = nil
	b.discard()
	if err := e.o.disk.remove(filepath.Join(e.o.Folder, tempName(b.name))); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove an unfinished file: %w", err)
	}
	return nil
}

// Close gives the folder back, and drops what Run left open.
func (e *Exporter) Close() error { return errors.Join(e.abandon(), e.lock.Close()) }

// bundle is one that is being written.
type bundle struct {
	name  string
	began time.Time
	f     file
	sum   hash.Hash
	size  int64
	zip   *zstd.Encoder
	plain int64
	rows  int64
}

func (e *Exporter) create() (*bundle, error) {
	b := &bundle{name: bundleName(e.last.Number+1, dataSuffix), began: e.o.Clock(), sum: sha256.New()}
	path := filepath.Join(e.o.Folder, tempName(b.name))
	var err error
	if b.f, err = e.o.disk.create(path); err != nil {
		return nil, fmt.Errorf("create %s: %w", path, err)
	}
	b.zip, err = zstd.NewWriter(writerFunc(b.store), zstd.WithEncoderConcurrency(1), zstd.WithWindowSize(windowBytes))
	if err != nil {
		return nil, errors.Join(fmt.Errorf("compress %s: %w", path, err), b.f.Close())
	}
	return b, nil
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

// store writes compressed bytes.
func (b *bundle) store(p []byte) (int, error) {
	n, err := b.f.Write(p)
	b.sum.Write(p[:n])
	b.size += int64(n)
	return n, err
}

func (b *bundle) write(row []byte) error {
	b.rows++
	b.plain += int64(len(row))
	_, err := b.zip.Write(row)
	return err
}

// close makes the file durable and says what it holds.
func (b *bundle) close() (Manifest, error) {
	err := b.zip.Close()
	if err == nil {
		err = b.f.Sync()
	}
	err = errors.Join(err, b.f.Close())
	return Manifest{Rows: b.rows, Bytes: b.size, PlainBytes: b.plain, SHA256: hex.EncodeToString(b.sum.Sum(nil))}, err
}

func (b *bundle) discard() {
	_ = b.f.Close() // it may be closed already
}
