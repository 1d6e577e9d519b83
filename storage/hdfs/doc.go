// Package hdfs is a store in a folder of HDFS.
//
// An object is a file, and its name the path below the root. What storage asks
// for is kept by these means (docs/adr/0052-hdfs.md argues them):
//
//   - A version is written to a file in one hidden folder, closed, and only then
//     moved to its name: HDFS shows a file from its creation on, empty at first.
//   - Put-if-absent is a rename that does not overwrite (rename2 with
//     overwriteDest false). The name node carries it out under its lock, for every
//     client of the file system: also Spark's writers cannot come between.
//   - An overwriting or If-Match put replaces one version, which the number of its
//     inode names. It moves the new file to "next-<inode>", without overwriting:
//     of any number that race one succeeds, and decides what follows that version.
//     Then the file is moved onto the old one, both called by inode
//     (/.reserved/.inodes), which fails when the old one is gone. Whoever finds a
//     decided successor finishes it first, so that a dead writer holds nobody up.
//   - Inodes are never used again. So when the answer to a rename is lost, the
//     inode under the name says whether it happened.
//   - A read looks at the name before and after it.
//   - A lock is a lease (storage.NewLease).
//
// A put is on as many data nodes as the file system's smallest replication says
// when it returns, and its name in the name node's journal. Data nodes write to
// disk on their own time; dfs.datanode.synconclose makes them do it at once.
//
// HDFS refuses names with ":", and parts that are ".snapshot", longer than 255
// bytes or not UTF-8: ErrName. "a" and "a/b" cannot both be objects. In a folder
// with HDFS snapshots an object that is deleted in the middle of a put that
// overwrites it may come back with that put's content; nothing else differs.
package hdfs
