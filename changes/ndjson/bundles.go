package ndjson

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/couch2hudi/couch2hudi/changes"
)

// bundles is a folder of bundles with manifests.
type bundles struct {
	o     Options
	watch *watch
	// whole is the manifest whose file was last found to be what it says, and how
	// the file looked then.
	whole   Manifest
	wholeAt fs.FileInfo
}

// open implements shelf.
func (b *bundles) open(ctx context.Context, p place) (*reader, wait, error) {
	number := p.next()
	m, w, err := b.manifest(number)
	if err != nil || w.reason != "" {
		return nil, w, err
	}
	name := bundleName(number, manifestSuffix)
	if why := m.follows(p, number); why != "" {
		return nil, wait{}, b.broken(name, why)
	}
	f, w, err := b.data(ctx, m)
	if err != nil || w.reason != "" {
		return nil, w, err
	}
	r := &reader{name: filepath.Base(f.Name()), rows: m.Rows, seq: m.LastSeq, at: place{Bundle: number, Chain: m.Chain, Hash: m.Hash}}
	if r.lines, err = openLines(f, b.o.MaxRowBytes); err != nil {
		return nil, wait{}, errors.Join(fmt.Errorf("open %s: %w", f.Name(), err), f.Close())
	}
	if number == p.Bundle {
		err = skip(ctx, r, p.Row)
	}
	if err != nil {
		r.lines.done()
		return nil, wait{}, err
	}
	return r, wait{}, nil
}

// skip reads over the rows that were delivered before.
func skip(ctx context.Context, r *reader, rows int64) error {
	const often = 1024
	for ; r.at.Row < rows; r.at.Row++ {
		if _, err := r.lines.next(false); err != nil {
			return fmt.Errorf("%w: %s has no row %d, after which to go on: %w", changes.ErrChain, r.name, rows, err)
		}
		if r.at.Row%often == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
	}
	return nil
}

func (b *bundles) broken(name, why string) error {
	return fmt.Errorf("%w: %s: %s; put the right file there and start again", changes.ErrChain, filepath.Join(b.o.Folder, name), why)
}

// manifest reads the manifest of a number, or says that it waits for it. One that
// cannot be read may be on its way.
func (b *bundles) manifest(number int64) (Manifest, wait, error) {
	name := bundleName(number, manifestSuffix)
	path := filepath.Join(b.o.Folder, name)
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		b.watch.forget(name)
		w, err := b.missing(number, name)
		return Manifest{}, w, err
	}
	if err != nil {
		return Manifest{}, wait{}, fmt.Errorf("look at %s: %w", path, err)
	}
	data, err := readSmall(path)
	if err != nil {
		return Manifest{}, wait{}, err
	}
	m, err := decodeManifest(data)
	if err == nil {
		return m, wait{}, nil
	}
	if b.watch.still(name, info) < b.o.Settle {
		return m, wait{reason: fmt.Sprintf("%s is damaged, or still being copied: %s", name, err), gap: true}, nil
	}
	return m, wait{}, b.broken(name, err.Error())
}

// missing is the wait for a bundle that is not there. It is a gap when its file or
// a later bundle is.
func (b *bundles) missing(number int64, name string) (wait, error) {
	later, err := b.later(number)
	switch {
	case err != nil:
		return wait{}, err
	case later > number:
		return wait{reason: fmt.Sprintf("%s is missing, bundle %d is there", name, later), gap: true}, nil
	case later == number:
		return wait{reason: name + " is missing, the bundle itself is there", gap: true}, nil
	}
	return wait{reason: name + " has not come"}, nil
}

// later is the least number from number on of which there is a file, or 0.
func (b *bundles) later(number int64) (int64, error) {
	least := int64(0)
	err := b.each(func(_ string, n int64, _ bool) {
		if n >= number && (least == 0 || n < least) {
			least = n
		}
	})
	return least, err
}

// each yields the bundles' files.
func (b *bundles) each(yield func(name string, number int64, manifest bool)) error {
	names, err := os.ReadDir(b.o.Folder)
	if err != nil {
		return fmt.Errorf("list %s: %w", b.o.Folder, err)
	}
	for _, n := range names {
		if number, ok := bundleNumber(n.Name(), manifestSuffix); ok {
			yield(n.Name(), number, true)
		} else if number, ok := bundleNumber(n.Name(), dataSuffix); ok {
			yield(n.Name(), number, false)
		}
	}
	return nil
}

// data opens a bundle's file once it is what the manifest says.
func (b *bundles) data(ctx context.Context, m Manifest) (*os.File, wait, error) {
	name := bundleName(m.Number, dataSuffix)
	f, err := os.Open(filepath.Join(b.o.Folder, name))
	if errors.Is(err, fs.ErrNotExist) {
		b.watch.forget(name)
		return nil, wait{reason: name + " is missing, its manifest is there", gap: true}, nil
	}
	if err != nil {
		return nil, wait{}, fmt.Errorf("open bundle: %w", err)
	}
	w, err := b.check(ctx, f, name, m)
	if err != nil || w.reason != "" {
		return nil, w, errors.Join(err, f.Close())
	}
	return f, wait{}, nil
}

// check holds a bundle's file against its manifest, and leaves f at its beginning.
func (b *bundles) check(ctx context.Context, f *os.File, name string, m Manifest) (wait, error) {
	info, err := f.Stat()
	if err != nil {
		return wait{}, fmt.Errorf("look at %s: %w", f.Name(), err)
	}
	if b.whole == m && os.SameFile(info, b.wholeAt) && info.Size() == b.wholeAt.Size() && info.ModTime().Equal(b.wholeAt.ModTime()) {
		return wait{}, nil
	}
	why := ""
	if info.Size() != m.Bytes {
		why = fmt.Sprintf("it has %d bytes, its manifest says %d", info.Size(), m.Bytes)
	} else {
		sum, err := hashOf(ctx, f)
		if err != nil {
			return wait{}, fmt.Errorf("read %s: %w", f.Name(), err)
		}
		if sum != m.SHA256 {
			why = fmt.Sprintf("it was changed: its SHA-256 is %s, its manifest says %s", sum, m.SHA256)
		}
	}
	if why == "" {
		b.whole, b.wholeAt = m, info
		b.watch.forget(name)
		if _, err := f.Seek(0, io.SeekStart); err != nil {
			return wait{}, fmt.Errorf("read %s: %w", f.Name(), err)
		}
		return wait{}, nil
	}
	copied, err := b.copied(name, info, m)
	if err != nil {
		return wait{}, err
	}
	if copied {
		return wait{reason: fmt.Sprintf("%s is damaged, or still being copied: %s", name, why), gap: true}, nil
	}
	return wait{}, b.broken(name, why)
}

// copied says whether a file that is not what its manifest says may still be on
// its way: it changed of late, or it is too short and nothing later is there.
func (b *bundles) copied(name string, info fs.FileInfo, m Manifest) (bool, error) {
	if b.watch.still(name, info) < b.o.Settle {
		return true, nil
	}
	if info.Size() >= m.Bytes {
		return false, nil
	}
	later, err := b.later(m.Number + 1)
	return later == 0, err
}

// hashOf is the SHA-256 of what r yields.
func hashOf(ctx context.Context, r io.Reader) (string, error) {
	sum := sha256.New()
	buf := make([]byte, lineBuffer)
	for {
		n, err := r.Read(buf)
		sum.Write(buf[:n])
		switch {
		case errors.Is(err, io.EOF):
			return hex.EncodeToString(sum.Sum(nil)), nil
		case err != nil:
			return "", err
		case ctx.Err() != nil:
			return "", ctx.Err()
		}
	}
}

// end implements shelf: after the newest bundle whose manifest can be read.
func (b *bundles) end(context.Context) (place, error) {
	var numbers []int64
	err := b.each(func(_ string, number int64, manifest bool) {
		if manifest {
			numbers = append(numbers, number)
		}
	})
	if err != nil || len(numbers) == 0 {
		return place{}, err
	}
	m, w, err := b.manifest(slices.Max(numbers))
	if err == nil && w.reason != "" {
		err = fmt.Errorf("%w: %s", changes.ErrChain, w.reason)
	}
	return place{Bundle: m.Number, Chain: m.Chain, Hash: m.Hash, Row: m.Rows, Done: true}, err
}

// incarnation implements shelf.
func (b *bundles) incarnation() string {
	var found string
	_ = b.each(func(name string, _ int64, manifest bool) {
		if found != "" || !manifest {
			return
		}
		data, err := readSmall(filepath.Join(b.o.Folder, name))
		if err != nil {
			return
		}
		if m, err := decodeManifest(data); err == nil {
			found = m.Incarnation
		}
	})
	return found
}

// consumed implements shelf. A manifest goes after its file.
func (b *bundles) consumed(p place) (names []string, err error) {
	last := p.next() - 1
	var manifests []string
	err = b.each(func(name string, number int64, manifest bool) {
		switch {
		case number > last:
		case manifest:
			manifests = append(manifests, name)
		default:
			names = append(names, name)
		}
	})
	return append(names, manifests...), err
}
