// Package container recognises the form of a file by its start, and opens WARC files
// where they are: on their own, or inside a WACZ.
//
//	FormOf    WARC, ARC, WACZ, or what else it is
//	Open      a file, or site.wacz!archive/data.warc.gz: a member that the WACZ stores
//	Members   the names of the WARC files of a WACZ, as Open takes them
package container
