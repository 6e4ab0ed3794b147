// Package arc reads ARC files, the format of the Internet Archive that came
// before WARC ("Arc File Format", Burner and Kahle, 1996).
//
//	filedesc://NAME.arc 0.0.0.0 20140216050221 text/plain 76   the first record tells of the file
//	1 0 Alexa Internet                                         version 1, origin
//	URL IP-address Archive-date Content-type Archive-length    what the lines hold
//
//	http://example.org/ 192.0.2.1 20140216050221 text/html 1591
//	1591 octets                                                the block: all that the origin sent
//
// In version 2 a line holds five more fields, before the length. Where such
// files are compressed, each record is mostly a gzip member of its own.
//
// A [Reader] is a cursor over the records. There is no writer: what is to be
// kept is converted to WARC.
package arc
