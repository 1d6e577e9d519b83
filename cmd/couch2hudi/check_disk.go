//go:build linux || darwin || freebsd

package main

import "golang.org/x/sys/unix"

// disk says how much room there is for the table. A commit needs that of its
// batch, and as much again for what is written before it is visible.
func (c *checker) disk(path string, batch int64) {
	const next = "make room, or stop couch2hudi and run couch2hudi clean with a shorter --retain"
	if path == "" {
		return
	}
	var s unix.Statfs_t
	if err := unix.Statfs(existing(path), &s); err != nil {
		c.warn("disk", "see that the folder can be reached", "the room for the table is not known: %s", err)
		return
	}
	block := int64(s.Bsize) //nolint:unconvert // 32 bits on some systems
	free, whole := int64(s.Bavail)*block, int64(s.Blocks)*block
	const commits, percent = 4, 5
	if free < commits*batch || free < whole/100*percent {
		c.warn("disk", next, "%s free of %s", size(free), size(whole))
		return
	}
	c.ok("disk", "%s free of %s", size(free), size(whole))
}
