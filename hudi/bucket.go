package hudi

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// Bucket is the bucket of a record key of our own tables of one database, whose one
// key field is ColumnID. It panics for fewer than one bucket.
func Bucket(recordKey string, buckets int) int {
	return BucketBy(recordKey, ColumnID, buckets)
}

// BucketBy is the bucket of a record key in a table whose index hashes the key
// fields named, in the order of the key and with commas between them, as Hudi
// 1.x has it (docs/format/bucket.md).
func BucketBy(recordKey, fields string, buckets int) int {
	return int(bucketHash(recordKey, fields)&0x7fffffff) % buckets
}

// bucketHash is Java's hash of the list of strings that a key stands for.
func bucketHash(recordKey, fields string) int32 {
	const start = 31 // a list's hash begins at 1; each element makes it 31·h + its own
	// A key without "," or without ":" is no list of fields.
	if !strings.Contains(recordKey, ",") || !strings.Contains(recordKey, ":") {
		return start + javaHash(recordKey)
	}
	h, hit := int32(1), false
	eachField(recordKey, func(field, value string) {
		if fields != "" && !slices.Contains(strings.Split(fields, ","), field) {
			return
		}
		hit = true
		h *= 31
		switch value {
		case "__null__":
		case "__empty__":
			h += javaHash("")
		default:
			h += javaHash(value)
		}
	})
	if !hit {
		return start + javaHash(recordKey)
	}
	return h
}

// eachField yields the fields of a key "f1:v1,f2:v2". Values may hold both
// separators: a value ends at the last comma before the next colon that has one.
func eachField(key string, yield func(field, value string)) {
	for key != "" {
		field, rest, ok := strings.Cut(key, ":")
		if !ok {
			return
		}
		end := valueEnd(rest)
		yield(field, rest[:end])
		key = strings.TrimPrefix(rest[end:], ",")
	}
}

// valueEnd is where the value at the start of s ends.
func valueEnd(s string) int {
	comma := strings.IndexByte(s, ',')
	if comma < 0 {
		return len(s)
	}
	colon := strings.IndexByte(s[comma:], ':')
	if colon < 0 {
		return len(s)
	}
	return strings.LastIndexByte(s[:comma+colon], ',')
}

// javaHash is String.hashCode: over UTF-16 units, modulo 2^32.
func javaHash(s string) int32 {
	var h int32
	for _, r := range s {
		if high, low := utf16.EncodeRune(r); low != utf8.RuneError {
			h, r = 31*h+high, low
		}
		h = 31*h + r
	}
	return h
}

// ErrBuckets marks file groups that are not those of a bucket index.
var ErrBuckets = errors.New("not the file groups of a bucket index")

// BucketSlices are the slices of one partition by bucket. It is an ErrBuckets
// when a file group is of none of that many buckets, or when two are of one:
// another writer's fault, which makes Spark and Flink fail as well.
func BucketSlices(list []Slice, buckets int) (map[int]*Slice, error) {
	byBucket := make(map[int]*Slice, len(list))
	for i := range list {
		s := &list[i]
		n, ok := BucketOf(s.File)
		if !ok || n >= buckets {
			return nil, fmt.Errorf("%w: file group %q of partition %q is of none of %d buckets", ErrBuckets, s.File, s.Partition, buckets)
		}
		if twin := byBucket[n]; twin != nil {
			return nil, fmt.Errorf("%w: file groups %q and %q of partition %q are both of bucket %d", ErrBuckets, twin.File, s.File, s.Partition, n)
		}
		byBucket[n] = s
	}
	return byBucket, nil
}

// bucketDigits is how many digits of a file group id name the bucket.
const bucketDigits = 8

// BucketTrouble says what other writers make of a record key of our tables, whose one
// key field is named, that is not its bucket: Hudi 0.15 puts keys with ":" elsewhere, and Hudi 1.x
// never gets to the end of some that hold both separators.
func BucketTrouble(recordKey, keyField string) (misplaced, endless bool) {
	misplaced = strings.Contains(recordKey, ":")
	if !misplaced || !strings.Contains(recordKey, ",") {
		return misplaced, false
	}
	var field, value string
	eachField(recordKey, func(f, v string) { field, value = f, v })
	return true, field != keyField && strings.Contains(value, ":")
}

// BucketFile is the id of a file group of a bucket: the bucket in eight digits
// in the place of the first eight of a UUID, and "-0".
func BucketFile(bucket int, uuid string) FileID {
	return FileID(fmt.Sprintf("%0*d%s-0", bucketDigits, bucket, uuid[min(bucketDigits, len(uuid)):]))
}

// BucketOf is the bucket that a file group's id names, and whether it names
// one: a random id may do so too, by chance.
func BucketOf(file FileID) (int, bool) {
	if len(file) <= bucketDigits || file[bucketDigits] != '-' || !digits(string(file[:bucketDigits])) {
		return 0, false
	}
	n, err := strconv.Atoi(string(file[:bucketDigits]))
	return n, err == nil
}
