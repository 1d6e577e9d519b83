package table

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/couch2hudi/couch2hudi/hudi"
	"github.com/couch2hudi/couch2hudi/storage"
)

// ReadLease keeps the files that a reader of the past needs: until it expires no
// clean takes what was there at its instant or came later.
type ReadLease struct {
	// ID names the reader: letters, digits and "-_", with a letter in it.
	ID string `json:"-"`
	// Instant is where the reader stands.
	Instant hudi.Time `json:"instant"`
	// Expires is when the lease ends by the table's clock. Who reads longer
	// registers again.
	Expires time.Time `json:"expires"`
}

const (
	readersFolder = asideFolder + "readers/"
	leaseSuffix   = ".json"
	// leaseLimit bounds a lease's file.
	leaseLimit = 1 << 12
)

// RegisterReader takes a read lease, or moves or prolongs the one of the same
// ID. It needs no writer's Lease and works on tables that are read only. The
// error is an ErrCleaned when a clean has gone further than the instant.
func (t *Table) RegisterReader(ctx context.Context, l ReadLease) error {
	if !leaseID(l.ID) {
		return fmt.Errorf("%w: reader %q", hudi.ErrName, l.ID)
	}
	if _, err := hudi.ParseTime(string(l.Instant)); err != nil {
		return fmt.Errorf("reader %q: %w", l.ID, err)
	}
	data, err := json.Marshal(l)
	if err != nil {
		return err
	}
	if _, err := t.bucket.Put(ctx, readersFolder+l.ID+leaseSuffix, data); err != nil {
		return fmt.Errorf("register reader %q: %w", l.ID, err)
	}
	// A clean that was planned before it could see the lease is on the timeline
	// by now; one that comes later sees the lease.
	v, err := t.View(ctx)
	if err != nil {
		return err
	}
	reach, err := v.Cleaned(ctx)
	if err != nil {
		return err
	}
	if reach.Earliest.After(l.Instant) || (reach.Unbounded && reach.Pending) {
		err := fmt.Errorf("register reader %q at %s: %w", l.ID, l.Instant, ErrCleaned)
		hint := "begin at " + string(reach.Earliest) + " or later"
		if reach.Unbounded {
			hint = "try again when the clean that is under way has ended"
		}
		return errors.Join(&Error{Err: err, Hint: hint}, t.ReleaseReader(ctx, l.ID))
	}
	return nil
}

// ReleaseReader gives a read lease back. One that is not there is no error.
func (t *Table) ReleaseReader(ctx context.Context, id string) error {
	if !leaseID(id) {
		return fmt.Errorf("%w: reader %q", hudi.ErrName, id)
	}
	return t.bucket.DeleteIfExists(ctx, readersFolder+id+leaseSuffix)
}

// leaseID holds IDs to names that nothing else under the folder has: what is
// named by an instant is a transaction's.
func leaseID(id string) bool {
	letters := false
	for i := range len(id) {
		c := id[i]
		letter := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
		letters = letters || letter
		if !letter && (c < '0' || c > '9') && c != '-' && c != '_' {
			return false
		}
	}
	return letters
}

// ReadLeases are the leases that have not expired. What is no lease is passed
// over.
func (t *Table) ReadLeases(ctx context.Context) ([]ReadLease, error) {
	valid, _, err := t.readLeases(ctx)
	return valid, err
}

// readLeases tells leases from the names of those that expired.
func (t *Table) readLeases(ctx context.Context) (valid []ReadLease, expired []string, err error) {
	var names []string
	for o, err := range t.bucket.ListFolders(ctx, readersFolder) {
		if err != nil {
			return nil, nil, err
		}
		names = append(names, o.Name)
	}
	for _, name := range names {
		id, ok := strings.CutSuffix(strings.TrimPrefix(name, readersFolder), leaseSuffix)
		if !ok || !leaseID(id) {
			continue
		}
		data, err := t.bucket.ReadAll(ctx, name, leaseLimit)
		if errors.Is(err, storage.ErrNotExist) {
			continue // released meanwhile
		}
		if err != nil {
			return nil, nil, err
		}
		l := ReadLease{}
		if err := json.Unmarshal(data, &l); err != nil {
			return nil, nil, hinted(ErrCorrupt, "delete the file if its reader is gone", "%s: %v", name, err)
		}
		if l.ID = id; t.now().Before(l.Expires) {
			valid = append(valid, l)
		} else {
			expired = append(expired, name)
		}
	}
	return valid, expired, nil
}
