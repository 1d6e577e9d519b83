//go:build !(linux || darwin || freebsd)

package main

// disk cannot tell how much room there is on this system.
func (c *checker) disk(string, int64) {
	c.ok("disk", "the room for the table is not known on this system")
}
