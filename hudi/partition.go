package hudi

import (
	"fmt"
	"strings"
)

// Partitioning is how a table names its partition folders. The zero value is
// that of a table without partitions.
type Partitioning struct {
	// Field is the partition column.
	Field string
	// Hive names folders "field=value", otherwise "value".
	Hive bool
	// Escape writes characters that mean something in paths as %XX.
	Escape bool
}

// OurPartitioning is how tables that we create name their folders: hive style
// and escaped. Hive style, since a folder whose name begins with an underscore,
// as that of the default partition would, is hidden from Hadoop's readers.
// Escaped, since readers unescape hive-style names: without it a value with a
// "%" would come back changed, and one with a "/" would open a folder below,
// in which readers do not look. A value that needs no escape gives the same
// folder either way.
func OurPartitioning(field string) Partitioning {
	return Partitioning{Field: field, Hive: field != "", Escape: field != ""}
}

// PartitionPath is the folder of one value in a table that we created; a null
// or empty value lives in the default partition. Without a field it is "".
func PartitionPath(field, value string, null bool) string {
	return OurPartitioning(field).Path(value, null)
}

// PartitionValue is the value of a folder in a table that we created; null for
// the default partition.
func PartitionValue(path string) (value string, null bool, err error) {
	field, _, ok := strings.Cut(path, "=")
	if !ok {
		return "", false, fmt.Errorf("%w: %q is no partition folder \"field=value\"", ErrName, path)
	}
	return OurPartitioning(field).Value(path)
}

// Path is the folder of a value, "" in a table without partitions. A null or
// empty value lives in the default partition.
func (p Partitioning) Path(value string, null bool) string {
	if p.Field == "" {
		return ""
	}
	switch {
	case null || value == "":
		value = DefaultPartition
	case p.Escape:
		value = escapePath(value)
	}
	if p.Hive {
		return p.Field + "=" + value
	}
	return value
}

// Holds says whether a value can have a folder of its own, one level deep, that
// readers look into and unescape to the same value. The rows of other values
// belong into the default partition.
//
// A NUL byte is in no folder's name. Without Escape, nothing that would be
// escaped can be told apart later, and a slash opens a folder below. Without
// Hive, a name that begins with an underscore or a dot is hidden from Hadoop's
// readers, ".hoodie" is the table's own, and ".." leads out of the table.
func (p Partitioning) Holds(value string) bool {
	if value == "" || strings.IndexByte(value, 0) >= 0 || value == DefaultPartition {
		return false
	}
	if !p.Hive && (value[0] == '_' || value[0] == '.') {
		return false
	}
	const longest = 255 // bytes of a name, on most file systems
	return (p.Escape || escapePath(value) == value) && len(p.Path(value, false)) <= longest
}

// Value is the value that a folder stands for, null for the default partition
// and for a table without partitions.
func (p Partitioning) Value(path string) (value string, null bool, err error) {
	if p.Field == "" {
		if path != "" {
			return "", false, fmt.Errorf("%w: partition %q of a table without partitions", ErrName, path)
		}
		return "", true, nil
	}
	value = path
	if p.Hive {
		var ok bool
		if value, ok = strings.CutPrefix(path, p.Field+"="); !ok {
			return "", false, fmt.Errorf("%w: partition folder %q does not begin with \"%s=\"", ErrName, path, p.Field)
		}
	}
	if value == DefaultPartition {
		return "", true, nil
	}
	if value == "" {
		return "", false, fmt.Errorf("%w: partition folder %q has no value", ErrName, path)
	}
	if p.Escape {
		value = unescapePath(value)
	}
	return value, false, nil
}

// escapePath escapes as Hudi and Hive do. NUL, which they leave alone, cannot
// be in the name of a folder at all, so that escaping it costs no agreement.
func escapePath(s string) string {
	const hex = "0123456789ABCDEF"
	var b strings.Builder
	for i := range len(s) {
		c := s[i]
		if c < ' ' || strings.IndexByte("\x7F\"#%'*/:=?\\{[]^", c) >= 0 {
			b.WriteByte('%')
			b.WriteByte(hex[c>>4])
			b.WriteByte(hex[c&0xF])
			continue
		}
		b.WriteByte(c)
	}
	return b.String()
}

// unescapePath leaves alone a % that no two hex digits follow, as Hive does.
func unescapePath(s string) string {
	if !strings.Contains(s, "%") {
		return s
	}
	b := make([]byte, 0, len(s))
	for i := 0; i < len(s); i++ {
		if s[i] == '%' && i+2 < len(s) {
			hi, lo := unhex(s[i+1]), unhex(s[i+2])
			if hi >= 0 && lo >= 0 {
				b = append(b, byte(hi<<4|lo))
				i += 2
				continue
			}
		}
		b = append(b, s[i])
	}
	return string(b)
}

func unhex(c byte) int {
	switch {
	case c >= '0' && c <= '9':
		return int(c - '0')
	case c >= 'A' && c <= 'F':
		return int(c-'A') + 10
	case c >= 'a' && c <= 'f':
		return int(c-'a') + 10
	}
	return -1
}
