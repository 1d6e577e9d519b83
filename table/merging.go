package table

import (
	"strings"

	"github.com/couch2hudi/couch2hudi/hudi"
)

// The merge modes, and the strategies that stand for them up to version 8.
const (
	modeEventTime      = "EVENT_TIME_ORDERING"
	modeCommitTime     = "COMMIT_TIME_ORDERING"
	modeCustom         = "CUSTOM"
	strategyEventTime  = "eeb8d96f-b1e4-49fd-bbf8-28ac514178e5"
	strategyCommitTime = "ce9acb64-bde0-424c-9b91-f6ebba25356d"
)

// mergeMode is how two versions of a row are merged in a table of version 8 or
// later, by the rules with which Hudi 1.x completes what the properties leave out.
func mergeMode(p hudi.Properties, v hudi.Version) string {
	strategy, payload := p.Get(hudi.PropMergeStrategy), p.Get(hudi.PropPayload)
	if mode := strings.ToUpper(p.Get(hudi.PropMergeMode)); mode != "" {
		return mode
	}
	switch {
	case v == hudi.Version8 && strategy == strategyEventTime:
		return modeEventTime
	case v == hudi.Version8 && strategy == strategyCommitTime:
		return modeCommitTime
	case strategy != "":
		return modeCustom
	}
	switch payload[strings.LastIndexByte(payload, '.')+1:] {
	case "DefaultHoodieRecordPayload", "EventTimeAvroPayload":
		return modeEventTime
	case "OverwriteWithLatestAvroPayload":
		return modeCommitTime
	case "":
	default:
		return modeCustom
	}
	if len(p.OrderingFields()) == 0 {
		return modeCommitTime
	}
	return modeEventTime
}

// checkMerging says why the versions of a row cannot be merged, if they cannot.
func checkMerging(p hudi.Properties, v hudi.Version) error {
	if !v.Completes() || p.Get(hudi.PropType) == copyOnWrite {
		return nil
	}
	const theirs = "read the table with the engine that made it"
	mode := mergeMode(p, v)
	if mode != modeEventTime && mode != modeCommitTime {
		return hinted(ErrUnsupported, theirs, "%s is %s: rows are merged by code of its writer", hudi.PropMergeMode, mode)
	}
	if u := p.Get(hudi.PropPartialUpdate); u != "" && !strings.EqualFold(u, "NONE") {
		return hinted(ErrUnsupported, theirs, "%s=%s", hudi.PropPartialUpdate, u)
	}
	if f := p.Get(hudi.PropDeleteField); f != "" {
		return hinted(ErrUnsupported, theirs, "%s=%s", hudi.PropDeleteField, f)
	}
	if f := p.OrderingFields(); len(f) > 1 && mode == modeEventTime {
		return hinted(ErrUnsupported, theirs, "%d ordering fields, at most one is supported", len(f))
	}
	return nil
}

// ByArrival says that of two versions of a row the later arrival wins, whatever
// their ordering values are. Otherwise the greater value wins.
func (t *Table) ByArrival() bool {
	return t.version.Completes() && mergeMode(t.properties, t.version) == modeCommitTime
}
