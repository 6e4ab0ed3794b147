package warc

import (
	"encoding/binary"
	"hash/crc32"
	"io"
	"sync"

	"github.com/cespare/xxhash/v2"
	"github.com/klauspost/compress"
)

// incompressible is the estimate below which a payload is better stored: package
// compress calls what is above it likely to compress.
const incompressible = 0.1

// Compresses judges whether [Deflate] makes a payload shorter, by some samples.
// None is from its start: a format is declared there. The first 64 KiB of a
// payload are enough.
func Compresses(payload []byte) bool {
	n := min(len(payload)/(2*sampleSize), maxSamples)
	if n == 0 {
		return estimate(payload)
	}
	samples := samplePool.Get().(*[maxSamples * sampleSize]byte)
	defer samplePool.Put(samples)
	for i := range n {
		at := (len(payload) - sampleSize) * (i + 1) / (n + 1)
		copy(samples[i*sampleSize:], payload[at:at+sampleSize])
	}
	return estimate(samples[:n*sampleSize])
}

// estimate knows without looking closer that ASCII compresses: an octet of it has
// seven bits at most.
func estimate(payload []byte) bool {
	for _, c := range payload {
		if c >= 0x80 {
			return compress.Estimate(payload) >= incompressible
		}
	}
	return len(payload) > 0
}

const (
	sampleSize = 1 << 10
	maxSamples = 8
)

var samplePool = sync.Pool{New: func() any { return new([maxSamples * sampleSize]byte) }}

// A storedMember is read once, from its start to its end.
type storedMember struct {
	ready   []byte // comes next
	payload io.Reader
	rest    int64 // octets of the payload that have not been read
	block   int64 // of these in the stored block that has begun
	last    bool  // it is the last one
	ended   bool  // ready is the end of the member
	crc     uint32
	xx      *xxhash.Digest // not nil: it is a zstd frame
	size    int64          // octets of the record
}

// StoredMember returns a gzip member to read: of the header of a record, and of
// a block that consists of head and of size octets of payload, which are not
// compressed and so need not be copied beforehand. It is for payloads that
// [Compresses] says no of. A payload that is too short is an
// [io.ErrUnexpectedEOF].
func StoredMember(header, head []byte, payload io.Reader, size int64) io.Reader {
	return newStoredMember(header, head, payload, size, false)
}

// SkippableStoredMember is [StoredMember] with skip lengths in the head; see
// [WriterOptions].
func SkippableStoredMember(header, head []byte, payload io.Reader, size int64) io.Reader {
	return newStoredMember(header, head, payload, size, true)
}

func newStoredMember(header, head []byte, payload io.Reader, size int64, skipLengths bool) *storedMember {
	m := &storedMember{
		payload: payload,
		rest:    size,
		crc:     crc32.Update(crc32.ChecksumIEEE(header), crc32.IEEETable, head),
		size:    int64(len(header)+len(head)+len(recordEnd)) + size,
	}
	dst := make([]byte, 0, skipSize+len(header)+len(head))
	if !skipLengths {
		w := memberStart(dst, header)
		w.blocks(head, &ofMessages)
		m.begin(w)
		return m
	}
	w := bitWriter{b: appendSkipHead(dst)}
	w.blocks(header, &ofRecords)
	w.blocks(head, &ofMessages)
	m.begin(w)
	further := max(0, (size-1)/int64(pieceSize)) * (1 + 4) // heads of stored blocks
	length := int64(len(m.ready)) + size + further + int64(len(recordEnd)) + memberEnd
	if !fitsSkip(length, m.size) {
		return newStoredMember(header, head, payload, size, false)
	}
	setSkipLengths(m.ready, length, m.size)
	return m
}

// begin begins a stored block. It is the last one when the end of the record
// fits into it too.
func (m *storedMember) begin(w bitWriter) {
	piece := pieceSize
	if m.xx != nil {
		piece = maxBlock - len(recordEnd)
	}
	m.block = min(m.rest, int64(piece))
	m.last = m.block == m.rest
	n := int(m.block)
	if m.last {
		n += len(recordEnd)
	}
	if m.xx != nil {
		m.ready = rawBlock(w.b, n, m.last)
		return
	}
	w.stored(n, m.last)
	m.ready = w.b
}

// sum takes octets of the record into the checksum.
func (m *storedMember) sum(p []byte) {
	if m.xx != nil {
		m.xx.Write(p) // never fails
	} else {
		m.crc = crc32.Update(m.crc, crc32.IEEETable, p)
	}
}

func (m *storedMember) Read(p []byte) (n int, err error) {
	for len(p) > 0 && len(m.ready) == 0 && m.block == 0 {
		switch {
		case m.ended:
			return 0, io.EOF
		case m.last:
			m.end()
		default:
			m.begin(bitWriter{b: m.ready[:0]})
		}
	}
	if len(m.ready) > 0 {
		n = copy(p, m.ready)
		m.ready = m.ready[n:]
		return n, nil
	}
	n, err = m.payload.Read(p[:min(int64(len(p)), m.block)])
	m.sum(p[:n])
	m.block -= int64(n)
	m.rest -= int64(n)
	if err == io.EOF {
		if err = nil; m.rest > 0 {
			err = io.ErrUnexpectedEOF
		}
	}
	return n, err
}

// end makes ready the end of the record and that of the member (RFC 1952
// §2.3.1) or frame (RFC 8878 §3.1.1).
func (m *storedMember) end() {
	m.ready = append(m.ready[:0], recordEnd...)
	m.sum(m.ready)
	m.ended = true
	if m.xx != nil {
		m.ready = binary.LittleEndian.AppendUint32(m.ready, uint32(m.xx.Sum64()))
		return
	}
	m.ready = binary.LittleEndian.AppendUint32(m.ready, m.crc)
	m.ready = binary.LittleEndian.AppendUint32(m.ready, uint32(m.size))
}
