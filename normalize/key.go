package normalize

import (
	"strings"

	"github.com/couch2hudi/couch2hudi/changes"
	"github.com/couch2hudi/couch2hudi/hudi"
)

// Key is the record key of a document in a table of many databases: the database, a
// slash, and the _id. Both may have slashes of their own; those of the database are
// written as CouchDB's URLs write them, %2F, and a percent sign, which no name of
// CouchDB's has, as %25. So the first slash ends the database, and no two documents
// have one key.
func Key(database, id string) string { return KeyPrefix(database) + id }

// KeyPrefix is what the keys of a database's documents begin with, and no others.
func KeyPrefix(database string) string { return escapes().Replace(database) + "/" }

// SplitKey is the database and the _id that a Key is of; false when it is none.
func SplitKey(key string) (database, id string, ok bool) {
	database, id, ok = strings.Cut(key, "/")
	if strings.Contains(database, "%") {
		database = strings.NewReplacer("%2F", "/", "%25", "%").Replace(database)
	}
	return database, id, ok
}

func escapes() *strings.Replacer { return strings.NewReplacer("%", "%25", "/", "%2F") }

// recordKey is the record key of a change.
func (n *Normalizer) recordKey(c *changes.Change) string {
	if !n.o.Databases {
		return c.ID
	}
	if c.Database != n.prefixed {
		n.prefixed, n.prefix = c.Database, KeyPrefix(c.Database)
	}
	return n.prefix + c.ID
}

// KeyColumn is the column of the record key of a table that is of many databases, or of one.
func KeyColumn(databases bool) string {
	if databases {
		return hudi.ColumnKey
	}
	return hudi.ColumnID
}
