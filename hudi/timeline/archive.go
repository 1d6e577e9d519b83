package timeline

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"iter"
	"strconv"
	"strings"

	"github.com/couch2hudi/couch2hudi/commitmeta"
	"github.com/couch2hudi/couch2hudi/hudi"
	"github.com/couch2hudi/couch2hudi/hudi/logfile"
)

const (
	archivePrefix = ".commits_.archive."
	// archiveToken is the write token in the names of archives.
	archiveToken = "_1-0-1"
	// archiveBlockBytes is where a block of an archive is closed. A reader holds
	// an entry at a time; Hudi's holds a block.
	archiveBlockBytes = 1 << 20
)

// ArchiveFileName is the name of the n-th file of the archive, from 1, in the
// folder that hoodie.archivelog.folder names (".hoodie/archived/").
func ArchiveFileName(n int) string { return archivePrefix + strconv.Itoa(n) + archiveToken }

// ParseArchiveFileName is the number in the name of an archive of any writer.
func ParseArchiveFileName(name string) (n int, ok bool) {
	rest, ok := strings.CutPrefix(name, archivePrefix)
	if !ok {
		return 0, false
	}
	number, _, _ := strings.Cut(rest, "_")
	n, err := strconv.Atoi(number)
	return n, err == nil && n > 0
}

// ArchiveWriter writes one file of the archive (docs/format/archive.md). After
// an error the file is no good.
type ArchiveWriter struct {
	out     *logfile.DatumWriter
	encoder *commitmeta.Archiver
}

// NewArchiveWriter makes a writer. It does not close w.
func NewArchiveWriter(w io.Writer) (*ArchiveWriter, error) {
	a, err := commitmeta.NewArchiver()
	if err != nil {
		return nil, err
	}
	return &ArchiveWriter{out: logfile.NewDatumWriter(w, commitmeta.ArchiveSchema(), archiveBlockBytes), encoder: a}, nil
}

// Next is a writer of another file. It shares what was prepared for this one, which is
// a few milliseconds' work, and both are of one goroutine.
func (w *ArchiveWriter) Next(to io.Writer) *ArchiveWriter {
	return &ArchiveWriter{out: logfile.NewDatumWriter(to, commitmeta.ArchiveSchema(), archiveBlockBytes), encoder: w.encoder}
}

// Append takes one state of an instant and the content of the file that says
// so. Of an instant all states go in, in their order: a completed compaction as
// a commit, what came before as a compaction, as the names of the files have
// it. Modified becomes the time of the change of state, in UTC.
func (w *ArchiveWriter) Append(i Instant, content []byte) error {
	h := commitmeta.ArchiveHead{Time: i.Time, Action: i.Action}
	switch i.State {
	case Requested:
		h.State = commitmeta.StateRequested
	case Inflight:
		h.State = commitmeta.StateInflight
	case Completed:
		h.State = commitmeta.StateCompleted
	default:
		return fmt.Errorf("archive %s: unknown state", i)
	}
	if !i.Modified.IsZero() {
		h.Changed = hudi.FormatTime(i.Modified)
	}
	datum, err := w.encoder.Encode(h, content)
	if err != nil {
		return err
	}
	return w.out.Append(datum)
}

// Close writes what is left.
func (w *ArchiveWriter) Close() error { return w.out.Close() }

// Archived is one state of an instant in the archive. It is valid until the
// next one is read.
type Archived struct {
	// Instant has the action as it was then: compaction until it completed. Its
	// Modified is the change of state as the archive has it, read as UTC, and
	// zero when the archive does not say.
	Instant
	datum []byte
	// reader is nil for entries of a history, which hold the files themselves.
	reader  *commitmeta.ArchiveReader
	version hudi.Version
}

// Entry decodes what the instant's file said.
func (a *Archived) Entry() (commitmeta.ArchiveEntry, error) {
	if a.reader == nil {
		return commitmeta.DecodeArchived(a.version, commitmeta.ArchiveHead{Time: a.Time, Action: a.Action, State: commitmeta.StateCompleted, Changed: a.Completion}, a.datum)
	}
	return a.reader.Decode(a.datum)
}

// ReadArchive yields what one file of the archive holds, in its order, which is
// by time in each run of an archiver. An instant may stand in the archive twice,
// and still on the timeline, when an archiver died between writing and
// deleting. Stretches that are no block, as torn appends leave them, are passed
// over: what they were to hold is still on the timeline. What is held is one
// entry. After an error nothing follows.
func ReadArchive(r io.ReaderAt, size int64) iter.Seq2[*Archived, error] {
	return func(yield func(*Archived, error) bool) {
		s := logfile.NewScanner(r, size)
		var a Archived
		schema := ""
		for {
			b, err := s.Next()
			if errors.Is(err, io.EOF) {
				return
			}
			if err == nil && b.Type == logfile.Corrupt {
				continue
			}
			if err == nil && (a.reader == nil || b.Schema != schema) {
				schema = b.Schema
				a.reader, err = commitmeta.NewArchiveReader(schema)
			}
			if err != nil {
				yield(nil, fmt.Errorf("archive: %w", err))
				return
			}
			for datum, err := range b.Datums() {
				if err == nil {
					err = a.read(datum)
				}
				if err != nil {
					yield(nil, fmt.Errorf("archive: %w", err))
					return
				}
				if !yield(&a, nil) {
					return
				}
			}
		}
	}
}

func (a *Archived) read(datum []byte) error {
	h, err := a.reader.Head(datum)
	if err != nil {
		return err
	}
	a.datum = datum
	a.Instant = Instant{Time: h.Time, Action: h.Action}
	switch h.State {
	case commitmeta.StateRequested:
		a.State = Requested
	case commitmeta.StateInflight:
		a.State = Inflight
	case commitmeta.StateCompleted:
		a.State = Completed
	default:
		return fmt.Errorf("%w: %s %s in state %q", commitmeta.ErrDecode, h.Time, h.Action, h.State)
	}
	if changed, err := h.Changed.Clock(); err == nil {
		a.Modified = changed
	}
	return nil
}

// Bytes is the size of the entry as it is stored.
func (a *Archived) Bytes() int64 { return int64(len(a.datum)) }

// Mentions says whether a text stands somewhere in the entry, which is far
// quicker to find out than what it says.
func (a *Archived) Mentions(text string) bool { return bytes.Contains(a.datum, []byte(text)) }
