// Package tidy holds no code but tests: the rules of the house that a compiler
// does not know, read from the sources of the whole module. graph_test.go says
// which package may import which, rules_test.go what Go files look like, and
// words_test.go what no file says.
package tidy
