package warc

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"

	"github.com/klauspost/compress/zstd"
)

// MaxWindow bounds the memory that a zstd frame may want for its decoding, in
// bytes. The IIPC text wants readers to take 8 MiB; this is what the highest
// levels of the program zstd but two need.
const MaxWindow = 32 << 20

// zstdMagic starts a frame (RFC 8878 §3.1.1).
const zstdMagic = "\x28\xb5\x2f\xfd"

// maxFrameHead is how long the head of a frame can be (§3.1.1.1).
const maxFrameHead = 18

// isSkippable reports whether a skippable frame starts here (§3.1.2).
func isSkippable(b []byte) bool {
	return len(b) >= 4 && b[0]&0xf0 == 0x50 && string(b[1:4]) == dictionaryFrameMagic[1:]
}

// A frameReader reads the frames of a file. The decoder gets one frame at a
// time, so that it reads nothing of the next one, and what is between its
// blocks can be skipped without decoding it.
type frameReader struct {
	in   *bufio.Reader
	dict *Dictionary
	z    *zstd.Decoder // nil before the first frame
	head zstd.Header

	// Where the decoder is in the frame.
	rest int64 // bytes of the head, of a block, or of the checksum that come next
	last bool  // the last block has begun
	sum  bool  // the checksum is still to come
}

// next begins the next frame, at which in is.
func (f *frameReader) next() error {
	start, err := f.in.Peek(maxFrameHead)
	if len(start) == 0 {
		return err
	}
	if err := f.head.Decode(start); err != nil {
		return err
	}
	if f.head.Skippable { // the caller has seen to it
		return zstd.ErrMagicMismatch
	}
	window := f.head.WindowSize
	if f.head.SingleSegment {
		window = f.head.FrameContentSize
	}
	if window > MaxWindow {
		return fmt.Errorf("it needs a window of %d bytes, more than %d", window, int64(MaxWindow))
	}
	f.rest, f.last, f.sum = int64(f.head.HeaderSize), false, f.head.HasCheckSum
	if f.z == nil {
		if f.z, err = f.dict.decoder(); err != nil {
			return err
		}
	}
	return f.z.Reset(framePart{f})
}

// size returns how many octets the frame holds, -1 when it does not say.
func (f *frameReader) size() int64 {
	if !f.head.HasFCS || f.head.FrameContentSize > math.MaxInt64 {
		return -1
	}
	return int64(f.head.FrameContentSize)
}

// check returns what the IIPC text does not allow in the head of a frame.
func (f *frameReader) check() error {
	switch {
	case !f.head.HasFCS:
		return errors.New("the zstd frame has no content size")
	case !f.head.HasCheckSum && f.head.FrameContentSize > 0:
		return errors.New("the zstd frame has no checksum")
	case f.head.DictionaryID != f.dict.ID():
		return fmt.Errorf("the zstd frame names dictionary %d, that of the file is %d", f.head.DictionaryID, f.dict.ID())
	}
	return nil
}

// A framePart reads the bytes of the frame and ends with it.
type framePart struct{ *frameReader }

func (f framePart) Read(p []byte) (n int, err error) {
	if f.rest == 0 {
		if err := f.advance(); err != nil {
			return 0, err
		}
	}
	n, err = f.in.Read(p[:min(int64(len(p)), f.rest)])
	f.rest -= int64(n)
	if err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	return n, err
}

// advance goes to the next block, or to the checksum. Behind it there is io.EOF.
func (f *frameReader) advance() error {
	if f.last {
		if !f.sum {
			return io.EOF
		}
		f.rest, f.sum = 4, false
		return nil
	}
	b, err := f.in.Peek(3)
	if len(b) < 3 {
		if err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		return err
	}
	head := uint32(b[0]) | uint32(b[1])<<8 | uint32(b[2])<<16 // §3.1.1.2
	f.last = head&1 != 0
	f.rest = 3 + int64(head>>3)
	switch head >> 1 & 3 {
	case 1: // RLE
		f.rest = 3 + 1
	case 3:
		return errors.New("a block is of the reserved type")
	}
	return nil
}

// skip leaves the rest of the frame behind without decoding it.
func (f *frameReader) skip() error {
	for {
		for f.rest > 0 {
			n, err := f.in.Discard(int(f.rest))
			f.rest -= int64(n)
			if err != nil {
				return err
			}
		}
		if err := f.advance(); err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
	}
}

// skippable leaves a frame behind that is not for us (§3.1.2).
func skippable(in *bufio.Reader) error {
	b, err := in.Peek(8)
	if err != nil {
		return err
	}
	for n := 8 + int64(binary.LittleEndian.Uint32(b[4:])); n > 0; {
		m, err := in.Discard(int(min(n, 1<<30)))
		n -= int64(m)
		if err != nil {
			return err
		}
	}
	return nil
}
