// Package rotate keeps a directory of append-only files that are bounded in
// size and age. Whatever fails, a file under its final name consists of whole
// appends. The package knows nothing about what is in the files.
//
// # Which call when
//
//   - [Open] takes the directory for this process and repairs what a process
//     that died has left; [Set.Recovered] tells what that was.
//   - [Set.Current] before each append: the file to append to, which is a new
//     one whenever the old one is full, too old or set aside.
//   - [File.Begin] writes the preamble, where [File.Fresh] reports a new file.
//   - [File.Append] writes all of its parts or nothing.
//   - [File.Sync] from time to time. Only what lies before [File.Synced]
//     survives a power cut.
//   - An append failed: the file still ends behind the last whole append, and
//     the next append may succeed. [ErrBroken]: it may not; call
//     [File.Salvage], or [File.SetAside] when that goes on failing, and append
//     again whatever was not durable.
//   - [Set.Chain] for what does not fit one file: several new ones that get their
//     names together. [File.Retire] when it would fit into a new one.
//   - Nothing works any more, because the disk is full or gone: [Set.Probe]
//     now and then tells when it is worth trying again.
//   - [Set.Expire] from a ticker, [Set.Finish] when somebody wants to have the
//     files now, [Set.Close] at the end.
//
// # Life of a file
//
//	NAME.open          being written; a series has at most one
//	  | finish: fsync, rename (never over another file), fsync of the directory
//	  v
//	NAME               final: whole appends, nothing else
//
//	NAME.KEY-N.part    the Nth file of a chain, which is not committed: when all are durable
//	                   the first one is renamed to NAME, and then the others are
//	NAME.bad-TIME      set aside: a write or an fsync failed, and it could not be repaired
//	NAME.tail          the end of a NAME.open that recovery has cut off, or a part of a chain
//	                   that was not committed
//	.lock              locked by the process that owns the directory; its pid
//	.spool-*           scratch files of the owner, removed by Open
//
// # Layout of a file
//
//	+----------+----------+----------+-- - -
//	| preamble | append 1 | append 2 |  ...
//	+----------+----------+----------+-- - -
//
// The preamble is what [File.Begin] wrote. A file that has nothing else at its end
// is removed. The next file of a series is created, empty, before the
// full one is finished, so that a process out of descriptors can go on with the
// full one; nothing is written to it until the full one is durable under its
// final name.
//
// A Set and its files belong to one goroutine; nothing here is safe for
// concurrent use.
package rotate
