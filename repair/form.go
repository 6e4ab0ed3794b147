package repair

import (
	"bytes"
	"encoding/binary"
	"io"
	"strings"

	"github.com/warctee/warctee/warc"
)

var (
	gzipMagic = []byte{0x1f, 0x8b, 8}          // RFC 1952 §2.3.1
	zstdMagic = []byte{0x28, 0xb5, 0x2f, 0xfd} // RFC 8878 §3.1.1
	dictMagic = binary.LittleEndian.AppendUint32(nil, zstdDictionary)
)

// sniff tells how the input is compressed: by its first bytes, else by its name,
// else by what is found first in it.
func (r *repairer) sniff() (warc.Compression, error) {
	c := newCursor(r.in)
	start, _ := c.br.Peek(8)
	switch {
	case bytes.HasPrefix(start, gzipMagic):
		return warc.Gzip, nil
	case bytes.HasPrefix(start, zstdMagic), bytes.HasPrefix(start, dictMagic):
		return warc.Zstd, nil
	case bytes.HasPrefix(start, []byte(version)):
		return warc.Plain, nil
	}
	name := strings.TrimSuffix(r.opts.Name, ".open")
	for _, form := range []warc.Compression{warc.Gzip, warc.Zstd, warc.Plain} {
		if strings.HasSuffix(name, ".warc"+form.Suffix()) {
			return form, nil
		}
	}
	for _, form := range []warc.Compression{warc.Gzip, warc.Zstd} {
		p := newPacked(r.ctx, r.in, form, "")
		at, err := p.search(0)
		p.close()
		if err != nil || at < r.in.size {
			return form, err
		}
	}
	return warc.Plain, nil
}

func magicOf(form warc.Compression) []byte {
	if form == warc.Zstd {
		return zstdMagic
	}
	return gzipMagic
}

// memberOf returns what a record is packed in.
func memberOf(form warc.Compression) string {
	if form == warc.Zstd {
		return "zstd frame"
	}
	return "gzip member"
}

func decoderOf(form warc.Compression, in *source) decoder {
	if form == warc.Zstd {
		return newZstdDecoder(in)
	}
	return newGzipDecoder(in)
}

// write writes a record in the form of the file.
func (r *repairer) write(rec *found) error {
	block := io.NewSectionReader(rec.in, rec.block, rec.length)
	switch r.sum.Compression {
	case warc.Gzip:
		if _, err := r.out.Write(warc.AppendMemberStart(nil, rec.head)); err != nil {
			return err
		}
		done, err := warc.Deflate(r.out, block)
		if err != nil {
			return err
		}
		_, err = r.out.Write(warc.AppendMemberEnd(nil, rec.head, done))
		return err
	case warc.Zstd:
		return warc.WriteFrame(r.out, r.dict, rec.head, block, rec.length)
	}
	_, err := io.Copy(r.out, io.MultiReader(bytes.NewReader(rec.head), block, strings.NewReader(recordEnd)))
	return err
}
