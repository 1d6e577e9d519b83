package hudi

import (
	"cmp"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// ErrName marks a file name that is not of the kind asked for.
var ErrName = errors.New("not a file name of a table")

// BaseFileName is the name of a base file: <fileId>_<writeToken>_<instant>.parquet.
type BaseFileName struct {
	File    FileID
	Token   string
	Instant Time
}

const baseFileSuffix = ".parquet"

// String is the name as it stands in storage.
func (n BaseFileName) String() string {
	return string(n.File) + "_" + n.Token + "_" + string(n.Instant) + baseFileSuffix
}

// ParseBaseFileName reads the name of a Parquet base file.
func ParseBaseFileName(name string) (BaseFileName, error) {
	stem, ok := strings.CutSuffix(name, baseFileSuffix)
	parts := strings.Split(stem, "_")
	if !ok || len(parts) != 3 || !idText(parts[0]) || !idText(parts[1]) || !digits(parts[2]) {
		return BaseFileName{}, fmt.Errorf("%w: %q is no base file", ErrName, name)
	}
	return BaseFileName{File: FileID(parts[0]), Token: parts[1], Instant: Time(parts[2])}, nil
}

// LogFileName is the name of a log file:
// .<fileId>_<instant>.log.<version>_<writeToken>[.cdc]. Up to table version 6
// the instant is the base file's (or that of a pending compaction), from 8 on
// it is the writing commit's own.
type LogFileName struct {
	File    FileID
	Instant Time
	Version int
	Token   string
	CDC     bool
}

const (
	logInfix  = ".log."
	cdcSuffix = ".cdc"
)

// String is the name as it stands in storage.
func (n LogFileName) String() string {
	s := "." + string(n.File) + "_" + string(n.Instant) + logInfix + strconv.Itoa(n.Version)
	if n.Token != "" {
		s += "_" + n.Token
	}
	if n.CDC {
		s += cdcSuffix
	}
	return s
}

// ParseLogFileName reads the name of a log file.
func ParseLogFileName(name string) (LogFileName, error) {
	rest, dot := strings.CutPrefix(name, ".")
	head, tail, ok := strings.Cut(rest, logInfix)
	id, instant, ok2 := strings.Cut(head, "_")
	if !dot || !ok || !ok2 || !idText(id) || !digits(instant) {
		return LogFileName{}, fmt.Errorf("%w: %q is no log file", ErrName, name)
	}
	n := LogFileName{File: FileID(id), Instant: Time(instant)}
	tail, n.CDC = strings.CutSuffix(tail, cdcSuffix)
	version, token, _ := strings.Cut(tail, "_")
	if !digits(version) || (token != "" && !idText(token)) {
		return LogFileName{}, fmt.Errorf("%w: %q is no log file", ErrName, name)
	}
	v, err := strconv.Atoi(version)
	if err != nil {
		return LogFileName{}, fmt.Errorf("%w: %q is no log file", ErrName, name)
	}
	n.Version, n.Token = v, token
	return n, nil
}

// Compare orders log files of a slice as readers do: by instant, version,
// token as text, then suffix.
func (n LogFileName) Compare(o LogFileName) int {
	return cmp.Or(n.Instant.Compare(o.Instant), cmp.Compare(n.Version, o.Version),
		strings.Compare(n.Token, o.Token), strings.Compare(n.String(), o.String()))
}

// File is one stored file of a slice. Size is in bytes.
type File struct {
	Name string
	Size int64
}

// Slice is what readers merge for one file group: a base file and the log
// files on top of it, in reading order.
type Slice struct {
	Location
	// Instant is the slice's base instant: the base file's, or the one in the
	// names of its log files.
	Instant Time
	// Base is the base file; its Name is empty for a slice of logs alone.
	Base File
	Logs []File
	// Compacting is the instant of a pending compaction that covers this
	// slice's base and older logs, or empty. New log files carry it (version 6).
	Compacting Time
}

func idText(s string) bool {
	for i := range len(s) {
		c := s[i]
		if c != '-' && (c < '0' || c > '9') && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') {
			return false
		}
	}
	return s != ""
}
