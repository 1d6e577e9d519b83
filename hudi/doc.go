// Package hudi holds the words of Apache Hudi's Merge-On-Read tables: instant
// times, keys, records, columns, file names and table properties. It is pure:
// no input, no output, no clock. What the bytes look like is drawn in
// docs/format.
package hudi
