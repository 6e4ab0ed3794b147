// Package convert makes WARC files of others: of ARC files, of WARC files in
// another compression or version, and with conversion records added.
//
//	ARC         arc.Reader  →  warcinfo, metadata, response, resource
//	WARC        warc.Reader →  the same records; see Options for what changes
//	Verify      reads what was written, and compares it with what was read
//
// What is not asked for does not change: a header is copied as the octets that it
// is, also with what a reader forgives, and the block of a record always is.
// Nothing in the output tells of the clock: converting again gives the same file,
// but for conversion records that are made now.
package convert
