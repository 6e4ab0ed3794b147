package cdx

import "bytes"

// recordStarts are what a record can begin with: the version, the head of a gzip
// member, that of a zstd frame.
var recordStarts = [][]byte{[]byte("WARC/"), {0x1f, 0x8b, 8}, {0x28, 0xb5, 0x2f, 0xfd}}

// maxStarts bounds how many places that look like the start of a record are looked
// at behind the damage in a file.
const maxStarts = 10_000

// nextRecord finds the next record behind an offset, for what comes after damage:
// what starts like one, at the start of a line when it is plain, and has a header
// with an id and a type.
func (s *scanner) nextRecord(offset int64) (int64, bool) {
	const overlap = 8
	buf := make([]byte, 64<<10)
	for offset < s.file.Size && s.starts < maxStarts {
		n, _ := s.file.ReadAt(buf, offset)
		if n == 0 {
			break // a damaged disk; the scan has told it, or will
		}
		for i := range n {
			if s.startsRecord(buf[:n], i, offset) {
				return offset + int64(i), true
			}
		}
		offset += int64(max(n-overlap, 1))
	}
	return 0, false
}

// startsRecord reports whether a record starts at buf[i], where buf is what the
// file holds from offset on.
func (s *scanner) startsRecord(buf []byte, i int, offset int64) bool {
	for k, start := range recordStarts {
		if !bytes.HasPrefix(buf[i:], start) || k == 0 && (i == 0 || buf[i-1] != '\n') {
			continue
		}
		if s.starts++; s.starts > maxStarts {
			return false
		}
		rec, err := s.file.Records(offset + int64(i)).Next()
		return err == nil && rec.ID() != "" && rec.Type() != ""
	}
	return false
}
