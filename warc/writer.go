package warc

import (
	"bufio"
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
)

// WriterOptions say in which form a [Writer] writes.
type WriterOptions struct {
	Version     Version     // empty: 1.1
	Compression Compression // Gzip by default

	// Dictionary is written at the start, and used for all records. It is for
	// Zstd only.
	Dictionary *Dictionary

	// SkipLengths writes into the head of each gzip member how long it is, so
	// that a [Reader] of a file need not decompress what nobody reads: the extra
	// field "sl" from the drafts 0.9 to 0.12 of WARC. It is left out where a
	// length is 4 GiB or more, or where more than 16 MiB of deflated block would
	// have to be held back for it. It is for Gzip only.
	SkipLengths bool
}

// maxHeld is how much of a deflated block is held back until its length is
// known.
const maxHeld = 16 << 20

// A Writer writes records one after the other, each as a gzip member or zstd
// frame of its own, or plain. After an error it writes nothing more. It is not
// safe for concurrent use.
type Writer struct {
	w     io.Writer
	opts  WriterOptions
	begun bool   // what a file starts with has been written
	buf   []byte // header and frame of a record
	held  bytes.Buffer
	err   error
}

// NewWriter returns a Writer to w, which needs no buffering.
func NewWriter(w io.Writer, opts WriterOptions) *Writer {
	return &Writer{w: w, opts: opts}
}

// WriteRecord writes one record, whose block is the whole of block and has
// length octets. A nil block is an empty one. Content-Length is added when h
// does not have it; all other fields are the caller's matter. It is an error
// when block has another length, or when h cannot be encoded; the latter
// leaves the Writer usable.
func (w *Writer) WriteRecord(h Header, block io.Reader, length int64) error {
	if w.err != nil {
		return w.err
	}
	want := strconv.FormatInt(length, 10)
	switch got := h.Get("Content-Length"); got {
	case want:
	case "":
		h = append(slices.Clip(h), Field{"Content-Length", want})
	default:
		return fmt.Errorf("warc: Content-Length is %s for a block of %d octets", got, length)
	}
	header, err := h.Encode(nil, w.opts.Version)
	if err != nil {
		return err
	}
	return w.WriteRaw(header, block, length)
}

// WriteRaw is WriteRecord with a header that is written as it is, such as the
// Raw of a [Record]. That it is one, and tells the length, is the caller's
// matter.
func (w *Writer) WriteRaw(header []byte, block io.Reader, length int64) error {
	if w.err != nil {
		return w.err
	}
	switch w.opts.Compression {
	case Plain:
		w.err = w.writePlain(header, block, length)
	case Zstd:
		w.err = w.writeFrame(header, block, length)
	default:
		w.err = w.writeMember(header, block, length)
	}
	return w.err
}

func (w *Writer) writePlain(header []byte, block io.Reader, length int64) error {
	if _, err := w.w.Write(header); err != nil {
		return fmt.Errorf("warc: writing a header: %w", err)
	}
	n := int64(0)
	if block != nil {
		var err error
		if n, err = io.Copy(w.w, block); err != nil {
			return fmt.Errorf("warc: writing a block: %w", err)
		}
	}
	if _, err := io.WriteString(w.w, recordEnd); err != nil {
		return fmt.Errorf("warc: writing the end of a record: %w", err)
	}
	return checkLength(n, length)
}

// look reports whether a block is better stored. The block to write is in ahead.
func look(block io.Reader, length int64) (ahead io.Reader, stored bool) {
	if block == nil || length <= maxShort {
		return block, false
	}
	b := bufio.NewReaderSize(block, maxStored)
	start, _ := b.Peek(int(min(length, maxStored))) // an error comes again
	return b, !Compresses(start)
}

func (w *Writer) writeFrame(header []byte, block io.Reader, length int64) error {
	if !w.begun && w.opts.Dictionary != nil {
		if _, err := w.w.Write(w.opts.Dictionary.AppendFrame(nil)); err != nil {
			return fmt.Errorf("warc: writing the dictionary: %w", err)
		}
	}
	w.begun = true
	block, stored := look(block, length)
	if !stored {
		return WriteFrame(w.w, w.opts.Dictionary, header, block, length)
	}
	frame, err := StoredFrame(w.opts.Dictionary, header, nil, block, length)
	if err != nil {
		return err
	}
	return w.copyStored(frame, block, length)
}

func (w *Writer) writeMember(header []byte, block io.Reader, length int64) error {
	block, stored := look(block, length)
	if stored {
		return w.copyStored(newStoredMember(header, nil, block, length, w.opts.SkipLengths), block, length)
	}
	d, err := w.writeStart(header, block)
	if err != nil {
		return err
	}
	w.buf = AppendMemberEnd(w.buf[:0], header, d)
	if _, err := w.w.Write(w.buf); err != nil {
		return fmt.Errorf("warc: writing the end of a record: %w", err)
	}
	return checkLength(d.Size-int64(len(recordEnd)), length)
}

// writeStart writes a member but for its end.
func (w *Writer) writeStart(header []byte, block io.Reader) (Deflated, error) {
	w.buf = AppendMemberStart(w.buf[:0], header)
	if !w.opts.SkipLengths {
		if _, err := w.w.Write(w.buf); err != nil {
			return Deflated{}, fmt.Errorf("warc: writing a header: %w", err)
		}
		return Deflate(w.w, block)
	}
	h := &holder{w: w.w, start: w.buf}
	w.held.Reset()
	h.held = &w.held
	d, err := Deflate(h, block)
	if err != nil || h.passing {
		return d, err
	}
	w.buf = AppendSkippableStart(w.buf[:0], header, d, int64(w.held.Len()))
	if _, err = w.w.Write(w.buf); err == nil {
		_, err = w.held.WriteTo(w.w)
	}
	if err != nil {
		return d, fmt.Errorf("warc: writing a record: %w", err)
	}
	return d, nil
}

// A holder holds back what is written to it, as long as that is not too much.
type holder struct {
	w       io.Writer
	start   []byte // comes first when nothing is held back any more
	held    *bytes.Buffer
	passing bool // nothing is
}

func (h *holder) Write(p []byte) (int, error) {
	if !h.passing && h.held.Len()+len(p) <= maxHeld {
		return h.held.Write(p)
	}
	if !h.passing {
		h.passing = true
		if _, err := h.w.Write(h.start); err != nil {
			return 0, err
		}
		if _, err := h.held.WriteTo(h.w); err != nil {
			return 0, err
		}
		*h.held = bytes.Buffer{} // it is big
	}
	return h.w.Write(p)
}

// copyStored writes what reads block to its end.
func (w *Writer) copyStored(stored, block io.Reader, length int64) error {
	if _, err := io.Copy(w.w, stored); err != nil {
		return fmt.Errorf("warc: writing a block: %w", err)
	}
	if n, err := io.Copy(io.Discard, block); n > 0 || err != nil {
		return cmp.Or(err, checkLength(length+n, length))
	}
	return nil
}

func checkLength(n, length int64) error {
	if n != length {
		return errors.New("warc: the block has " + strconv.FormatInt(n, 10) + " octets, not " + strconv.FormatInt(length, 10))
	}
	return nil
}
