package wacz

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
)

// An index of fewer lines than two blocks stays as it is: a replay reads it
// whole. Of a longer one it reads the list of blocks, and those that it needs.
const (
	blockLines = 1024
	maxLine    = 16 << 20 // octets of a line of the index or of a list of pages
)

// addIndex adds the index in one form or the other.
func (p *packer) addIndex(index *scratch) error {
	r, err := index.rewind()
	if err != nil {
		return err
	}
	if p.summary.Captures < 2*blockLines {
		return p.add(indexName, func(w io.Writer) error {
			_, err := io.Copy(w, r)
			return err
		})
	}
	var lookup []byte
	err = p.add(blocksName, func(w io.Writer) (err error) {
		lookup, err = writeBlocks(w, r)
		return err
	})
	if err != nil {
		return err
	}
	return p.add(lookupName, func(w io.Writer) error {
		_, err := w.Write(lookup)
		return err
	})
}

// writeBlocks compresses the lines of an index in blocks, each a gzip member, and
// returns a line for each: the key and time of its first line, and where it is.
// The lookup has a thousandth of the lines and so is held in memory.
func writeBlocks(w io.Writer, index io.Reader) (lookup []byte, err error) {
	const file = "index.cdx.gz" // in the directory of the lookup
	lookup = fmt.Appendf(nil, "!meta 0 {\"format\": \"cdxj-gzip-1.0\", \"filename\": %q}\n", file)
	lines := newLines(index)
	var block bytes.Buffer
	var first []byte
	var offset int64
	gz := gzip.NewWriter(&block)
	flush := func() error {
		if err := gz.Close(); err != nil {
			return err
		}
		lookup = fmt.Appendf(lookup, "%s {\"offset\": %d, \"length\": %d, \"digest\": \"sha256:%x\", \"filename\": %q}\n",
			first, offset, block.Len(), sha256.Sum256(block.Bytes()), file)
		offset += int64(block.Len())
		_, err := w.Write(block.Bytes())
		block.Reset()
		gz.Reset(&block)
		return err
	}
	n := 0
	for ; lines.Scan(); n++ {
		if n > 0 && n%blockLines == 0 {
			if err := flush(); err != nil {
				return nil, err
			}
		}
		if n%blockLines == 0 {
			key, _, ok := bytes.Cut(lines.Bytes(), []byte(" {"))
			if !ok {
				return nil, fmt.Errorf("the index has a line that is none: %.100q", lines.Bytes())
			}
			first = append(first[:0], key...)
		}
		gz.Write(lines.Bytes()) // a bytes.Buffer has no errors
		gz.Write([]byte{'\n'})
	}
	if err := lines.Err(); err != nil {
		return nil, err
	}
	if n == 0 {
		return nil, errors.New("the index is empty")
	}
	return lookup, flush()
}
