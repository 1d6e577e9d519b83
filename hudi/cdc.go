package hudi

import (
	"fmt"
	"strings"
)

// CDCMode is what the change files of a table hold, "" for a table that keeps
// none (docs/format/cdc.md).
type CDCMode string

// The modes, as hoodie.properties has them.
const (
	CDCOff             CDCMode = ""
	CDCOpKeyOnly       CDCMode = "OP_KEY_ONLY"
	CDCDataBefore      CDCMode = "DATA_BEFORE"
	CDCDataBeforeAfter CDCMode = "DATA_BEFORE_AFTER"
)

// ParseCDCMode reads a mode in any case; "off" and "" are CDCOff.
func ParseCDCMode(s string) (CDCMode, error) {
	switch m := CDCMode(strings.ToUpper(strings.TrimSpace(s))); m {
	case CDCOff, CDCOpKeyOnly, CDCDataBefore, CDCDataBeforeAfter:
		return m, nil
	case "OFF":
		return CDCOff, nil
	}
	return CDCOff, fmt.Errorf("%w: %s is %q, want op_key_only, data_before or data_before_after", ErrProperties, PropCDCMode, s)
}

// CDC is what change files the table keeps. Hudi's default for a table that does
// not say which is all of it.
func (p Properties) CDC() (CDCMode, error) {
	if !p.Flag(PropCDC, false) {
		return CDCOff, nil
	}
	m, err := ParseCDCMode(p.values[PropCDCMode])
	if err == nil && m == CDCOff {
		m = CDCDataBeforeAfter
	}
	return m, err
}

// Op is what a change does to a row, by the letter that Hudi has for it.
type Op byte

// The operations.
const (
	OpInsert Op = 'i'
	OpUpdate Op = 'u'
	OpDelete Op = 'd'
)

// String is the letter.
func (o Op) String() string { return string(rune(o)) }
