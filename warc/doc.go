// Package warc reads and writes WARC files, ISO 28500:2017.
//
// It knows the format and nothing else: no HTTP, no files. What a record means
// is looked at by package warc/check.
//
//	WARC/1.1 CRLF                      Version
//	WARC-Type: response CRLF           Header, in order; a name may repeat
//	Content-Length: 1234 CRLF
//	CRLF
//	1234 octets                        the block
//	CRLF CRLF
//
// A .warc file is a row of such records. In a .warc.gz file each of them is a
// gzip member of its own, so that reading can start at any of them; in a .warc.zst
// file a zstd frame, with a [Dictionary] in front of the first one perhaps.
//
// To read, use a [Reader]: a cursor over the records, as in archive/tar. It
// takes WARC 0.17, 0.18, 1.0 and 1.1, plain, gzip or zstd, and forgives what old
// writers got wrong; with Strict set it does not. [Whole] is for recovery: how
// much of a file that its writer left in the middle can be kept?
//
// To write, use a [Writer] when the block can be read where the record is
// written. When many goroutines compress and one writes, use the parts of
// which it is made: [Header.Encode], and for gzip [Deflate], whose output can
// be made before the header is known:
//
//	AppendMemberStart   gzip head, WARC header in deflate blocks of its own
//	Deflate             the block and CRLF CRLF, last deflate block
//	AppendMemberEnd     CRC-32 and size of both
//
// A zstd frame can only be made with the header: [WriteFrame].
//
// A payload that does not compress, as [Compresses] tells, need not be copied:
// [StoredMember] reads as the whole member, [StoredFrame] as the whole frame.
//
// [NewRecordID], [FormatDate] and [Algorithm] make the values of fields.
package warc
