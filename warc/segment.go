package warc

import (
	"errors"
	"fmt"
	"hash/crc32"
	"io"
)

// Room that a block may need besides its octets, more than enough: what it takes
// to store one octet in a thousand that cannot be compressed, to end a stream, and
// to see how much of it was written so far.
const (
	spareShare = 1 << 10
	spareRoom  = 128
)

// surelyFits returns how many octets of any content fit into that much room when
// they are compressed, or a few less.
func surelyFits(room int64) int64 { return max(0, (room-spareRoom)/(spareShare+1)*spareShare) }

// DeflateUpTo is [Deflate] of as much of a block as fits into limit bytes, for a
// segment of a record (WARC 1.1 §7). It reads no more than it compresses: that is
// Size less four octets. A block that fits ends where the reader does.
func DeflateUpTo(dst io.Writer, block io.Reader, limit int64) (d Deflated, err error) {
	out := &countingWriter{w: dst}
	w := deflaters.Get().(*deflater)
	defer deflaters.Put(w)
	w.buf.Reset(out)
	w.Reset(w.buf)
	sum := crc32.NewIEEE()
	in := io.MultiWriter(w, sum)
	// What fits for certain is compressed, and then there is room again, until
	// there is hardly any.
	for n := surelyFits(limit); n > 0; n = surelyFits(limit - out.n) {
		read, err := io.CopyN(in, block, n)
		d.Size += read
		if errors.Is(err, io.EOF) {
			break
		}
		if err == nil {
			err = w.Flush()
		}
		if err == nil {
			err = w.buf.Flush()
		}
		if err != nil {
			return d, err
		}
	}
	if _, err := io.WriteString(in, recordEnd); err != nil {
		return d, err
	}
	d.Size += int64(len(recordEnd))
	d.CRC = sum.Sum32()
	if err := w.Close(); err != nil {
		return d, err
	}
	return d, w.buf.Flush()
}

type countingWriter struct {
	w io.Writer
	n int64
}

func (c *countingWriter) Write(p []byte) (int, error) {
	n, err := c.w.Write(p)
	c.n += int64(n)
	return n, err
}

// StoredUpTo returns how many octets of a payload fit for certain into that much
// room, behind the head of the record, when they are stored.
func StoredUpTo(room int64) int64 {
	const block = 5 // bytes in front of each stored block
	room -= spareRoom
	return max(0, room-block*(room/int64(pieceSize)+1))
}

// FrameUpTo returns how many octets of a block fit into a zstd frame of limit
// bytes. It reads no more than these.
func FrameUpTo(d *Dictionary, block io.Reader, limit int64) (n int64, err error) {
	z, err := d.encoder()
	if err != nil {
		return 0, fmt.Errorf("warc: %w", err)
	}
	defer func() {
		z.Reset(nil)
		d.pool().encoders.Put(z)
	}()
	out := &countingWriter{w: io.Discard}
	z.Reset(out)
	// One frame is written in other pieces than the other: some may be longer.
	limit -= limit >> 8
	for more := surelyFits(limit); more > 0; more = surelyFits(limit - out.n) {
		read, err := io.CopyN(z, block, more)
		n += read
		if errors.Is(err, io.EOF) {
			break
		}
		if err == nil {
			err = z.Flush()
		}
		if err != nil {
			return n, err
		}
	}
	return n, nil
}
