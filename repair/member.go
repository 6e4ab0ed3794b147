package repair

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"github.com/warctee/warctee/warc"
)

// A decoder decompresses one gzip member or zstd frame after the other.
type decoder interface {
	// start begins with what is at offset. The error says why it is none.
	start(offset int64) error
	// Read ends in io.EOF when the member is whole. Other errors say that it is
	// damaged, if the input has not failed.
	io.Reader
	// end returns where the member ends, after io.EOF or errChecksum.
	end() int64
	// checked reports whether the member, when it is whole, has a right checksum.
	checked() bool
	close()
}

// errChecksum says that a member was read to its end, where its checksum is
// wrong.
var errChecksum = errors.New("its checksum is wrong")

// A gzipDecoder reads gzip members (RFC 1952).
type gzipDecoder struct {
	c *cursor
	z *gzip.Reader
}

func newGzipDecoder(in *source) *gzipDecoder {
	return &gzipDecoder{c: newCursor(in), z: new(gzip.Reader)}
}

func (d *gzipDecoder) start(offset int64) error {
	d.c.seek(offset)
	if head, err := d.c.br.Peek(10); err != nil || !bytes.HasPrefix(head, gzipMagic) || head[3] > 0x1f {
		return errors.New("no gzip member starts here")
	}
	if err := d.z.Reset(d.c.br); err != nil {
		return fmt.Errorf("its gzip head: %w", err)
	}
	d.z.Multistream(false)
	return nil
}

func (d *gzipDecoder) Read(p []byte) (int, error) {
	n, err := d.z.Read(p)
	if err == gzip.ErrChecksum {
		err = errChecksum
	}
	return n, err
}

func (d *gzipDecoder) end() int64    { return d.c.offset() }
func (d *gzipDecoder) checked() bool { return true }
func (d *gzipDecoder) close()        {}

// A zstdDecoder reads zstd frames (RFC 8878), skippable ones as empty ones. The
// first of a file may be one with a dictionary (IIPC, Zstandard in WARC).
type zstdDecoder struct {
	in       *source
	walk     *cursor
	data     *cursor
	z        *zstd.Decoder
	frameEnd int64
	skipped  bool // the frame is a skippable one
	sum      bool // the frame has a checksum
	ended    bool
}

const (
	zstdSkippable  = 0x184D2A50 // to 0x184D2A5F
	zstdDictionary = 0x184D2A5D // with the dictionary
)

func newZstdDecoder(in *source) *zstdDecoder {
	return &zstdDecoder{in: in, walk: newCursor(in), data: newCursor(in)}
}

func (d *zstdDecoder) start(offset int64) error {
	if d.z == nil {
		if err := d.open(); err != nil {
			return err
		}
	}
	d.ended = false
	var err error
	if d.frameEnd, d.skipped, err = d.frame(offset); err != nil || d.skipped {
		return err
	}
	d.data.seek(offset)
	// What it reads is bounded by the frame: a second one would be read as well.
	if err := d.z.Reset(io.LimitReader(d.data.br, d.frameEnd-offset)); err != nil {
		return fmt.Errorf("its zstd frame: %w", err)
	}
	return nil
}

// open makes the decoder, with the dictionary of the file. Without one that can
// be read the frames tell what they miss.
func (d *zstdDecoder) open() error {
	opts := []zstd.DOption{zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(warc.MaxWindow)}
	if dict := readDictionary(d.in); dict != nil {
		opts = append(opts, zstd.WithDecoderDicts(dict.Bytes()))
	}
	var err error
	d.z, err = zstd.NewReader(nil, opts...)
	return err
}

// readDictionary returns the dictionary of a file, nil when there is none that
// can be read.
func readDictionary(in *source) *warc.Dictionary {
	dict, _ := warc.ReadDictionary(io.NewSectionReader(in, 0, in.size))
	return dict
}

// frame returns where the frame at offset ends (RFC 8878 §3.1).
func (d *zstdDecoder) frame(offset int64) (end int64, skippable bool, err error) {
	damaged := errors.New("no whole zstd frame starts here")
	d.walk.seek(offset)
	head, _ := d.walk.br.Peek(18)
	if len(head) < 8 {
		return 0, false, damaged
	}
	magic := binary.LittleEndian.Uint32(head)
	if magic&^0xf == zstdSkippable {
		end = offset + 8 + int64(binary.LittleEndian.Uint32(head[4:]))
		if end > d.in.size {
			return 0, false, damaged
		}
		return end, true, nil
	}
	if !bytes.HasPrefix(head, zstdMagic) {
		return 0, false, damaged
	}
	var h zstd.Header
	if err := h.Decode(head); err != nil {
		return 0, false, damaged
	}
	d.sum = h.HasCheckSum
	at := offset + int64(h.HeaderSize)
	for last := false; !last; {
		d.walk.seek(at)
		b, _ := d.walk.br.Peek(3)
		if len(b) < 3 {
			return 0, false, damaged
		}
		block := uint32(b[0]) | uint32(b[1])<<8 | uint32(b[2])<<16
		size := int64(block >> 3)
		last = block&1 == 1
		switch block >> 1 & 3 {
		case 1: // one octet, repeated
			size = 1
		case 3:
			return 0, false, damaged
		}
		at += 3 + size
	}
	if h.HasCheckSum {
		at += 4
	}
	if at > d.in.size {
		return 0, false, damaged
	}
	return at, false, nil
}

func (d *zstdDecoder) checked() bool { return d.sum }

func (d *zstdDecoder) Read(p []byte) (int, error) {
	if d.skipped || d.ended {
		return 0, io.EOF
	}
	n, err := d.z.Read(p)
	if errors.Is(err, zstd.ErrCRCMismatch) {
		err = errChecksum
	}
	d.ended = err == io.EOF
	return n, err
}

func (d *zstdDecoder) end() int64 { return d.frameEnd }

func (d *zstdDecoder) close() {
	if d.z != nil {
		d.z.Close()
	}
}

// readerSize is how much of a decompressed member is in memory.
const readerSize = 32 << 10

func newReader() *bufio.Reader { return bufio.NewReaderSize(nil, readerSize) }
