package storage

import (
	"fmt"
	"strings"
)

// MaxNameBytes is the longest name a Bucket takes: the limit of S3 and GCS.
const MaxNameBytes = 1024

// CheckName says whether a Bucket takes name: relative, at most MaxNameBytes,
// parts between "/" that are neither empty nor "." nor "..", and no NUL. All
// other bytes are allowed. The error is an ErrName that quotes the name.
func CheckName(name string) error {
	if why := nameDefect(name); why != "" {
		return fmt.Errorf("%w: %q %s", ErrName, abbreviate(name), why)
	}
	return nil
}

// checkPrefix is CheckName for the prefix of a list, whose last part may be
// the beginning of a part, or empty.
func checkPrefix(prefix string) error {
	// With a letter appended the unfinished part is a part like any other.
	if why := nameDefect(prefix + "x"); why != "" {
		return fmt.Errorf("%w: prefix %q %s", ErrName, abbreviate(prefix), why)
	}
	return nil
}

// nameDefect is what is wrong with name, or "".
func nameDefect(name string) string {
	if name == "" {
		return "is empty"
	}
	if len(name) > MaxNameBytes {
		return fmt.Sprintf("has %d bytes, more than %d", len(name), MaxNameBytes)
	}
	if strings.IndexByte(name, 0) >= 0 {
		return "holds a NUL"
	}
	if name[0] == '/' {
		return "is not relative"
	}
	for part := range strings.SplitSeq(name, "/") {
		switch part {
		case "":
			return "has an empty part"
		case ".", "..":
			return "has a part " + part
		}
	}
	return ""
}

// abbreviate keeps a name that is too long from filling the log.
func abbreviate(name string) string {
	const most = 120
	if len(name) <= MaxNameBytes {
		return name
	}
	return name[:most] + "…"
}
