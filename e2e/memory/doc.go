// Package memory holds the test that the real binary stays within its memory
// while it takes a large database into a table, and that the table then equals
// the database. It needs Go alone; how the memory is measured is Linux's.
package memory
