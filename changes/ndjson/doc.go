// Package ndjson carries changes across an air gap in files: an Exporter writes
// what a source says into a folder, a Source reads such a folder on the other
// side. How the files get across is the business of whatever copies them.
//
// A bundle is two files. bundle-0000000001.ndjson.zst holds rows in the form of
// CouchDB's _changes, one a line, documents as they were received.
// bundle-0000000001.manifest.json says what the first must hold (size, rows,
// SHA-256), which sequences it reaches from and to, and the hash of the manifest
// before it: bundles are a chain. A manifest is its own canonical form with a hash
// of itself, so that no byte of it can change unnoticed. It is put there last.
//
// The exporter's memory is its newest manifest, of which it keeps a copy in
// chain.json; the consumer's is the position in the table's commit.
package ndjson
