package hudi

import (
	"errors"
	"fmt"
	"hash/crc32"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// ErrProperties marks a hoodie.properties that cannot be used.
var ErrProperties = errors.New("bad table properties")

// Keys of hoodie.properties that we read or write (docs/format/properties.md).
const (
	PropName               = "hoodie.table.name"
	PropDatabase           = "hoodie.database.name"
	PropType               = "hoodie.table.type"
	PropVersion            = "hoodie.table.version"
	PropLayout             = "hoodie.timeline.layout.version"
	PropArchive            = "hoodie.archivelog.folder"
	PropTimeline           = "hoodie.timeline.path"
	PropHistory            = "hoodie.timeline.history.path"
	PropBaseFormat         = "hoodie.table.base.file.format"
	PropKeyFields          = "hoodie.table.recordkey.fields"
	PropPartitionFields    = "hoodie.table.partition.fields"
	PropPrecombine         = "hoodie.table.precombine.field"
	PropOrdering           = "hoodie.table.ordering.fields"
	PropPayload            = "hoodie.compaction.payload.class"
	PropMergerStrategy     = "hoodie.compaction.record.merger.strategy"
	PropMergeMode          = "hoodie.record.merge.mode"
	PropMergeStrategy      = "hoodie.record.merge.strategy.id"
	PropPartialUpdate      = "hoodie.table.partial.update.mode"
	PropDeleteField        = "hoodie.record.merge.property.hoodie.payload.delete.field"
	PropKeyGenerator       = "hoodie.table.keygenerator.class"
	PropKeyGeneratorType   = "hoodie.table.keygenerator.type"
	PropHiveStyle          = "hoodie.datasource.write.hive_style_partitioning"
	PropURLEncode          = "hoodie.datasource.write.partitionpath.urlencode"
	PropDropPartition      = "hoodie.datasource.write.drop.partition.columns"
	PropMetaFields         = "hoodie.populate.meta.fields"
	PropMetafileBase       = "hoodie.partition.metafile.use.base.format"
	PropZone               = "hoodie.table.timeline.timezone"
	PropCreateSchema       = "hoodie.table.create.schema"
	PropCDC                = "hoodie.table.cdc.enabled"
	PropCDCMode            = "hoodie.table.cdc.supplemental.logging.mode"
	PropMetadata           = "hoodie.table.metadata.partitions"
	PropMetadataInflight   = "hoodie.table.metadata.partitions.inflight"
	PropBootstrapBase      = "hoodie.bootstrap.base.path"
	PropChecksum           = "hoodie.table.checksum"
	PropMultipleBaseFormat = "hoodie.table.multiple.base.file.formats.enable"

	// Settings of Hudi's writers, which take them from the table where it has
	// them. Hudi itself does not keep them there.
	PropIndexType = "hoodie.index.type"
	PropBuckets   = "hoodie.bucket.index.num.buckets"
	PropHashField = "hoodie.bucket.index.hash.field"
	PropWriteKey  = "hoodie.datasource.write.recordkey.field"

	// PropChangelog is ours: the table's files say of each row what was done to it.
	// Hudi has a setting of its writers for it, which it would take from here for
	// its own rows.
	PropChangelog = "couch2hudi.changelog"
	// PropWriteOperation is a writer's setting that Spark's compactions take from the
	// table: without it they show rows again whose files say that they were deleted.
	PropWriteOperation = "hoodie.allow.operation.metadata.field"
)

// Properties are the settings of a table as hoodie.properties holds them. They
// are immutable; the zero value holds none.
type Properties struct{ values map[string]string }

// MakeProperties are the given settings.
func MakeProperties(values map[string]string) Properties {
	return Properties{values: maps.Clone(values)}
}

// Lookup is the value of a key and whether there is one.
func (p Properties) Lookup(key string) (string, bool) {
	v, ok := p.values[key]
	return v, ok
}

// Get is the value of a key, "" when there is none.
func (p Properties) Get(key string) string { return p.values[key] }

// Keys are all keys, sorted.
func (p Properties) Keys() []string { return slices.Sorted(maps.Keys(p.values)) }

// Len is the number of settings.
func (p Properties) Len() int { return len(p.values) }

// With is p with one setting changed or added.
func (p Properties) With(key, value string) Properties {
	n := make(map[string]string, len(p.values)+1)
	maps.Copy(n, p.values)
	n[key] = value
	return Properties{values: n}
}

// Flag is the boolean value of a key, or what is the default when the key is
// absent or empty. Hudi takes anything but "true" for false.
func (p Properties) Flag(key string, absent bool) bool {
	v := strings.TrimSpace(p.values[key])
	if v == "" {
		return absent
	}
	return strings.EqualFold(v, "true")
}

// List is the comma-separated value of a key, without empty entries.
func (p Properties) List(key string) []string {
	var list []string
	for e := range strings.SplitSeq(p.values[key], ",") {
		if e = strings.TrimSpace(e); e != "" {
			list = append(list, e)
		}
	}
	return list
}

// Version is the table version; absent means 0 as for Hudi.
func (p Properties) Version() (Version, error) {
	v, ok := p.values[PropVersion]
	if !ok {
		return 0, nil
	}
	n, err := strconv.Atoi(strings.TrimSpace(v))
	if err != nil || n < 0 {
		return 0, fmt.Errorf("%w: %s is %q, not a number", ErrProperties, PropVersion, v)
	}
	return Version(n), nil
}

// OrderingFields are the columns that decide between two versions of a key.
// Hudi 1.1 and later write only the newer key, older ones know only the other.
func (p Properties) OrderingFields() []string {
	if f := p.List(PropOrdering); len(f) > 0 {
		return f
	}
	return p.List(PropPrecombine)
}

// Checksum is what hoodie.table.checksum must hold: the CRC-32 of database and
// table name, unsigned decimal. Nothing else of the file enters.
func (p Properties) Checksum() string {
	sum := crc32.ChecksumIEEE([]byte(p.values[PropDatabase] + "." + p.values[PropName]))
	return strconv.FormatUint(uint64(sum), 10)
}

// CheckSum says whether the stored checksum is there and right. Hudi stores it
// with every change, so that a file cut short is known by its absence.
func (p Properties) CheckSum() error {
	stored, ok := p.values[PropChecksum]
	if !ok {
		return fmt.Errorf("%w: no %s", ErrProperties, PropChecksum)
	}
	if want := p.Checksum(); strings.TrimSpace(stored) != want {
		return fmt.Errorf("%w: %s is %q, the names of database and table give %s", ErrProperties, PropChecksum, stored, want)
	}
	return nil
}

// Partitioning is how the table's partition folders are named. Only a table
// with at most one partition field has one.
func (p Properties) Partitioning() (Partitioning, error) {
	fields := p.List(PropPartitionFields)
	if len(fields) > 1 {
		return Partitioning{}, fmt.Errorf("%w: %d partition fields, at most one is supported", ErrProperties, len(fields))
	}
	if len(fields) == 0 {
		return Partitioning{}, nil
	}
	// The custom key generator stores "field:SIMPLE".
	field, _, _ := strings.Cut(fields[0], ":")
	return Partitioning{Field: field, Hive: p.Flag(PropHiveStyle, false), Escape: p.Flag(PropURLEncode, false)}, nil
}
