package hudi

import (
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf16"
	"unicode/utf8"
)

// ParseProperties reads a Java properties file: ISO-8859-1 with \uXXXX
// escapes, comments by # and !, lines continued by a backslash at their end,
// keys ended by the first unescaped =, : or blank. Of a key that stands twice
// the last value counts. The file need not hold a table's settings.
func ParseProperties(data []byte) (Properties, error) {
	p := Properties{values: map[string]string{}}
	for number, line := range logicalLines(data) {
		key, value := splitProperty(line)
		k, err := unescapeProperty(key)
		if err != nil {
			return Properties{}, fmt.Errorf("%w: line %d: %w", ErrProperties, number, err)
		}
		v, err := unescapeProperty(value)
		if err != nil {
			return Properties{}, fmt.Errorf("%w: line %d: %w", ErrProperties, number, err)
		}
		p.values[k] = v
	}
	return p, nil
}

const propertyBlanks = " \t\f"

// logicalLines yields the lines that hold settings, continued ones joined,
// with the number of their first line. A line ends at \n, \r or both.
func logicalLines(data []byte) func(yield func(int, string) bool) {
	return func(yield func(int, string) bool) {
		rest, number := string(data), 0
		next := func() (string, bool) {
			if rest == "" {
				return "", false
			}
			number++
			end := strings.IndexAny(rest, "\r\n")
			if end < 0 {
				line := rest
				rest = ""
				return strings.TrimLeft(line, propertyBlanks), true
			}
			line, after := rest[:end], rest[end+1:]
			if rest[end] == '\r' {
				after = strings.TrimPrefix(after, "\n")
			}
			rest = after
			return strings.TrimLeft(line, propertyBlanks), true
		}
		for line, ok := next(); ok; line, ok = next() {
			if line == "" || line[0] == '#' || line[0] == '!' {
				continue
			}
			first := number
			var whole strings.Builder
			for continued(line) {
				whole.WriteString(line[:len(line)-1])
				if line, ok = next(); !ok {
					line = ""
				}
			}
			whole.WriteString(line)
			if !yield(first, whole.String()) {
				return
			}
		}
	}
}

// continued says whether a line ends in an odd number of backslashes.
func continued(line string) bool {
	return (len(line)-len(strings.TrimRight(line, `\`)))%2 == 1
}

func splitProperty(line string) (key, value string) {
	end := len(line)
	for i := 0; i < len(line); i++ {
		if line[i] == '\\' {
			i++
			continue
		}
		if strings.IndexByte("=:"+propertyBlanks, line[i]) >= 0 {
			end = i
			break
		}
	}
	value = strings.TrimLeft(line[end:], propertyBlanks)
	if value != "" && (value[0] == '=' || value[0] == ':') {
		value = strings.TrimLeft(value[1:], propertyBlanks)
	}
	return line[:end], value
}

// unescapeProperty makes UTF-8 of the file's Latin-1 and UTF-16 escapes. A lone
// half of a surrogate pair becomes U+FFFD.
func unescapeProperty(s string) (string, error) {
	units := make([]uint16, 0, len(s))
	for i := 0; i < len(s); i++ {
		if s[i] != '\\' {
			units = append(units, uint16(s[i]))
			continue
		}
		if i++; i == len(s) {
			break
		}
		switch s[i] {
		case 't':
			units = append(units, '\t')
		case 'n':
			units = append(units, '\n')
		case 'r':
			units = append(units, '\r')
		case 'f':
			units = append(units, '\f')
		case 'u':
			const hexDigits = 4
			if len(s)-i-1 < hexDigits {
				return "", fmt.Errorf("unfinished \\u escape in %q", s)
			}
			u, err := strconv.ParseUint(s[i+1:i+1+hexDigits], 16, 16)
			if err != nil {
				return "", fmt.Errorf("bad \\u escape in %q", s)
			}
			units = append(units, uint16(u))
			i += hexDigits
		default:
			units = append(units, uint16(s[i]))
		}
	}
	return string(utf16.Decode(units)), nil
}

// Encode is the file as Hudi writes it, with the two comment lines that it
// puts in front. Keys are sorted, so that equal settings give equal lines.
func (p Properties) Encode(saved time.Time) []byte {
	saved = saved.UTC()
	var b []byte
	b = append(b, "#Properties saved on "+saved.Format("2006-01-02T15:04:05.999999999Z")+"\n"...)
	b = append(b, "#"+saved.Format("Mon Jan 02 15:04:05 UTC 2006")+"\n"...)
	for _, k := range p.Keys() {
		b = appendProperty(b, k, true)
		b = append(b, '=')
		b = appendProperty(b, p.values[k], false)
		b = append(b, '\n')
	}
	return b
}

func appendProperty(b []byte, s string, key bool) []byte {
	for i, r := range s {
		switch {
		case r == ' ':
			if key || i == 0 {
				b = append(b, '\\')
			}
			b = append(b, ' ')
		case r == '\t':
			b = append(b, `\t`...)
		case r == '\n':
			b = append(b, `\n`...)
		case r == '\r':
			b = append(b, `\r`...)
		case r == '\f':
			b = append(b, `\f`...)
		case strings.ContainsRune(`\:=#!`, r):
			b = append(b, '\\', byte(r))
		case r < ' ' || r > '~':
			b = appendUnits(b, r)
		default:
			b = utf8.AppendRune(b, r)
		}
	}
	return b
}

func appendUnits(b []byte, r rune) []byte {
	for _, u := range utf16.AppendRune(nil, r) {
		b = fmt.Appendf(b, `\u%04X`, u)
	}
	return b
}
