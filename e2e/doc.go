// Package e2e holds the tests of the whole: tables written by couch2hudi, read by
// engines that are not ours (Spark with two releases of Hudi, hudi-rs), and the
// binary beside a CouchDB in containers.
//
// Tests with the build tag oracle need those engines; `make test-oracle` installs
// and runs them. What can be checked without an engine (the model of expected
// rows, the differ of row sets) is checked by plain `go test`.
package e2e
