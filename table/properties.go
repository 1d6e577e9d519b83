package table

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/couch2hudi/couch2hudi/hudi"
	"github.com/couch2hudi/couch2hudi/storage"
)

const (
	hoodieFolder     = ".hoodie/"
	propertiesName   = hoodieFolder + "hoodie.properties"
	propertiesBackup = hoodieFolder + "hoodie.properties.backup"
	// mergeOnRead is the type of table that we write; the other one has no log files
	// and is read like any.
	mergeOnRead, copyOnWrite = "MERGE_ON_READ", "COPY_ON_WRITE"
	schemaFolder             = hoodieFolder + ".schema/"
	// propertiesLimit bounds what is read: a create schema of thousands of
	// columns has room in it.
	propertiesLimit = 16 << 20
)

// stored is hoodie.properties as found.
type stored struct {
	hudi.Properties
	// fromBackup says that hoodie.properties was missing or broken, and the
	// backup that an interrupted update left was taken.
	fromBackup bool
}

// readProperties reads hoodie.properties, or the backup that Hudi leaves when
// it dies between taking the old file away and writing the new one.
func readProperties(ctx context.Context, b *storage.Bucket) (stored, error) {
	p, err := readPropertiesFile(ctx, b, propertiesName)
	if err == nil && p.CheckSum() == nil {
		return stored{Properties: p}, nil
	}
	if err != nil && !errors.Is(err, storage.ErrNotExist) && !errors.Is(err, hudi.ErrProperties) {
		return stored{}, err
	}
	backup, backupErr := readPropertiesFile(ctx, b, propertiesBackup)
	switch {
	case backupErr == nil && backup.CheckSum() == nil:
		return stored{Properties: backup, fromBackup: true}, nil
	case backupErr != nil && !errors.Is(backupErr, storage.ErrNotExist) && !errors.Is(backupErr, hudi.ErrProperties):
		return stored{}, backupErr
	case errors.Is(err, storage.ErrNotExist) && errors.Is(backupErr, storage.ErrNotExist):
		return stored{}, hinted(ErrNoTable, "check the table's path, or create a table there", "no %s", propertiesName)
	case err == nil:
		// It can be read; a wrong or missing checksum remains.
		if _, has := p.Lookup(hudi.PropChecksum); !has && p.Get(hudi.PropName) != "" {
			return stored{Properties: p}, nil
		}
		err = p.CheckSum()
	}
	return stored{}, hinted(ErrCorrupt, "restore "+propertiesName+" from a copy, or correct the line that the error names",
		"%s: %v", propertiesName, err)
}

func readPropertiesFile(ctx context.Context, b *storage.Bucket, name string) (hudi.Properties, error) {
	data, err := b.ReadAll(ctx, name, propertiesLimit)
	if err != nil {
		return hudi.Properties{}, err
	}
	p, err := hudi.ParseProperties(data)
	if err == nil && p.Len() == 0 {
		err = fmt.Errorf("%w: no settings in it", hudi.ErrProperties)
	}
	return p, err
}

// checkReadable says why a table cannot be read, if it cannot.
func checkReadable(p hudi.Properties) error {
	v, err := p.Version()
	if err != nil {
		return hinted(ErrCorrupt, "restore "+propertiesName+" from a copy", "%v", err)
	}
	if !v.Readable() {
		return hinted(ErrVersion, "use a table of version 6 (hoodie.write.table.version=6 with Hudi 1.x)",
			"version %s; 6 can be read and written, 8 and 9 can be read", v)
	}
	if err := checkLayout(p, v); err != nil {
		return err
	}
	if t := p.Get(hudi.PropType); t != mergeOnRead && t != copyOnWrite {
		return hinted(ErrType, "use another path, or create the table anew as MERGE_ON_READ", "%s is %q", hudi.PropType, t)
	}
	if err := checkMerging(p, v); err != nil {
		return err
	}
	if p.Get(hudi.PropBootstrapBase) != "" {
		return hinted(ErrBootstrapped, "rewrite the table with Hudi first", "%s is set", hudi.PropBootstrapBase)
	}
	const rewrite = "create the table anew with the default of this setting"
	if !p.Flag(hudi.PropMetaFields, true) {
		return hinted(ErrUnsupported, rewrite, "%s=false", hudi.PropMetaFields)
	}
	if p.Flag(hudi.PropDropPartition, false) {
		return hinted(ErrUnsupported, rewrite, "%s=true", hudi.PropDropPartition)
	}
	if f := p.Get(hudi.PropBaseFormat); f != "" && !strings.EqualFold(f, "PARQUET") {
		return hinted(ErrUnsupported, rewrite, "%s=%s", hudi.PropBaseFormat, f)
	}
	if p.Flag(hudi.PropMultipleBaseFormat, false) {
		return hinted(ErrUnsupported, rewrite, "%s=true", hudi.PropMultipleBaseFormat)
	}
	return nil
}

// checkLayout says why the timeline of a table cannot be read, if it cannot.
func checkLayout(p hudi.Properties, v hudi.Version) error {
	want := "1"
	if v.Completes() {
		want = "2"
	}
	if l, ok := p.Lookup(hudi.PropLayout); ok && l != want {
		return hinted(ErrVersion, "restore "+propertiesName+": version "+v.String()+" has layout "+want, "timeline layout %q in a table of version %s", l, v)
	}
	if f := p.Get(hudi.PropTimeline); v.Completes() && f != "" && f != "timeline" {
		return hinted(ErrUnsupported, "create the table anew with the default of this setting", "%s=%s", hudi.PropTimeline, f)
	}
	return nil
}

// checkWritable says why a table cannot be written by us, if it cannot.
func checkWritable(p hudi.Properties) error {
	if v, err := p.Version(); err != nil || v != hudi.Version6 {
		return hinted(ErrVersion, "leave its writing to the engine that made it, or give us a table of version 6 (hoodie.write.table.version=6 with Hudi 1.x)",
			"version %s can be read and not written", v)
	}
	if t := p.Get(hudi.PropType); t != mergeOnRead {
		return hinted(ErrType, "use another path, or create the table anew as MERGE_ON_READ", "%s is %q", hudi.PropType, t)
	}
	if _, ok := p.Lookup(hudi.PropChecksum); !ok {
		return hinted(ErrCorrupt, "restore "+propertiesName+" from a copy", "%s has no %s and may be cut short", propertiesName, hudi.PropChecksum)
	}
	if t := p.Get(hudi.PropType); t != mergeOnRead {
		return hinted(ErrType, "use another path, or create the table anew as MERGE_ON_READ", "%s is %q", hudi.PropType, t)
	}
	if err := checkNoMetadataTable(p); err != nil {
		return err
	}
	const anew = "create the table anew, or leave its writing to the engine that made it"
	if keys := p.List(hudi.PropKeyFields); len(keys) != 1 {
		return hinted(ErrUnsupported, anew, "%d record key fields, want one", len(keys))
	}
	partitions := p.List(hudi.PropPartitionFields)
	if len(partitions) > 1 {
		return hinted(ErrUnsupported, anew, "%d partition fields, want at most one", len(partitions))
	}
	if err := checkKeyGenerator(p, len(partitions) > 0); err != nil {
		return err
	}
	if fields := p.OrderingFields(); len(fields) != 1 {
		return hinted(ErrUnsupported, anew, "%d ordering fields, want one", len(fields))
	}
	payload := p.Get(hudi.PropPayload)
	if i := strings.LastIndexByte(payload, '.'); payload[i+1:] != "DefaultHoodieRecordPayload" && payload[i+1:] != "EventTimeAvroPayload" {
		return hinted(ErrUnsupported, anew, "%s is %q, want the ordering by event time of DefaultHoodieRecordPayload", hudi.PropPayload, payload)
	}
	if _, err := p.CDC(); err != nil {
		return hinted(ErrUnsupported, "set "+hudi.PropCDC+"=false", "%v", err)
	}
	return nil
}

func checkNoMetadataTable(p hudi.Properties) error {
	for _, key := range []string{hudi.PropMetadata, hudi.PropMetadataInflight} {
		if list := p.List(key); len(list) > 0 {
			return hinted(ErrMetadataTable,
				"remove it (delete-metadata-table of hudi-cli) and let other writers run with hoodie.metadata.enable=false",
				"%s=%s", key, strings.Join(list, ","))
		}
	}
	return nil
}

// checkKeyGenerator takes the two generators whose keys are the plain value of
// the key field. Old tables name a class, those of Hudi 1.x a type.
func checkKeyGenerator(p hudi.Properties, partitioned bool) error {
	class, kind := p.Get(hudi.PropKeyGenerator), p.Get(hudi.PropKeyGeneratorType)
	if class == "" && kind == "" {
		return nil // what Hudi infers from the fields is one of the two
	}
	class = strings.TrimSuffix(class[strings.LastIndexByte(class, '.')+1:], "KeyGenerator")
	class = strings.TrimSuffix(class, "Avro")
	kind = strings.TrimSuffix(kind, "_AVRO")
	want := []string{"Nonpartitioned", "NON_PARTITION"}
	if partitioned {
		want = []string{"Simple", "SIMPLE"}
	}
	if (class != "" && class != want[0]) || (kind != "" && !slices.Contains(want, strings.ToUpper(kind))) {
		return hinted(ErrUnsupported, "create the table anew, or leave its writing to the engine that made it",
			"key generator %s%s, want %s", p.Get(hudi.PropKeyGenerator), p.Get(hudi.PropKeyGeneratorType), want[0])
	}
	return nil
}

// checkNoSchemaHistory refuses tables with schema-on-read, whose column ids a
// writer would have to keep.
func checkNoSchemaHistory(ctx context.Context, b *storage.Bucket) error {
	for o, err := range b.List(ctx, schemaFolder) {
		if err != nil {
			return err
		}
		return hinted(ErrUnsupported, "leave its writing to the engine that made it", "the table has a schema history (%s)", o.Name)
	}
	return nil
}

// UpdateProperties changes settings in hoodie.properties as Hudi does: it keeps
// the file as it was beside it, and removes that when the new one stands. It
// needs the Lease; a copy that another update left is Recover's to remove. This
// Table goes on with the settings that it was opened with.
func (t *Table) UpdateProperties(ctx context.Context, values map[string]string) error {
	if err := t.needLease("update the properties"); err != nil {
		return err
	}
	was, err := readProperties(ctx, t.bucket)
	if err != nil {
		return err
	}
	is := was.Properties
	for k, value := range values {
		is = is.With(k, value)
	}
	is = is.With(hudi.PropChecksum, is.Checksum())
	if err := errors.Join(checkReadable(is), checkWritable(is)); err != nil {
		return fmt.Errorf("update %s: %w", propertiesName, err)
	}
	if _, err := t.bucket.PutIfAbsent(ctx, propertiesBackup, was.Encode(t.now())); err != nil {
		if errors.Is(err, storage.ErrExist) {
			return hinted(ErrRecover, "restart the writer: it recovers the table when it starts", "%s is there", propertiesBackup)
		}
		return fmt.Errorf("update %s: %w", propertiesName, err)
	}
	// In place and at once: nobody meets a table without the file.
	if _, err := t.bucket.Put(ctx, propertiesName, is.Encode(t.now())); err != nil {
		return fmt.Errorf("update %s: %w", propertiesName, err)
	}
	return t.bucket.DeleteIfExists(ctx, propertiesBackup)
}

// createProperties are the settings of a new table: those of Hudi 0.15, and
// the newer names of the same things for Hudi 1.x.
func createProperties(c CreateOptions) (hudi.Properties, error) {
	if c.Name == "" {
		return hudi.Properties{}, fmt.Errorf("create table: %w: no name", ErrUnsupported)
	}
	partitioning := hudi.OurPartitioning(c.PartitionField)
	partitioning.Hive = partitioning.Hive && !c.BareFolders
	partitioning.Escape = partitioning.Escape && !c.PlainFolders
	generator := "org.apache.hudi.keygen.NonpartitionedKeyGenerator"
	if c.PartitionField != "" {
		generator = "org.apache.hudi.keygen.SimpleKeyGenerator"
	}
	const eventTime = "eeb8d96f-b1e4-49fd-bbf8-28ac514178e5"
	values := map[string]string{
		hudi.PropName:           c.Name,
		hudi.PropDatabase:       "",
		hudi.PropType:           mergeOnRead,
		hudi.PropVersion:        hudi.Version6.String(),
		hudi.PropLayout:         "1",
		hudi.PropArchive:        "archived",
		hudi.PropBaseFormat:     "PARQUET",
		hudi.PropKeyFields:      or(c.KeyColumn, hudi.ColumnID),
		hudi.PropPrecombine:     or(c.OrderColumn, hudi.ColumnRevOrder),
		hudi.PropOrdering:       or(c.OrderColumn, hudi.ColumnRevOrder),
		hudi.PropPayload:        "org.apache.hudi.common.model.DefaultHoodieRecordPayload",
		hudi.PropMergerStrategy: eventTime,
		hudi.PropMergeMode:      "EVENT_TIME_ORDERING",
		hudi.PropMergeStrategy:  eventTime,
		hudi.PropKeyGenerator:   generator,
		hudi.PropHiveStyle:      strconv.FormatBool(partitioning.Hive),
		hudi.PropURLEncode:      strconv.FormatBool(partitioning.Escape),
		hudi.PropDropPartition:  "false",
		hudi.PropMetaFields:     "true",
		hudi.PropMetafileBase:   "false",
		hudi.PropZone:           "UTC",
		hudi.PropCDC:            strconv.FormatBool(c.CDC != hudi.CDCOff),
	}
	if c.CDC != hudi.CDCOff {
		values[hudi.PropCDCMode] = string(c.CDC)
	}
	if c.PartitionField != "" {
		values[hudi.PropPartitionFields] = c.PartitionField
	}
	if c.Schema != nil {
		values[hudi.PropCreateSchema] = c.Schema.Avro()
	}
	for k, v := range c.Extra {
		if have, ok := values[k]; (ok && have != v) || k == hudi.PropChecksum {
			return hudi.Properties{}, fmt.Errorf("create table: %w: %s is not free to choose", ErrUnsupported, k)
		}
		values[k] = v
	}
	p := hudi.MakeProperties(values)
	p = p.With(hudi.PropChecksum, p.Checksum())
	if err := errors.Join(checkReadable(p), checkWritable(p)); err != nil {
		return hudi.Properties{}, fmt.Errorf("create table: %w", err)
	}
	return p, nil
}

func or(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}
