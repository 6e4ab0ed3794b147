// Package wacz packs WARC files into a WACZ, and verifies one: a zip file that a
// browser can replay from without a server of its own (specs.webrecorder.net/wacz/1.1.1).
//
//	archive/NAME.warc.gz       the WARC files, as they are
//	indexes/index.cdx          where in them is what: CDXJ
//	  or index.cdx.gz, .idx    the same in blocks, with an index of the blocks
//	pages/pages.jsonl          the pages to begin with: URL, time, title, text
//	logs/NAME                  what was given
//	datapackage.json           names, sizes and digests of all of these
//	datapackage-digest.json    the digest of that, and maybe a signature
//
// Nothing in the zip is compressed by it, so that each part can be read by its
// place: a replay asks for ranges of octets.
package wacz
