package warc

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
)

// WriterOptions say in which form a [Writer] writes.
type WriterOptions struct {
	Version Version // empty: 1.1
	Plain   bool    // no gzip
}

// A Writer writes records one after the other, each as a gzip member of its
// own or plain. After an error it writes nothing more. It is not safe for
// concurrent use.
type Writer struct {
	w    io.Writer
	opts WriterOptions
	buf  []byte // header and frame of a record
	err  error
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
	if w.opts.Plain {
		w.err = w.writePlain(header, block, length)
	} else {
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

func (w *Writer) writeMember(header []byte, block io.Reader, length int64) error {
	if block != nil && length > maxShort {
		ahead := bufio.NewReaderSize(block, maxStored)
		if start, _ := ahead.Peek(int(min(length, maxStored))); !Compresses(start) {
			return w.writeStored(header, ahead, length)
		}
		block = ahead
	}
	w.buf = AppendMemberStart(w.buf[:0], header)
	if _, err := w.w.Write(w.buf); err != nil {
		return fmt.Errorf("warc: writing a header: %w", err)
	}
	d, err := Deflate(w.w, block)
	if err != nil {
		return err
	}
	w.buf = AppendMemberEnd(w.buf[:0], header, d)
	if _, err := w.w.Write(w.buf); err != nil {
		return fmt.Errorf("warc: writing the end of a record: %w", err)
	}
	return checkLength(d.Size-int64(len(recordEnd)), length)
}

func (w *Writer) writeStored(header []byte, block io.Reader, length int64) error {
	if _, err := io.Copy(w.w, StoredMember(header, nil, block, length)); err != nil {
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
