// Package cdx makes the index of WARC and ARC files that replay programs look captures
// up in: one line for each capture, sorted by the key that SURT makes of its
// URL.
//
//	org,example)/a?x=1 20261121101500 {"url": "http://example.org/a?x=1", …}
//	└── SURT           └── WARC-Date  └── Entry.AppendCDXJ, or AppendCDX11
//
// Index reads whole files and sorts. What it does with one record is NewEntry,
// for those that see the records as they are written.
package cdx
