package warc

import "fmt"

// A Compression is the form in which records are in a file.
type Compression int

const (
	Gzip  Compression = iota // each record is a gzip member (WARC 1.1 Annex D)
	Plain                    // as they are
	Zstd                     // each record is a zstd frame (IIPC, Zstandard Compression for WARC Files 1.0)
)

var compressions = [...]struct{ name, suffix string }{
	Gzip:  {"gzip", ".gz"},
	Plain: {"none", ""},
	Zstd:  {"zstd", ".zst"},
}

// String returns gzip, none or zstd.
func (c Compression) String() string { return compressions[c].name }

// Suffix returns what comes behind ".warc" in the name of a file.
func (c Compression) Suffix() string { return compressions[c].suffix }

// ParseCompression understands what String returns.
func ParseCompression(s string) (Compression, error) {
	for c := range compressions {
		if compressions[c].name == s {
			return Compression(c), nil
		}
	}
	return 0, fmt.Errorf("warc: %q is not a compression: gzip, zstd or none", s)
}
