package convert

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"io"

	"github.com/warctee/warctee/warc"
)

// A Sum stands for a row of records: it is over the header of each of them, as
// octets, and the SHA-256 of its block.
type Sum struct {
	Records int64
	hash    [sha256.Size]byte
}

// A chain makes a Sum.
type chain struct {
	records int64
	hash    hash.Hash
}

func newChain() *chain { return &chain{hash: sha256.New()} }

func (c *chain) add(header, block []byte) {
	var length [8]byte
	binary.BigEndian.PutUint64(length[:], uint64(len(header)))
	c.hash.Write(length[:])
	c.hash.Write(header)
	c.hash.Write(block)
	c.records++
}

func (c *chain) sum() Sum {
	s := Sum{Records: c.records}
	c.hash.Sum(s.hash[:0])
	return s
}

// errDiffers says that what was written is not what was read.
var errDiffers = errors.New("what was written differs from what was read")

// Verify reads a file that was written, and compares the headers and the digests
// of the blocks with what was read when it was made. Each record has to start
// where reading can start.
func Verify(file io.Reader, want Sum) error {
	z, got, last := warc.NewReader(file), newChain(), int64(-1)
	block := sha256.New()
	for {
		rec, err := z.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			return fmt.Errorf("%w: %w", errDiffers, err)
		}
		if rec.Offset <= last {
			return fmt.Errorf("%w: the records at offset %d are not apart", errDiffers, rec.Offset)
		}
		last = rec.Offset
		block.Reset()
		if _, err := io.Copy(block, z); err != nil {
			return fmt.Errorf("%w: %w", errDiffers, err)
		}
		got.add(rec.Raw, block.Sum(nil))
	}
	if sum := got.sum(); sum.Records != want.Records {
		return fmt.Errorf("%w: there are %d records, not %d", errDiffers, sum.Records, want.Records)
	} else if sum != want {
		return fmt.Errorf("%w: the headers or the blocks have other digests", errDiffers)
	}
	return nil
}
