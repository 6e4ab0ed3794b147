package warc

import (
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"strings"
)

// Skip lengths tell in the head of a gzip member how long it is, before and after
// decompression, so that it can be left behind without that. They are an extra
// field (RFC 1952 §2.3.1.1) from the drafts 0.9 to 0.12 of WARC ("GZIP extra
// field: skip-lengths"), which wget writes too. Readers that do not know it
// ignore it.
type skipLengths struct {
	member, content uint32 // octets
	ok              bool
}

// skipHead starts a member with skip lengths, which come next.
const skipHead = "\x1f\x8b\x08\x04\x00\x00\x00\x00\x00\xff" + "\x0c\x00" + skipField

// skipField starts the field: its name and its length.
const skipField = "sl\x08\x00"

const skipSize = len(skipHead) + 8

// appendSkipHead appends the head of a member, with room for skip lengths.
func appendSkipHead(dst []byte) []byte { return append(append(dst, skipHead...), make([]byte, 8)...) }

// setSkipLengths fills the room in the head of a member. Lengths that are too
// big for it are not possible; fitsSkip tells.
func setSkipLengths(head []byte, member, content int64) {
	binary.LittleEndian.PutUint32(head[len(skipHead):], uint32(member))
	binary.LittleEndian.PutUint32(head[len(skipHead)+4:], uint32(content))
}

func fitsSkip(member, content int64) bool { return max(member, content) <= math.MaxUint32 }

// parseSkipLengths looks for skip lengths in an extra field.
func parseSkipLengths(extra []byte) (s skipLengths) {
	for len(extra) >= 4 {
		n := 4 + int(binary.LittleEndian.Uint16(extra[2:]))
		if n > len(extra) {
			break
		}
		if n == 4+8 && string(extra[:4]) == skipField {
			return skipLengths{binary.LittleEndian.Uint32(extra[4:]), binary.LittleEndian.Uint32(extra[8:]), true}
		}
		extra = extra[n:]
	}
	return s
}

// checkSkipLengths is called at the end of a gzip member. Some writers write big
// lengths modulo 2³².
func (r *Reader) checkSkipLengths() error {
	if member := r.InputOffset() - r.member; r.sl.ok && (r.sl.member != uint32(member) || r.sl.content != uint32(r.out.n)) {
		return r.broken(RuleMember, fmt.Errorf("its skip lengths are %d and %d: the gzip member has %d bytes, its content %d", r.sl.member, r.sl.content, member, r.out.n))
	}
	return nil
}

// minSeek is how much of a plain block is worth a seek.
const minSeek = 256 << 10

// skip leaves the rest of the block behind without reading it, where it can.
func (r *Reader) skip() error {
	if r.left <= int64(r.in.Buffered()) {
		return nil
	}
	end := int64(len(recordEnd))
	content := r.out.n - int64(r.in.Buffered()) + r.left + end // of the member, if nothing comes behind the record
	switch {
	case r.zs != nil:
		if r.zs.size() != content {
			return nil
		}
		if err := r.zs.skip(); err != nil {
			return r.inputError(err)
		}
	case r.gz != nil:
		rest := r.member + int64(r.sl.member) - r.InputOffset()
		if !r.sl.ok || rest < 4 || int64(r.sl.content) != content || !r.endsMember(rest) {
			return nil
		}
		if err := r.jump(rest); err != nil {
			return err
		}
	default:
		if r.left-int64(r.raw.Buffered()) < minSeek || string(r.peekAt(r.left, len(recordEnd))) != recordEnd {
			return nil
		}
		err := r.jump(r.left)
		r.left = 0
		return err
	}
	r.in.Reset(strings.NewReader(""))
	r.left, r.inside = 0, false
	return nil
}

// endsMember reports whether a gzip member of that content may end rest bytes
// from here: its size comes before (RFC 1952 §2.3.1), another member, or nothing,
// behind.
func (r *Reader) endsMember(rest int64) bool {
	b := r.peekAt(rest-4, 4+3)
	if len(b) < 4 || binary.LittleEndian.Uint32(b) != r.sl.content {
		return false
	}
	return len(b) == 4 || string(b[4:]) == gzipHead[:3]
}

// peekAt returns up to n bytes of the input, at most 8, which are ahead bytes from
// here; none when that is not possible.
func (r *Reader) peekAt(ahead int64, n int) []byte {
	if ahead <= int64(r.raw.Buffered()-n) {
		b, _ := r.raw.Peek(int(ahead) + n) // cannot fail: it is there
		return b[ahead:]
	}
	src, ok := r.src.(interface {
		io.Seeker
		io.ReaderAt
	})
	if !ok {
		return nil
	}
	here, err := src.Seek(0, io.SeekCurrent) // behind what is buffered
	if err != nil || ahead > math.MaxInt64-here {
		return nil
	}
	b := make([]byte, n)
	n, err = src.ReadAt(b, here-int64(r.raw.Buffered())+ahead)
	if err != nil && err != io.EOF {
		return nil // reading on tells of it
	}
	return b[:n]
}

// jump goes n bytes forward in the input, to where peekAt has looked.
func (r *Reader) jump(n int64) error {
	beyond := n - int64(r.raw.Buffered())
	if beyond <= 0 {
		r.raw.Discard(int(n)) // cannot fail: it is there
		return nil
	}
	if _, err := r.src.(io.Seeker).Seek(beyond, io.SeekCurrent); err != nil {
		return fmt.Errorf("warc: seeking at offset %d: %w", r.count.n, err)
	}
	r.count.n += beyond
	r.raw.Reset(&r.count)
	return nil
}
