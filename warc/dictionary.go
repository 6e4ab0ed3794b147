package warc

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/klauspost/compress/dict"
	"github.com/klauspost/compress/zstd"
)

// MaxDictionary bounds a zstd dictionary, compressed or not, in bytes: what the
// IIPC text wants readers to take.
const MaxDictionary = 8 << 20

const (
	dictionaryMagic      = "\x37\xa4\x30\xec" // of a dictionary (RFC 8878 §5)
	dictionaryFrameMagic = "\x5d\x2a\x4d\x18" // of the skippable frame it is in (IIPC)
)

// A Dictionary is what the zstd frames of a file have in common: it makes short
// records shorter. A nil *Dictionary means that there is none. It is safe for
// concurrent use.
type Dictionary struct {
	raw      []byte
	id       uint32
	encoders sync.Pool // of *zstd.Encoder
}

// NewDictionary returns a dictionary in the format of RFC 8878 §5, as the
// program zstd and TrainDictionary make it. It may be compressed.
func NewDictionary(b []byte) (*Dictionary, error) {
	if len(b) > MaxDictionary {
		return nil, fmt.Errorf("warc: the dictionary has more than %d bytes", MaxDictionary)
	}
	if bytes.HasPrefix(b, []byte(zstdMagic)) {
		z, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(MaxDictionary))
		if err != nil {
			return nil, err
		}
		defer z.Close()
		if b, err = z.DecodeAll(b, nil); err != nil {
			return nil, fmt.Errorf("warc: the compressed dictionary is damaged: %w", err)
		}
	}
	if !bytes.HasPrefix(b, []byte(dictionaryMagic)) {
		return nil, fmt.Errorf("warc: this is no zstd dictionary: it starts with %.4q, not with %q", b, dictionaryMagic)
	}
	parsed, err := zstd.InspectDictionary(b)
	if err != nil {
		return nil, fmt.Errorf("warc: the dictionary is damaged: %w", err)
	}
	if parsed.ID() == 0 {
		return nil, errors.New("warc: the dictionary has no id")
	}
	return &Dictionary{raw: bytes.Clone(b), id: parsed.ID()}, nil
}

// Bytes returns the dictionary, not compressed.
func (d *Dictionary) Bytes() []byte { return d.raw }

// ID returns the id that the frames name, 0 for none.
func (d *Dictionary) ID() uint32 {
	if d == nil {
		return 0
	}
	return d.id
}

// AppendFrame appends the frame with which a file starts that uses the
// dictionary; nothing when there is none.
func (d *Dictionary) AppendFrame(dst []byte) []byte {
	if d == nil {
		return dst
	}
	dst = append(dst, dictionaryFrameMagic...)
	dst = binary.LittleEndian.AppendUint32(dst, uint32(len(d.raw)))
	return append(dst, d.raw...)
}

// ReadDictionary reads the dictionary at the start of a file. It returns nil
// when the file has none, or is not compressed with zstd.
func ReadDictionary(r io.Reader) (*Dictionary, error) {
	in := bufio.NewReaderSize(r, 64)
	start, err := in.Peek(len(dictionaryFrameMagic))
	if err != nil && err != io.EOF {
		return nil, err
	}
	if string(start) != dictionaryFrameMagic {
		return nil, nil
	}
	return readDictionary(in)
}

// readDictionary reads a dictionary frame, whose magic number has been seen.
func readDictionary(in *bufio.Reader) (*Dictionary, error) {
	var head [8]byte
	if _, err := io.ReadFull(in, head[:]); err != nil {
		return nil, fmt.Errorf("warc: the dictionary is cut: %w", err)
	}
	size := int64(binary.LittleEndian.Uint32(head[4:]))
	if size > MaxDictionary {
		return nil, fmt.Errorf("warc: the dictionary has %d bytes, more than %d", size, MaxDictionary)
	}
	var b bytes.Buffer // grows with what there is
	if _, err := io.CopyN(&b, in, size); err != nil {
		if err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		return nil, fmt.Errorf("warc: the dictionary is cut: %w", err)
	}
	return NewDictionary(b.Bytes())
}

// TrainDictionary makes a dictionary of at most size bytes for records like the
// samples, which are whole records, or their first parts: what is far from the
// start of a record gains nothing by it. It takes about half a second and 30 MB of
// memory for each MB of them. The size may be 0 for 112640, which is that of the
// program zstd. Without enough in common there is an error.
func TrainDictionary(samples [][]byte, size int) (d *Dictionary, err error) {
	if size == 0 {
		size = 110 << 10
	}
	defer func() { // what the builder does with odd samples is not all known
		if p := recover(); p != nil {
			d, err = nil, fmt.Errorf("warc: training a dictionary: %v", p)
		}
	}()
	raw, err := dict.BuildZstdDict(samples, dict.Options{MaxDictSize: size, HashBytes: 6, ZstdDictCompat: true, ZstdLevel: zstdLevel})
	if err != nil {
		return nil, fmt.Errorf("warc: training a dictionary: %w", err)
	}
	return NewDictionary(raw)
}
