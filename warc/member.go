package warc

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
	"sync"

	"github.com/klauspost/compress"
	"github.com/klauspost/compress/flate"
)

// deflateLevel is where klauspost/compress is still fast.
const deflateLevel = 5

// sampleSize is how much of a block is read to see whether it compresses.
const sampleSize = 64 << 10

// minSample is the size from which that is asked at all.
const minSample = 4 << 10

// incompressible is the estimate below which a block is stored: package
// compress calls what is above it likely to compress.
const incompressible = 0.1

// recordEnd ends every record.
const recordEnd = "\r\n\r\n"

// gzipHead starts a member (RFC 1952 §2.3): no name, no time, unknown system.
const gzipHead = "\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff"

// Deflated tells what [Deflate] compressed.
type Deflated struct {
	CRC  uint32 // CRC-32 (RFC 1952 §8) of the block and the CRLF CRLF behind it
	Size int64  // octets of them, before compression
}

// A deflater is big, and so is pooled.
type deflater struct {
	*flate.Writer
	out appender // where AppendMemberStart lets it write
}

type appender struct{ b []byte }

func (a *appender) Write(p []byte) (int, error) {
	a.b = append(a.b, p...)
	return len(p), nil
}

func newPool(level int) *sync.Pool {
	return &sync.Pool{New: func() any {
		w, err := flate.NewWriter(nil, level)
		if err != nil {
			panic(err) // level is a constant of this package
		}
		return &deflater{Writer: w}
	}}
}

var (
	deflaters = newPool(deflateLevel)
	storers   = newPool(flate.NoCompression)
)

// buffers are for reading blocks.
var buffers = sync.Pool{New: func() any { return new([sampleSize]byte) }}

// Deflate compresses the block and the CRLF CRLF that ends its record to dst,
// as the rest of a deflate stream (RFC 1951): the last block is marked so. A
// block that does not compress is stored. A nil block is an empty one. It is
// safe for concurrent use. Errors are those of block and dst.
func Deflate(dst io.Writer, block io.Reader) (Deflated, error) {
	var d Deflated
	buf := buffers.Get().(*[sampleSize]byte)
	defer buffers.Put(buf)
	n, end, err := readFull(block, buf[:])
	if err != nil {
		return d, err
	}
	pool := deflaters
	if !compresses(buf[:n]) {
		pool = storers
	}
	w := pool.Get().(*deflater)
	w.Reset(dst)
	defer func() {
		w.Reset(nil) // lets go of dst
		pool.Put(w)
	}()
	for {
		if err := d.write(w, buf[:n]); err != nil {
			return d, err
		}
		if end {
			break
		}
		if n, end, err = readFull(block, buf[:]); err != nil {
			return d, err
		}
	}
	if err := d.write(w, append(buf[:0], recordEnd...)); err != nil {
		return d, err
	}
	if err := w.Close(); err != nil {
		return d, fmt.Errorf("warc: writing the compressed block: %w", err)
	}
	return d, nil
}

func (d *Deflated) write(w io.Writer, p []byte) error {
	d.CRC = crc32.Update(d.CRC, crc32.IEEETable, p)
	d.Size += int64(len(p))
	if _, err := w.Write(p); err != nil {
		return fmt.Errorf("warc: writing the compressed block: %w", err)
	}
	return nil
}

// readFull fills buf, or reports the end of the block.
func readFull(block io.Reader, buf []byte) (n int, end bool, err error) {
	if block == nil {
		return 0, true, nil
	}
	for n < len(buf) {
		m, err := block.Read(buf[n:])
		n += m
		if err == io.EOF {
			return n, true, nil
		}
		if err != nil {
			return n, false, fmt.Errorf("warc: reading the block: %w", err)
		}
	}
	return n, false, nil
}

// compresses judges by the second half of the sample, because the first may be
// the head of a message.
func compresses(sample []byte) bool {
	return len(sample) < minSample || compress.Estimate(sample[len(sample)/2:]) >= incompressible
}

// AppendMemberStart appends the start of a gzip member to dst: its head and the
// record's header, in deflate blocks that end at a byte. What [Deflate] wrote
// comes next, then [AppendMemberEnd] of the same header.
func AppendMemberStart(dst, header []byte) []byte {
	w := deflaters.Get().(*deflater)
	w.out.b = append(dst, gzipHead...)
	w.Reset(&w.out)
	// Nothing here fails, because an appender does not.
	w.Write(header)
	w.Flush()
	out := w.out.b
	w.out.b = nil
	w.Reset(nil)
	deflaters.Put(w)
	return out
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
	const x8 = 1 << (31 - 8) // bit 31 is the coefficient of x⁰
	power, square := uint32(1<<31), uint32(x8)
	for ; n > 0; n >>= 1 {
		if n&1 != 0 {
			power = multiplyCRC(power, square)
		}
		square = multiplyCRC(square, square)
	}
	return multiplyCRC(a, power) ^ b
}

// multiplyCRC multiplies two polynomials modulo the generator.
func multiplyCRC(a, b uint32) uint32 {
	product := uint32(0)
	for ; a != 0; a <<= 1 { // from x⁰ up
		if a&(1<<31) != 0 {
			product ^= b
		}
		carry := b & 1
		b >>= 1
		if carry != 0 {
			b ^= crc32.IEEE
		}
	}
	return product
}
