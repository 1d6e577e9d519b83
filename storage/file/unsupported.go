//go:build !(linux || darwin || freebsd || netbsd || openbsd || dragonfly)

package file

// The next line does not compile, and says why: put-if-absent between processes
// needs link(2), locks need flock(2), and durability needs fsync of folders.
var _ = package_file_needs_a_system_with_link_flock_and_fsync_of_folders
