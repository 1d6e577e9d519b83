package hudi

import (
	"errors"
	"fmt"
	"time"
)

// Time is an instant time of the timeline, "yyyyMMddHHmmssSSS" in the zone of
// the table (UTC for tables that we create). Tables of old releases also hold
// 14-digit times, which compare as if 999 were appended. Instant times compare
// as strings; use Compare.
type Time string

// ErrTime marks text that is not an instant time.
var ErrTime = errors.New("not an instant time")

const (
	timeDigits       = 17
	timeDigitsOld    = 14
	timeLayoutSecond = "20060102150405"
)

// FormatTime is the instant time of t, to the millisecond, in UTC.
func FormatTime(t time.Time) Time {
	t = t.UTC()
	return Time(fmt.Sprintf("%s%03d", t.Format(timeLayoutSecond), t.Nanosecond()/int(time.Millisecond)))
}

// ParseTime checks that s is made of digits and returns it as an instant time.
// Hudi's own special times (00000000000001 and the like) are accepted.
func ParseTime(s string) (Time, error) {
	if len(s) != timeDigits && len(s) != timeDigitsOld {
		return "", fmt.Errorf("%w: %q has %d digits, want %d", ErrTime, s, len(s), timeDigits)
	}
	if !digits(s) {
		return "", fmt.Errorf("%w: %q", ErrTime, s)
	}
	return Time(s), nil
}

// Clock is the wall-clock time of t in UTC, to the millisecond.
func (t Time) Clock() (time.Time, error) {
	s := string(t.padded())
	if len(s) != timeDigits {
		return time.Time{}, fmt.Errorf("%w: %q", ErrTime, string(t))
	}
	c, err := time.Parse(timeLayoutSecond+".000", s[:timeDigitsOld]+"."+s[timeDigitsOld:])
	if err != nil {
		return time.Time{}, fmt.Errorf("%w: %q", ErrTime, string(t))
	}
	return c, nil
}

// Next is the smallest instant time after t.
func (t Time) Next() (Time, error) {
	c, err := t.Clock()
	if err != nil {
		return "", err
	}
	return FormatTime(c.Add(time.Millisecond)), nil
}

// Compare orders instant times: negative when t is before o. The empty Time is
// before all others.
func (t Time) Compare(o Time) int {
	a, b := t.padded(), o.padded()
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

// Before says whether t is earlier than o.
func (t Time) Before(o Time) bool { return t.Compare(o) < 0 }

// After says whether t is later than o.
func (t Time) After(o Time) bool { return t.Compare(o) > 0 }

func (t Time) padded() Time {
	if len(t) == timeDigitsOld {
		return t + "999"
	}
	return t
}

func digits(s string) bool {
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return false
		}
	}
	return s != ""
}
