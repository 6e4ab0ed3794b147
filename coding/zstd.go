package coding

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"sync"

	"github.com/klauspost/compress/zstd"
)

// startWindow bounds what Start decodes, in octets: of each coding, and so what a
// zstd frame may look back to. A block of zstd has no more (RFC 8878 §3.1.1.2.4).
const startWindow = 128 << 10

// startWindowDescriptor says startWindow in the head of a frame (§3.1.1.1.2).
const startWindowDescriptor = (17 - 10) << 3

// The decoders keep their windows: to make one costs far more than to decode
// what is short.
var (
	zstdDecoders  = decoderPool(zstd.WithDecoderMaxMemory(maxWindow))
	startDecoders = decoderPool(zstd.WithDecoderMaxWindow(startWindow))
)

func decoderPool(bound zstd.DOption) *sync.Pool {
	return &sync.Pool{New: func() any {
		z, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), bound)
		if err != nil {
			panic(err) // the options are constants
		}
		return z
	}}
}

// A zstdReader gives its decoder back at the first error, which may be io.EOF.
type zstdReader struct {
	pool *sync.Pool
	z    *zstd.Decoder // nil after that
	err  error
}

func newZstdReader(pool *sync.Pool, r io.Reader) (*zstdReader, error) {
	z := pool.Get().(*zstd.Decoder)
	if err := z.Reset(r); err != nil {
		return nil, err
	}
	return &zstdReader{pool: pool, z: z}, nil
}

func (d *zstdReader) Read(p []byte) (n int, err error) {
	if d.z == nil {
		return 0, d.err
	}
	z := d.z
	d.z, d.err = nil, errPanic // until it has returned
	n, err = z.Read(p)
	if d.z, d.err = z, nil; err != nil {
		d.err = err
		d.release()
	}
	return n, err
}

// errPanic: a decoder that has panicked is not used again.
var errPanic = errors.New("the decoder has panicked")

// release gives the decoder back before the end.
func (d *zstdReader) release() {
	if d.z == nil {
		return
	}
	if d.err == nil {
		d.err = io.ErrClosedPipe
	}
	if d.z.Reset(nil) == nil {
		d.pool.Put(d.z)
	}
	d.z = nil
}

// startOfZstd returns a reader of r in which the first frame asks for no larger
// window than startWindow: whoever reads no more than that needs none.
func startOfZstd(r io.Reader) io.Reader {
	in := bufio.NewReaderSize(r, 64)
	for {
		start, _ := in.Peek(zstd.HeaderMaxSize) // an error comes again
		var head zstd.Header
		if head.Decode(start) != nil {
			return in
		}
		if head.Skippable {
			if _, err := in.Discard(head.HeaderSize); err != nil {
				return in
			}
			if _, err := io.CopyN(io.Discard, in, int64(head.SkippableSize)); err != nil {
				return in
			}
			continue
		}
		window := head.WindowSize
		if head.SingleSegment {
			window = head.FrameContentSize
		}
		if window <= startWindow {
			return in
		}
		// Without a content size: descriptor, window and the id of a dictionary.
		const singleSegment, sizeFlags, idFlags = 1 << 5, 3 << 6, 3
		descriptor := start[4]
		idAt := 5
		if descriptor&singleSegment == 0 {
			idAt++
		}
		id := start[idAt:][:[]int{0, 1, 2, 4}[descriptor&idFlags]]
		own := append(bytes.Clone(start[:4]), descriptor&^(singleSegment|sizeFlags), startWindowDescriptor)
		own = append(own, id...)
		in.Discard(head.HeaderSize) // cannot fail: it was peeked
		return io.MultiReader(bytes.NewReader(own), in)
	}
}

// Start reads the start of what was in r before the codings were applied, as
// [io.ReadFull] does; p has at most 128 KiB. What it costs is bounded by what it
// reads of r, whatever the codings ask for. Errors are those of NewReader and
// its reader.
func Start(r io.Reader, codings []string, p []byte) (n int, err error) {
	var decoders []*zstdReader
	defer func() {
		for _, d := range decoders {
			d.release()
		}
	}()
	payload, err := newReader(r, codings, func(coding string, r io.Reader) (io.Reader, error) {
		decoder, err := remove(coding, r, startOfZstd, startDecoders)
		if err != nil {
			return nil, err
		}
		if d, ok := decoder.(*zstdReader); ok {
			decoders = append(decoders, d)
		}
		return io.LimitReader(decoder, startWindow), nil
	})
	if err != nil {
		return 0, err
	}
	return io.ReadFull(payload, p)
}
