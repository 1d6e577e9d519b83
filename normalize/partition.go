package normalize

import (
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/couch2hudi/couch2hudi/hudi"
)

// partition is a value of the partition column and its folder.
type partition struct {
	value hudi.Value
	path  string
}

// partitioner makes partitions of documents' values.
type partitioner struct {
	folders hudi.Partitioning
	layout  string // of package time; empty for the value's own text
	zone    *time.Location
	// none is the default partition, or no partition at all.
	none partition
	// texts and moments are the partitions made so far, by the text of their
	// values, and by the clock in the zone, in units of so many seconds.
	texts   map[string]partition
	moments map[int64]partition
	unit    int64
	buf     []byte
}

const (
	// maxKnown bounds the memory of partitions that were made.
	maxKnown = 4096
)

func newPartitioner(o *Options) (*partitioner, error) {
	p := &partitioner{texts: make(map[string]partition), moments: make(map[int64]partition)}
	if o.PartitionField == "" {
		return p, nil
	}
	var err error
	if p.layout, err = timeLayout(o.PartitionFormat); err != nil {
		return nil, err
	}
	p.unit = unit(p.layout)
	if p.zone, err = time.LoadLocation(o.PartitionTimezone); err != nil || o.PartitionTimezone == "Local" {
		return nil, fmt.Errorf("%w: partition time zone %q is not known", ErrOptions, o.PartitionTimezone)
	}
	if strings.HasPrefix(o.PartitionField, "_") {
		return nil, fmt.Errorf("%w: partition field %q: fields with an underscore in front are CouchDB's", ErrOptions, o.PartitionField)
	}
	if name := o.PartitionName; legalColumn(name) != name || name[0] == '_' {
		return nil, fmt.Errorf("%w: partition name %q: letters, digits and underscores, beginning with a letter", ErrOptions, name)
	}
	p.folders = hudi.Partitioning{Field: o.PartitionName, Hive: !o.BareFolders, Escape: !o.PlainFolders}
	p.none.path = p.folders.Path("", true)
	return p, nil
}

// timeLayout is a partition format as package time has it. The letters are
// those of Java's date formats: yyyy, MM, dd, HH, mm, with "-", "_" and "."
// between them.
func timeLayout(format string) (string, error) {
	words := []struct{ java, layout string }{{"yyyy", "2006"}, {"MM", "01"}, {"dd", "02"}, {"HH", "15"}, {"mm", "04"},
		{"-", "-"}, {"_", "_"}, {".", "."}}
	var layout strings.Builder
next:
	for rest := format; rest != ""; {
		for _, w := range words {
			if after, ok := strings.CutPrefix(rest, w.java); ok {
				layout.WriteString(w.layout)
				rest = after
				continue next
			}
		}
		hint := "use yyyy, MM, dd, HH, mm and - _ . between them"
		if rest[0] == '/' {
			hint = "a slash would open a folder inside a folder; use - or nothing between the parts"
		}
		return "", fmt.Errorf("%w: partition format %q at %q: %s", ErrOptions, format, rest, hint)
	}
	return layout.String(), nil
}

// unit is the number of seconds within which a layout gives one text.
func unit(layout string) int64 {
	const minute, hour, day = 60, 3600, 86400
	switch {
	case strings.Contains(layout, "04"):
		return minute
	case strings.Contains(layout, "15"):
		return hour
	}
	return day
}

// of is the partition of a value, false for the default partition.
func (p *partitioner) of(body []byte, t *token) (partition, bool) {
	if p.layout != "" {
		return p.moment(p.time(body, t))
	}
	p.buf = p.buf[:0]
	if p.text(body, t); len(p.buf) == 0 {
		return p.none, false
	}
	made, known := p.texts[string(p.buf)]
	if !known {
		made = remember(p.texts, string(p.buf), p.folder(string(p.buf)))
	}
	return made, made.path != p.none.path
}

// moment is the partition of a point in time.
func (p *partitioner) moment(at time.Time, ok bool) (partition, bool) {
	if !ok {
		return p.none, false
	}
	_, offset := at.Zone()
	n := at.Unix() + int64(offset)
	key := n / p.unit
	if n%p.unit < 0 {
		key--
	}
	made, known := p.moments[key]
	if !known {
		made = remember(p.moments, key, p.folder(at.Format(p.layout)))
	}
	return made, made.path != p.none.path
}

func remember[K comparable](known map[K]partition, key K, made partition) partition {
	if len(known) >= maxKnown {
		clear(known)
	}
	known[key] = made
	return made
}

// folder is the partition of a text: the default one when no folder can hold
// it.
func (p *partitioner) folder(value string) partition {
	if !p.folders.Holds(value) {
		return p.none
	}
	return partition{hudi.String(value), p.folders.Path(value, false)}
}

// text appends the text of a value that has a plain one.
func (p *partitioner) text(body []byte, t *token) {
	switch t.kind {
	case tokenString:
		p.buf = append(p.buf, t.text(body)...)
	case tokenEscaped:
		p.buf = appendUnescaped(p.buf, t.text(body))
	case tokenLong, tokenBig, tokenTrue, tokenFalse:
		p.buf = append(p.buf, body[t.start:t.end]...)
	default:
	}
}

// time is the point in time that a value stands for: RFC 3339, a plain date
// (taken as it is, whatever the zone), or epoch seconds or milliseconds.
func (p *partitioner) time(body []byte, t *token) (time.Time, bool) {
	switch t.kind {
	case tokenLong:
		return p.epoch(t.long)
	case tokenFloat:
		f, ok := exactDouble(body[t.start:t.end])
		if !ok || math.Abs(f) >= maxExactLong {
			return time.Time{}, false
		}
		return p.epoch(int64(math.Floor(f)))
	case tokenString, tokenEscaped:
		p.text(body, t)
		text := p.buf
		p.buf = p.buf[:0]
		return p.parse(text)
	default:
		return time.Time{}, false
	}
}

func (p *partitioner) parse(text []byte) (time.Time, bool) {
	const date = "2006-01-02"
	if len(text) == len(date) && text[4] == '-' {
		at, err := time.Parse(date, shared(text))
		if err != nil {
			return time.Time{}, false
		}
		return inYears(at)
	}
	if n, ok := digits(text); ok {
		return p.epoch(n)
	}
	var at time.Time
	if err := at.UnmarshalText(text); err != nil {
		return time.Time{}, false
	}
	return inYears(at.In(p.zone))
}

// digits is the number of a text of digits alone.
func digits(text []byte) (int64, bool) {
	const most = 18
	if len(text) == 0 || len(text) > most {
		return 0, false
	}
	var n int64
	for _, c := range text {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = n*10 + int64(c-'0')
	}
	return n, true
}

// epoch takes numbers of nine to eleven digits as seconds and longer ones as
// milliseconds. Shorter ones would lie before March 1973 and are rather years
// or dates, 2024 or 20240105: they are not guessed at.
func (p *partitioner) epoch(n int64) (time.Time, bool) {
	const least, seconds = 100_000_000, 100_000_000_000
	m := max(n, -n)
	switch {
	case m < least:
		return time.Time{}, false
	case m < seconds:
		return inYears(time.Unix(n, 0).In(p.zone))
	default:
		return inYears(time.UnixMilli(n).In(p.zone))
	}
}

// inYears refuses what has no four-digit year.
func inYears(at time.Time) (time.Time, bool) {
	y := at.Year()
	return at, y >= 1 && y <= 9999
}
