package avro

import (
	"strconv"
	"strings"
	"time"
)

// LogicalDecimal is the logical type of decimals.
const LogicalDecimal = logicalDecimal

// AppendNumber appends an int or a long as its type means it: a date as
// 2026-01-31, a point in time as 2026-01-31T12:00:00.25Z, a local one without
// the Z, a time of day as 12:00:00.25, anything else as the number it is. moment
// says that it is no number.
func AppendNumber(dst []byte, t *Type, n int64) (out []byte, moment bool) {
	const daySeconds = 24 * 60 * 60
	at := time.UnixMicro(n).UTC()
	if strings.HasSuffix(t.Logical, "-millis") {
		at = time.UnixMilli(n).UTC()
	}
	switch t.Logical {
	case "date":
		return time.Unix(n*daySeconds, 0).UTC().AppendFormat(dst, time.DateOnly), true
	case "timestamp-millis", "timestamp-micros":
		return at.AppendFormat(dst, time.RFC3339Nano), true
	case "local-timestamp-millis", "local-timestamp-micros":
		return at.AppendFormat(dst, "2006-01-02T15:04:05.999999"), true
	case "time-millis", "time-micros":
		return at.AppendFormat(dst, "15:04:05.999999"), true
	}
	const base = 10
	return strconv.AppendInt(dst, n, base), false
}
