package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/couch2hudi/couch2hudi/hudi"
)

// bound says how a prefix of an instant is filled up: the beginning or the end
// of the time that it names.
type bound byte

const (
	padDown bound = '0'
	padUp   bound = '9'
)

const (
	instantDigits = 17
	// earliest is before all commits.
	earliest = "earliest"
)

// parseInstant reads a point of the timeline as users write it: an instant, a
// prefix of one, RFC 3339, "earliest", or a duration ago such as -15m.
func parseInstant(s string, pad bound, now time.Time) (hudi.Time, error) {
	switch {
	case s == earliest:
		return hudi.Time(strings.Repeat("0", instantDigits)), nil
	case strings.HasPrefix(s, "-"):
		d, err := time.ParseDuration(s)
		if err != nil {
			return "", fmt.Errorf("%q is no duration such as -15m or -24h", s)
		}
		return hudi.FormatTime(now.Add(d)), nil
	case isDigits(s) && len(s) >= len("2006") && len(s) <= instantDigits:
		return hudi.Time(s + strings.Repeat(string(pad), instantDigits-len(s))), nil
	}
	t, err := time.Parse(time.RFC3339, s)
	if err != nil {
		return "", fmt.Errorf("%q is no instant (yyyyMMddHHmmssSSS or a prefix of one), RFC 3339 time, duration ago (-15m) or \"earliest\"", s)
	}
	return hudi.FormatTime(t), nil
}

func isDigits(s string) bool {
	return s != "" && strings.Trim(s, "0123456789") == ""
}
