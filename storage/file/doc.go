// Package file is a store in a folder of a local disk.
//
// An object is a file, and its name the path below the root. What storage asks
// for is kept by these means:
//
//   - A version is written to a hidden file (".~c2h-…") in the folder of its
//     name and becomes visible whole: by link(2), which fails when the name is
//     taken, for a put-if-absent; by rename(2) for the rest.
//   - The file is synced before that, its folder after that, and so is the
//     parent of every folder that this store makes. Only then is it stored.
//   - An If-Match put holds an exclusive flock(2) on the object's folder while
//     it compares and renames; overwriting puts and deletes hold a shared one.
//   - A lock is an flock on a file that is never deleted, held open as long as
//     the lock lasts: the kernel lets it go when the process ends, however it
//     ends, and keeps it while the process is merely stopped.
//
// So the root must lie on a file system with hard links, flock and modification
// times to the nanosecond: ext4, xfs, btrfs, zfs and apfs are such. On network
// file systems flock of folders may fail; the put then fails, it is not done
// without. Other programs may read the folder at any time and may write objects
// that this store has no hand in.
//
// Hadoop's LocalFileSystem, which Spark uses, keeps a checksum of a file x as
// ".x.crc" in the same folder. A put or delete of x removes it, since the
// checksum of another content would make x unreadable there.
//
// Symbolic links are followed. A name of which one part is longer than the file
// system allows (255 bytes), or is one of our hidden files', is ErrName; "a"
// and "a/b" cannot both be objects. A list holds the names of the folders on
// its way in memory, one level of each, and nothing else.
package file
