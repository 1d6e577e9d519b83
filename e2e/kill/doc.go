// Package kill holds the tests that kill, stop and signal the real binary while
// it follows a database that changes, start it again, and compare the table with
// the database. They need Go alone; how the moments are hit (inotify) is Linux's.
package kill
