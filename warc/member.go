package warc

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
	"slices"
	"sync"

	"github.com/klauspost/compress/flate"
)

// deflateLevel is where klauspost/compress is still fast.
const deflateLevel = 5

// maxShort is the size up to which blocks are compressed with a coding that was
// made beforehand, which takes several times less. What is bigger would get too
// long.
const maxShort = 2 << 10

// recordEnd ends every record.
const recordEnd = "\r\n\r\n"

// gzipHead starts a member (RFC 1952 §2.3): no name, no time, unknown system.
const gzipHead = "\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff"

// Deflated tells what [Deflate] compressed.
type Deflated struct {
	CRC  uint32 // CRC-32 (RFC 1952 §8) of the block and the CRLF CRLF behind it
	Size int64  // octets of them, before compression
}

// pieceSize is how much of a block is read at once: together with the end of
// the record no more than a stored block can have.
const pieceSize = maxStored - len(recordEnd)

// A packer compresses a block. It is big, and so is pooled.
type packer struct {
	dst   io.Writer
	block io.Reader
	end   bool // of the block, was read
	Deflated
	buf [maxStored]byte // a piece
	w   bitWriter
}

var packers = sync.Pool{New: func() any { return new(packer) }}

// Deflate compresses the block and the CRLF CRLF that ends its record to dst,
// as the rest of a deflate stream (RFC 1951): the last block is marked so. For
// payloads that do not compress there is [StoredMember]. A nil block is an empty
// one. It is safe for concurrent use. Errors are those of block and dst.
func Deflate(dst io.Writer, block io.Reader) (Deflated, error) {
	z := packers.Get().(*packer)
	z.dst, z.block, z.end, z.Deflated = dst, block, block == nil, Deflated{}
	defer func() {
		z.dst, z.block = nil, nil
		packers.Put(z)
	}()
	piece, err := z.next()
	if err != nil {
		return z.Deflated, err
	}
	if z.end && len(piece) <= maxShort && z.short(piece) {
		_, err = z.Write(z.w.b)
	} else {
		err = z.compress(piece)
	}
	return z.Deflated, err
}

// next reads the next piece of the block. The last one has the end of the
// record.
func (z *packer) next() ([]byte, error) {
	n := 0
	for n < pieceSize && !z.end {
		m, err := z.block.Read(z.buf[n:pieceSize])
		n += m
		if err == io.EOF {
			z.end = true
		} else if err != nil {
			return nil, fmt.Errorf("warc: reading the block: %w", err)
		}
	}
	piece := z.buf[:n]
	if z.end {
		piece = append(piece, recordEnd...)
	}
	z.CRC = crc32.Update(z.CRC, crc32.IEEETable, piece)
	z.Size += int64(len(piece))
	return piece, nil
}

// Write writes to dst.
func (z *packer) Write(p []byte) (int, error) {
	n, err := z.dst.Write(p)
	if err != nil {
		err = fmt.Errorf("warc: writing the compressed block: %w", err)
	}
	return n, err
}

// short compresses a whole block to w, unless that is better done in another
// way.
func (z *packer) short(block []byte) bool {
	z.w = bitWriter{b: z.w.b[:0]}
	if len(block) < minDescribed {
		z.w.block(block, &ofMessages, true)
	} else if !z.w.encode(block, &ofMessages, true) || len(z.w.b) >= len(block) {
		return false
	}
	z.w.align()
	return true
}

// compress writes a block of any size.
func (z *packer) compress(piece []byte) (err error) {
	w := deflaters.Get().(*deflater)
	defer deflaters.Put(w)
	w.buf.Reset(z)
	w.Reset(w.buf)
	for {
		if _, err := w.Write(piece); err != nil {
			return err
		}
		if z.end {
			break
		}
		if piece, err = z.next(); err != nil {
			return err
		}
	}
	if err := w.Close(); err != nil {
		return err
	}
	return w.buf.Flush()
}

// A deflater is big, and so is pooled. It writes often, and little each time.
type deflater struct {
	*flate.Writer
	buf *bufio.Writer
}

var deflaters = sync.Pool{New: func() any {
	w, err := flate.NewWriter(nil, deflateLevel)
	if err != nil {
		panic(err) // deflateLevel is a constant
	}
	return &deflater{w, bufio.NewWriterSize(nil, 32<<10)}
}}

// AppendMemberStart appends the start of a gzip member to dst: its head and the
// record's header, in deflate blocks that end at a byte. What [Deflate] wrote
// comes next, then [AppendMemberEnd] of the same header.
func AppendMemberStart(dst, header []byte) []byte {
	w := memberStart(slices.Grow(dst, len(gzipHead)+len(header)), header)
	w.stored(0, false)
	return w.b
}

// AppendSkippableStart is [AppendMemberStart] with skip lengths in the head; see
// [WriterOptions]. Deflate has described the block by d and has written packed
// octets for it.
func AppendSkippableStart(dst, header []byte, d Deflated, packed int64) []byte {
	from := len(dst)
	w := bitWriter{b: appendSkipHead(slices.Grow(dst, skipSize+len(header)))}
	w.blocks(header, &ofRecords)
	w.stored(0, false)
	member, content := int64(len(w.b)-from)+packed+memberEnd, int64(len(header))+d.Size
	if !fitsSkip(member, content) {
		return AppendMemberStart(w.b[:from], header)
	}
	setSkipLengths(w.b[from:], member, content)
	return w.b
}

// memberEnd is how many bytes AppendMemberEnd appends.
const memberEnd = 8

func memberStart(dst, header []byte) bitWriter {
	w := bitWriter{b: append(dst, gzipHead...)}
	w.blocks(header, &ofRecords)
	return w
}

// AppendMemberEnd appends the end of a gzip member to dst (RFC 1952 §2.3.1):
// the CRC-32 of header and block, and their size modulo 2³².
func AppendMemberEnd(dst, header []byte, d Deflated) []byte {
	crc := combineCRC(crc32.ChecksumIEEE(header), d.CRC, d.Size)
	dst = binary.LittleEndian.AppendUint32(dst, crc)
	return binary.LittleEndian.AppendUint32(dst, uint32(int64(len(header))+d.Size))
}

// combineCRC returns the CRC-32 of A B from those of A and of B, which has n
// octets.
//
// A CRC-32 is a polynomial over GF(2) modulo the generator: appending n octets
// multiplies it by x⁸ⁿ, and the CRC of what was appended is added. The
// inversions at both ends cancel out.
func combineCRC(a, b uint32, n int64) uint32 {
	for i := 0; n > 0; i++ {
		if n&1 != 0 {
			a = multiplyCRC(a, powers[i])
		}
		n >>= 1
	}
	return a ^ b
}

// powers are x⁸, x¹⁶, x³² and so on.
var powers = func() (p [63]uint32) {
	p[0] = 1 << (31 - 8) // bit 31 is the coefficient of x⁰
	for i := range len(p) - 1 {
		p[i+1] = multiplyCRC(p[i], p[i])
	}
	return p
}()

// multiplyCRC multiplies two polynomials modulo the generator. It has no
// branches, because nobody could predict them.
func multiplyCRC(a, b uint32) (product uint32) {
	for range 32 { // from x⁰ up
		product ^= b & -(a >> 31)
		a <<= 1
		b = b>>1 ^ crc32.IEEE&-(b&1)
	}
	return product
}
