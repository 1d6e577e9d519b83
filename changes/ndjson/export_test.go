package ndjson

import (
	"errors"
	"fmt"
	"sync/atomic"
)

// DecodeManifest and BundleName are for the tests outside.
func DecodeManifest(data []byte) (Manifest, error) { return decodeManifest(data) }

// DataName and ManifestName are the names of a bundle's files.
func DataName(number int64) string     { return bundleName(number, dataSuffix) }
func ManifestName(number int64) string { return bundleName(number, manifestSuffix) }

// ErrDied is what a dead disk says.
var ErrDied = errors.New("the process died")

// FailingDisk fails a step.
type FailingDisk struct {
	// At is the step that fails, counted from 0. With Full set it is a write alone
	// that fails, and all goes on; else nothing can be done from there on.
	At   int64
	Full error
	// Steps counts the steps.
	Steps atomic.Int64
}

// On makes an export use the disk.
func (d *FailingDisk) On(o ExportOptions) ExportOptions {
	o.disk = d
	return o
}

func (d *FailingDisk) step(write bool) error {
	if d.Full != nil && !write {
		return nil
	}
	n := d.Steps.Add(1) - 1
	switch {
	case d.Full != nil && n == d.At:
		return d.Full
	case d.Full == nil && n >= d.At:
		return fmt.Errorf("step %d: %w", n, ErrDied)
	}
	return nil
}

func (d *FailingDisk) create(path string) (file, error) {
	if err := d.step(false); err != nil {
		return nil, err
	}
	f, err := realDisk{}.create(path)
	return &failingFile{file: f, disk: d}, err
}

func (d *FailingDisk) rename(from, to string) error {
	if err := d.step(false); err != nil {
		return err
	}
	return realDisk{}.rename(from, to)
}

func (d *FailingDisk) remove(path string) error {
	if err := d.step(false); err != nil {
		return err
	}
	return realDisk{}.remove(path)
}

// sync costs time, and what it promises is not to be seen in a test.
func (d *FailingDisk) sync(string) error { return d.step(false) }

type failingFile struct {
	file
	disk *FailingDisk
}

func (f *failingFile) Write(p []byte) (int, error) {
	if err := f.disk.step(true); err != nil {
		n, _ := f.file.Write(p[:len(p)/2])
		return n, err
	}
	return f.file.Write(p)
}

func (f *failingFile) Sync() error { return f.disk.step(false) }
