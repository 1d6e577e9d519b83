package normalize

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// Formats of timestamps beside patterns.
const (
	// FormatRFC3339 is 2024-01-05T10:00:00.5+01:00.
	FormatRFC3339 = "rfc3339"
	// FormatSeconds and FormatMillis are numbers counted from 1970-01-01T00:00:00Z.
	FormatSeconds = "epoch-seconds"
	FormatMillis  = "epoch-milliseconds"
	// formatDay is how dates are written unless a declaration says otherwise.
	formatDay = "yyyy-MM-dd"
)

// Spark refuses to read earlier ones than these from files that it did not write
// (its calendar changed: SPARK-31404), and later ones have no four-digit year.
const (
	leastMicros = -2_208_988_800_000_000  // 1900-01-01T00:00:00Z
	mostMicros  = 253_402_300_799_999_999 // 9999-12-31T23:59:59.999999Z
	leastDay    = -141_427                // 1582-10-15
	mostDay     = 2_932_896               // 9999-12-31
	daySeconds  = 86_400
	microsPower = 6
)

// moments reads points in time of one format.
type moments struct {
	format  string
	pattern []part
}

// part is one part of a pattern: a number of fixed width, or text as it is.
type part struct {
	// letter is y, M, d, H, m, s, S, X, or 0 for text.
	letter byte
	width  int
	text   string
}

func newMoments(format string, day bool) (*moments, error) {
	m := &moments{format: format}
	switch format {
	case FormatRFC3339, FormatSeconds, FormatMillis:
		if day {
			return nil, fmt.Errorf("format %q is for timestamps; a date's is a pattern such as %s", format, formatDay)
		}
		return m, nil
	}
	var err error
	if m.pattern, err = parsePattern(format); err != nil {
		return nil, err
	}
	if day && strings.ContainsAny(format, "HmsSX") {
		return nil, fmt.Errorf("format %q holds more than a date", format)
	}
	return m, nil
}

// parsePattern reads a pattern of Java's letters: yyyy, MM, dd, HH, mm, ss, S to
// SSSSSS, X (Z or an offset). Text between single quotes, and all that is no
// letter, stands for itself.
func parsePattern(format string) ([]part, error) {
	widths := map[byte]int{'y': 4, 'M': 2, 'd': 2, 'H': 2, 'm': 2, 's': 2, 'X': 1}
	var parts []part
	seen := map[byte]bool{}
	for rest := format; rest != ""; {
		c := rest[0]
		n := 1
		for n < len(rest) && rest[n] == c {
			n++
		}
		width, known := widths[c]
		switch {
		case c == '\'':
			text, after, closed := strings.Cut(rest[1:], "'")
			if !closed {
				return nil, fmt.Errorf("format %q: a quote is not closed", format)
			}
			parts, rest = append(parts, part{text: text}), after
			continue
		case !letterByte(c):
			parts, rest = append(parts, part{text: rest[:1]}), rest[1:]
			continue
		case c == 'S' && n > microsPower:
			return nil, fmt.Errorf("format %q: a timestamp has microseconds, SSSSSS at most", format)
		case (c != 'S' && !known) || (known && width != n) || seen[c]:
			return nil, fmt.Errorf("format %q at %q: it is %s, %s, %s, or a pattern of yyyy MM dd HH mm ss S X, each once, and 'text'",
				format, rest, FormatRFC3339, FormatSeconds, FormatMillis)
		}
		seen[c] = true
		parts, rest = append(parts, part{letter: c, width: n}), rest[n:]
	}
	if !seen['y'] || !seen['M'] || !seen['d'] {
		return nil, fmt.Errorf("format %q: yyyy, MM or dd is missing", format)
	}
	return parts, nil
}

func letterByte(c byte) bool { return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' }

// micros is a value's point in time in microseconds; false when the value is
// none, or one that microseconds cannot tell exactly.
func (m *moments) micros(n *Normalizer, body []byte, t *token) (int64, bool) {
	var us int64
	var ok bool
	switch m.format {
	case FormatSeconds:
		us, ok = scaled(body, t, microsPower)
	case FormatMillis:
		us, ok = scaled(body, t, microsPower/2)
	default:
		if t.kind != tokenString && t.kind != tokenEscaped {
			return 0, false
		}
		us, ok = m.parse(n.plain(t))
	}
	return us, ok && us >= leastMicros && us <= mostMicros
}

// scaled is a number times 10^power, if that is an integer.
func scaled(body []byte, t *token, power int) (int64, bool) {
	if t.kind == tokenLong {
		factor := int64(math.Pow10(power))
		return t.long * factor, t.long <= mostMicros/factor && t.long >= leastMicros/factor
	}
	if t.kind != tokenFloat {
		return 0, false
	}
	const most = 18 // digits that an int64 holds
	text := body[t.start:t.end]
	var buf [64]byte
	digits, exp := decimal(buf[:0], text)
	zeros := exp - len(digits) + power
	switch {
	case len(digits) == 0:
		return 0, true
	case zeros < 0 || exp+power > most:
		return 0, false
	}
	var v int64
	for _, c := range digits {
		v = v*10 + int64(c-'0')
	}
	v *= int64(math.Pow10(zeros))
	if text[0] == '-' {
		v = -v
	}
	return v, true
}

// parse reads a text by RFC 3339 or the pattern.
func (m *moments) parse(text []byte) (int64, bool) {
	var at time.Time
	if m.format == FormatRFC3339 {
		if err := at.UnmarshalText(text); err != nil {
			return 0, false
		}
	} else {
		var ok bool
		if at, ok = matchPattern(m.pattern, text); !ok {
			return 0, false
		}
	}
	return at.UnixMicro(), at.Nanosecond()%1000 == 0
}

// day is a value's day, counted from 1970-01-01.
func (m *moments) day(n *Normalizer, t *token) (int32, bool) {
	if t.kind != tokenString && t.kind != tokenEscaped {
		return 0, false
	}
	at, ok := matchPattern(m.pattern, n.plain(t))
	if !ok {
		return 0, false
	}
	d := at.Unix() / daySeconds
	if at.Unix()%daySeconds < 0 {
		d--
	}
	return int32(d), d >= leastDay && d <= mostDay
}

// matchPattern reads a text by a pattern, in UTC unless the pattern has an offset.
func matchPattern(parts []part, text []byte) (time.Time, bool) {
	value := map[byte]int{'M': 1, 'd': 1}
	for i := range parts {
		p := &parts[i]
		switch p.letter {
		case 0:
			if len(text) < len(p.text) || string(text[:len(p.text)]) != p.text {
				return time.Time{}, false
			}
			text = text[len(p.text):]
		case 'X':
			seconds, n, ok := offset(text)
			if !ok {
				return time.Time{}, false
			}
			value['X'], text = seconds, text[n:]
		default:
			if len(text) < p.width {
				return time.Time{}, false
			}
			v, ok := digits(text[:p.width])
			if !ok {
				return time.Time{}, false
			}
			if p.letter == 'S' {
				v *= int64(math.Pow10(9 - p.width)) //nolint:mnd // nanoseconds
			}
			value[p.letter], text = int(v), text[p.width:]
		}
	}
	at := time.Date(value['y'], time.Month(value['M']), value['d'], value['H'], value['m'], value['s'], value['S'], time.UTC)
	exact := at.Year() == value['y'] && int(at.Month()) == value['M'] && at.Day() == value['d'] &&
		at.Hour() == value['H'] && at.Minute() == value['m'] && at.Second() == value['s']
	return at.Add(-time.Duration(value['X']) * time.Second), exact && len(text) == 0
}

// offset reads Z or +hh:mm at the beginning of a text.
func offset(text []byte) (seconds, length int, ok bool) {
	const long = 6
	if len(text) > 0 && text[0] == 'Z' {
		return 0, 1, true
	}
	if len(text) < long || (text[0] != '+' && text[0] != '-') || text[3] != ':' {
		return 0, 0, false
	}
	h, ok1 := digits(text[1:3])
	m, ok2 := digits(text[4:long])
	if !ok1 || !ok2 || h > 18 || m > 59 {
		return 0, 0, false
	}
	seconds = int(h*3600 + m*60)
	if text[0] == '-' {
		seconds = -seconds
	}
	return seconds, long, true
}

// append writes a point in time as the format's own words have it: with
// milliseconds and Z for RFC 3339, as JavaScript does.
func (m *moments) append(dst []byte, us int64) []byte {
	at := time.UnixMicro(us).UTC()
	switch m.format {
	case FormatRFC3339:
		return at.AppendFormat(dst, "2006-01-02T15:04:05.000Z")
	case FormatSeconds:
		return appendScaled(dst, us, microsPower)
	case FormatMillis:
		return appendScaled(dst, us, microsPower/2)
	}
	for i := range m.pattern {
		p := &m.pattern[i]
		if p.letter == 0 {
			dst = append(dst, p.text...)
			continue
		}
		if p.letter == 'X' {
			dst = append(dst, 'Z')
			continue
		}
		v := map[byte]int{'y': at.Year(), 'M': int(at.Month()), 'd': at.Day(), 'H': at.Hour(), 'm': at.Minute(), 's': at.Second(),
			'S': at.Nanosecond() / int(math.Pow10(9-p.width))}[p.letter]
		dst = fmt.Appendf(dst, "%0*d", p.width, v)
	}
	return dst
}

// appendScaled writes v / 10^power with no more digits than it needs.
func appendScaled(dst []byte, v int64, power int) []byte {
	unit := int64(math.Pow10(power))
	if v < 0 {
		dst, v = append(dst, '-'), -v
	}
	dst = strconv.AppendInt(dst, v/unit, 10)
	if v%unit == 0 {
		return dst
	}
	fraction := fmt.Sprintf(".%0*d", power, v%unit)
	return append(dst, strings.TrimRight(fraction, "0")...)
}
