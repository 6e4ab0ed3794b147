package warc

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/bits"
	"strings"

	"github.com/cespare/xxhash/v2"
	"github.com/klauspost/compress/zstd"
)

const (
	// zstdLevel is about level 3 of the program zstd.
	zstdLevel = zstd.SpeedDefault
	// zstdWindow is how far back matches reach. Records are seldom longer, and
	// both sides need memory for it.
	zstdWindow = 2 << 20
	// maxBlock is how many octets a block holds (RFC 8878 §3.1.1.2.4).
	maxBlock = 128 << 10
)

// noDictionary has the encoders for files without one.
var noDictionary Dictionary

func (d *Dictionary) pool() *Dictionary {
	if d == nil {
		return &noDictionary
	}
	return d
}

func (d *Dictionary) encoder() (*zstd.Encoder, error) {
	if z, ok := d.pool().encoders.Get().(*zstd.Encoder); ok {
		return z, nil
	}
	options := []zstd.EOption{
		zstd.WithEncoderConcurrency(1), zstd.WithEncoderLevel(zstdLevel), zstd.WithWindowSize(zstdWindow),
		zstd.WithLowerEncoderMem(true), zstd.WithSingleSegment(true), // else a frame of less than 256 octets has no size
	}
	if d != nil {
		options = append(options, zstd.WithEncoderDict(d.raw))
	}
	return zstd.NewWriter(nil, options...)
}

// decoder makes a decoder: a pool would save little.
func (d *Dictionary) decoder() (*zstd.Decoder, error) {
	options := []zstd.DOption{zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(MaxWindow)}
	if d != nil {
		options = append(options, zstd.WithDecoderDicts(d.raw))
	}
	return zstd.NewReader(nil, options...)
}

// WriteFrame compresses a record to dst, as a zstd frame with its size and a
// checksum: the header, as Header.Encode returns it, the block, which has length
// octets, and the CRLF CRLF behind it. Unlike those of Deflate its output
// depends on the header: the checksum is of all. A nil block is an empty one.
// For payloads that do not compress there is [StoredFrame]. It is safe for
// concurrent use.
func WriteFrame(dst io.Writer, d *Dictionary, header []byte, block io.Reader, length int64) error {
	z, err := d.encoder()
	if err != nil {
		return fmt.Errorf("warc: %w", err)
	}
	defer func() {
		z.Reset(nil)
		d.pool().encoders.Put(z)
	}()
	out := bufio.NewWriterSize(dst, 32<<10)
	z.ResetContentSize(out, int64(len(header))+length+int64(len(recordEnd)))
	in := blockReader{r: block}
	// In one go, so that what is short becomes one block.
	_, err = z.ReadFrom(io.MultiReader(bytes.NewReader(header), &in, strings.NewReader(recordEnd)))
	switch {
	case in.err != nil:
		return fmt.Errorf("warc: reading the block: %w", in.err)
	case err == nil && in.n != length:
		return checkLength(in.n, length)
	case err == nil:
		err = z.Close()
	}
	if err == nil {
		err = out.Flush()
	}
	if err != nil {
		return fmt.Errorf("warc: writing the compressed record: %w", err)
	}
	return nil
}

// A blockReader remembers how much it has read, and the error of r.
type blockReader struct {
	r   io.Reader // may be nil
	n   int64
	err error // but io.EOF
}

func (b *blockReader) Read(p []byte) (int, error) {
	if b.r == nil {
		return 0, io.EOF
	}
	n, err := b.r.Read(p)
	b.n += int64(n)
	if err != nil && err != io.EOF {
		b.err = err
	}
	return n, err
}

// StoredFrame is [StoredMember] for zstd: only header and head are compressed.
func StoredFrame(d *Dictionary, header, head []byte, payload io.Reader, size int64) (io.Reader, error) {
	z, err := d.encoder()
	if err != nil {
		return nil, fmt.Errorf("warc: %w", err)
	}
	start := append(append(make([]byte, 0, len(header)+len(head)), header...), head...)
	var packed bytes.Buffer
	z.Reset(&packed)
	if _, err = z.Write(start); err == nil {
		err = z.Close()
	}
	z.Reset(nil)
	d.pool().encoders.Put(z)
	if err != nil {
		return nil, fmt.Errorf("warc: %w", err)
	}

	m := &storedMember{payload: payload, rest: size, size: int64(len(start)+len(recordEnd)) + size, xx: xxhash.New()}
	m.xx.Write(start)
	frame := appendFrameHead(make([]byte, 0, maxFrameHead+packed.Len()), len(start), d.ID(), uint64(m.size))
	if m.ready, err = appendBlocks(frame, packed.Bytes()); err != nil {
		return nil, err
	}
	m.begin(bitWriter{b: m.ready})
	return m, nil
}

// appendFrameHead appends the head of a frame (RFC 8878 §3.1.1.1) whose matches
// reach no further back than its first start octets. It says the size, and that
// there is a checksum.
func appendFrameHead(dst []byte, start int, dictionary uint32, size uint64) []byte {
	const sum, size4, size8, id4 = 1 << 2, 2 << 6, 3 << 6, 3
	descriptor := byte(sum)
	if descriptor |= size4; size > 1<<32-1 {
		descriptor |= size8
	}
	if dictionary != 0 {
		descriptor |= id4
	}
	window := max(bits.Len(maxBlock-1), bits.Len(uint(start)))
	dst = append(append(dst, zstdMagic...), descriptor, byte(window-10)<<3)
	if dictionary != 0 {
		dst = binary.LittleEndian.AppendUint32(dst, dictionary)
	}
	if size > 1<<32-1 {
		return binary.LittleEndian.AppendUint64(dst, size)
	}
	return binary.LittleEndian.AppendUint32(dst, uint32(size))
}

// appendBlocks appends the blocks of a frame, none of them as the last one.
func appendBlocks(dst, frame []byte) ([]byte, error) {
	var head zstd.Header
	if err := head.Decode(frame); err != nil {
		return nil, err
	}
	for at := head.HeaderSize; at+3 <= len(frame); {
		n := 3 + int(uint32(frame[at])|uint32(frame[at+1])<<8|uint32(frame[at+2])<<16)>>3
		if frame[at]>>1&3 == 1 { // RLE
			n = 3 + 1
		}
		last := frame[at]&1 != 0
		frame[at] &^= 1
		if at+n > len(frame) {
			break
		}
		dst = append(dst, frame[at:at+n]...)
		if last {
			return dst, nil
		}
		at += n
	}
	return nil, errors.New("warc: a zstd frame ends too early")
}

// rawBlock appends the head of a block that is not compressed (§3.1.1.2).
func rawBlock(dst []byte, n int, last bool) []byte {
	head := uint32(n) << 3
	if last {
		head |= 1
	}
	return append(dst, byte(head), byte(head>>8), byte(head>>16))
}
