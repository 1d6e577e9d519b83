package main

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/couch2hudi/couch2hudi/hudi"
	"github.com/couch2hudi/couch2hudi/table"
)

// checkpoint is the file of --checkpoint.
type checkpoint struct {
	// Table is the table's name: a position means nothing elsewhere.
	Table string `json:"table"`
	// Instant is the last commit that was delivered.
	Instant hudi.Time `json:"instant"`
}

// readCheckpoint is the position in a checkpoint of a table, "" when there is none.
func readCheckpoint(path, name string) (hudi.Time, error) {
	if path == "" {
		return "", nil
	}
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("read checkpoint: %w", err)
	}
	var c checkpoint
	if err := json.Unmarshal(data, &c); err != nil {
		return "", &usageError{err: fmt.Errorf("checkpoint %q is not one of ours: %w; delete it to begin anew, with --since", path, err)}
	}
	if _, err := hudi.ParseTime(string(c.Instant)); err != nil {
		return "", &usageError{err: fmt.Errorf("checkpoint %q: %w; delete it to begin anew, with --since", path, err)}
	}
	if c.Table != name {
		return "", &usageError{err: fmt.Errorf("checkpoint %q is of the table %q, this one is %q; name another file", path, c.Table, name)}
	}
	return c.Instant, nil
}

func writeCheckpoint(path string, c checkpoint) error {
	data, err := json.Marshal(c)
	if err != nil {
		return err
	}
	err = replaceFile(path, func(w io.Writer) error {
		_, err := w.Write(append(data, '\n'))
		return err
	})
	if err != nil {
		return fmt.Errorf("checkpoint: %w", err)
	}
	return nil
}

// readLease keeps a read lease on a table while tail runs.
type readLease struct {
	table *table.Table
	id    string
	keeps time.Duration
	// renewed is when it was last taken.
	renewed time.Time
}

// newReadLease names the lease by the checkpoint's place, so that the next start
// has the same one; without a checkpoint by chance.
func newReadLease(t *table.Table, checkpoint string, keeps time.Duration) readLease {
	name := rand.Text()
	if checkpoint != "" {
		host, _ := os.Hostname() // without one the path has to do
		path, err := filepath.Abs(checkpoint)
		if err != nil {
			path = checkpoint
		}
		name = host + ":" + path
	}
	sum := sha256.Sum256([]byte(name))
	const enough = 10
	return readLease{table: t, id: "tail-" + hex.EncodeToString(sum[:enough]), keeps: keeps}
}

// due renews the lease when a quarter of its time has gone. The position may
// have moved since: a lease that stands before it keeps more than is needed.
func (l *readLease) due(ctx context.Context, position hudi.Time) error {
	const often = 4
	if !l.renewed.IsZero() && time.Since(l.renewed) < l.keeps/often {
		return nil
	}
	return l.renew(ctx, position)
}

func (l *readLease) renew(ctx context.Context, position hudi.Time) error {
	if l.keeps == 0 || position == "" {
		return nil
	}
	now := time.Now()
	err := l.table.RegisterReader(ctx, table.ReadLease{ID: l.id, Instant: position, Expires: now.Add(l.keeps)})
	if err == nil || !isGone(err) {
		l.renewed = now // one that cannot be had is not asked for at every commit
	}
	return err
}

func (l *readLease) release(ctx context.Context) error {
	if l.renewed.IsZero() {
		return nil
	}
	return l.table.ReleaseReader(ctx, l.id)
}
