package reader

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"path"
	"strings"

	"github.com/couch2hudi/couch2hudi/hudi"
	"github.com/couch2hudi/couch2hudi/hudi/basefile"
	"github.com/couch2hudi/couch2hudi/hudi/logfile"
)

// block is a block of one of the slice's log files.
type block struct {
	*logfile.Block
	name string
	file file
}

// collect merges the slice's log files with each other. The result is never
// nil and must be closed, also after an error.
func (m *merger) collect(ctx context.Context) (*newest, error) {
	logs := newNewest(m.o)
	blocks, closers, err := m.blocks(ctx)
	defer func() {
		for _, c := range closers {
			c.Close() //nolint:errcheck,gosec // nothing was written
		}
	}()
	if err != nil {
		return logs, err
	}
	for i, b := range blocks {
		announce(blocks, i)
		if err := m.merge(ctx, b, logs); err != nil {
			return logs, fmt.Errorf("read log file %q, block at offset %d: %w", b.name, b.Offset, err)
		}
	}
	return logs, nil
}

func (m *merger) merge(ctx context.Context, b block, logs *newest) error {
	records, err := m.records(b)
	if err != nil {
		return err
	}
	for r, err := range records {
		if err == nil {
			err = m.alive(ctx)
		}
		if err != nil {
			return err
		}
		if !m.o.wantsKey(r.Key.Record) {
			continue
		}
		if m.order == "" {
			r.Order = 0 // deletes may bring one along
		}
		if err := logs.add(r); err != nil {
			return err
		}
	}
	return nil
}

// records are the rows and deletes of a block of any type that holds some.
func (m *merger) records(b block) (iter.Seq2[*hudi.Record, error], error) {
	switch b.Type {
	case logfile.AvroData, logfile.Delete:
		return b.Records(m.target, m.order), nil
	case logfile.ParquetData:
		f, err := basefile.Open(io.NewSectionReader(b.file, b.ContentOffset, b.ContentLength), b.ContentLength)
		if err != nil {
			return nil, err
		}
		return f.Records(m.target, m.order), nil
	default:
		return nil, fmt.Errorf("%w: blocks of type %d do not belong into a log of rows", ErrCorrupt, b.Type)
	}
}

// blocks are those blocks of the slice's log files that count, in reading
// order: committed, and not rolled back by a later command block.
func (m *merger) blocks(ctx context.Context) (list []block, closers []io.Closer, err error) {
	var logs []hudi.File
	for _, log := range m.slice.Logs {
		name, err := hudi.ParseLogFileName(log.Name)
		if err != nil {
			return nil, nil, err
		}
		if !name.CDC { // those are change images of a rewritten base file: no rows of the slice
			logs = append(logs, log)
		}
	}
	files := openAhead(ctx, m.view, m.slice.Partition, logs)
	defer func() { closers = append(closers, files.rest()...) }()
	for _, log := range logs {
		r, err := files.next(ctx)
		if err != nil {
			return list, closers, fmt.Errorf("open log file: %w", err)
		}
		closers = append(closers, r)
		if list, err = m.scan(ctx, r, log.Name, list); err != nil {
			return list, closers, fmt.Errorf("read log file %q: %w", log.Name, err)
		}
	}
	return list, closers, nil
}

// scan appends the blocks of one log file that count to list.
func (m *merger) scan(ctx context.Context, r file, name string, list []block) ([]block, error) {
	for scanner := logfile.NewScanner(r, r.Size()); ; {
		b, err := scanner.Next()
		if errors.Is(err, io.EOF) {
			return list, nil
		}
		if err != nil {
			return list, err
		}
		switch b.Type {
		case logfile.Corrupt:
			if err := m.torn(ctx, b, name); err != nil {
				return list, err
			}
		case logfile.Command:
			list = without(list, b.Target)
		default:
			if !m.view.Committed(b.Instant) || (m.only != nil && !m.only(b.Instant)) {
				continue
			}
			if b.Header[logfile.IsPartial] == "true" {
				return list, fmt.Errorf("%w: block at offset %d has rows of some columns only: read the table with the engine that made it",
					logfile.ErrUnsupported, b.Offset)
			}
			for t := range strings.SplitSeq(b.Header[logfile.CompactedBlockTimes], ",") {
				if t != "" { // a log compaction: the block stands for those of these instants
					list = without(list, hudi.Time(strings.TrimSpace(t)))
				}
			}
			list = append(list, slim(list, block{Block: b, name: name, file: r}))
		}
	}
}

// slim keeps the blocks of a slice with many logs small: they wait for each
// other, since a later one may roll them back, and nearly all have one schema.
func slim(list []block, b block) block {
	b.Header = nil
	if n := len(list); n > 0 && list[n-1].Schema == b.Schema {
		b.Schema = list[n-1].Schema
	}
	return b
}

// without is list less the blocks that a rollback of target takes back: those
// before it.
func without(list []block, target hudi.Time) []block {
	kept := list[:0]
	for _, b := range list {
		if b.Instant != target {
			kept = append(kept, b)
		}
	}
	return kept
}

// torn decides on a stretch of a log file that is no block. When no commit
// names the file, and all commits that could are on the active timeline, then
// its writer died while it wrote, and nothing in it was ever part of the table.
// In all other cases bytes of the table are damaged.
func (m *merger) torn(ctx context.Context, b *logfile.Block, name string) error {
	damaged := fmt.Errorf("%w: no block at offset %d (%d bytes)", ErrCorrupt, b.Offset, b.Length)
	named, err := m.named(ctx, name)
	if err != nil {
		return errors.Join(damaged, err)
	}
	n, err := hudi.ParseLogFileName(name)
	if err != nil {
		return errors.Join(damaged, err)
	}
	// Commits that write to the slice are not older than its base instant.
	active := m.view.Instants()
	if named || len(active) == 0 || n.Instant.Before(active[0].Time) {
		return damaged
	}
	return nil
}

// named says whether a write on the active timeline names a file of the slice.
func (m *merger) named(ctx context.Context, name string) (bool, error) {
	for _, i := range m.view.Writes() {
		body, err := m.view.Body(ctx, i)
		if err != nil {
			return false, err
		}
		for _, stat := range body.Stats[m.slice.Partition] {
			if path.Base(stat.Path) == name {
				return true, nil
			}
		}
	}
	return false, nil
}
