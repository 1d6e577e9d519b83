package config

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// Secret is text that is never printed: every way of formatting or encoding it
// gives stars. Reveal is the only way to the text.
type Secret string

const stars = "****"

// String is stars, or empty when the secret is.
func (s Secret) String() string {
	if s == "" {
		return ""
	}
	return stars
}

// GoString is String: %#v prints no secret either.
func (s Secret) GoString() string { return strconv.Quote(s.String()) }

// Format prints stars whatever the verb.
func (s Secret) Format(f fmt.State, verb rune) {
	text := s.String()
	if verb == 'q' || f.Flag('#') {
		text = s.GoString()
	}
	_, _ = f.Write([]byte(text)) // a fmt.State never fails
}

// MarshalText is String, for every encoding that takes text.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// MarshalJSON is String in JSON.
func (s Secret) MarshalJSON() ([]byte, error) { return json.Marshal(s.String()) }

// MarshalYAML is String in YAML.
func (s Secret) MarshalYAML() (any, error) { return s.String(), nil }

// Reveal is the secret's text.
func (s Secret) Reveal() string { return string(s) }

// Duration is a time.Duration that reads "60s", "10m" or "1h30m"; a number
// without a unit is refused.
type Duration time.Duration

// String is like "1m0s".
func (d Duration) String() string { return time.Duration(d).String() }

// MarshalText is String.
func (d Duration) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText reads what time.ParseDuration reads, except a bare 0.
func (d *Duration) UnmarshalText(text []byte) error {
	v, err := time.ParseDuration(string(text))
	if err != nil || !strings.ContainsAny(string(text), "nuµmsh") {
		return fmt.Errorf("%w: %q is no duration such as 60s or 10m", ErrValue, text)
	}
	*d = Duration(v)
	return nil
}

// Size is a number of bytes that reads "128MiB", "64kB", "1.5GiB" or "4096".
type Size int64

// units are the names of sizes, upper-cased; the longest of them must match.
var units = [...]struct {
	name  string
	bytes float64
}{
	{"KIB", 1 << 10}, {"MIB", 1 << 20}, {"GIB", 1 << 30}, {"TIB", 1 << 40},
	{"KB", 1e3}, {"MB", 1e6}, {"GB", 1e9}, {"TB", 1e12}, {"B", 1}, {"", 1},
}

// ParseSize reads a size.
func ParseSize(text string) (Size, error) {
	upper := strings.ToUpper(strings.TrimSpace(text))
	for _, u := range units {
		number, ok := strings.CutSuffix(upper, u.name)
		if !ok {
			continue
		}
		n, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
		if err != nil || strings.ContainsAny(number, "XPIN_E") || n < 0 || n*u.bytes > math.MaxInt64/2 {
			break
		}
		return Size(n * u.bytes), nil
	}
	return 0, fmt.Errorf("%w: %q is no size such as 128MiB or 1.5GB", ErrValue, text)
}

// String is the size in the largest binary unit that it is a multiple of, so
// that ParseSize gives the same back.
func (s Size) String() string {
	name, n := "B", int64(s)
	for _, next := range []string{"KiB", "MiB", "GiB", "TiB"} {
		if n == 0 || n%1024 != 0 {
			break
		}
		name, n = next, n/1024
	}
	return strconv.FormatInt(n, 10) + name
}

// Set reads a size from a flag.
func (s *Size) Set(text string) (err error) {
	*s, err = ParseSize(text)
	return err
}

// Type names a flag's value in help texts.
func (s *Size) Type() string { return "size" }

// MarshalText is String.
func (s Size) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText is Set.
func (s *Size) UnmarshalText(text []byte) error { return s.Set(string(text)) }
