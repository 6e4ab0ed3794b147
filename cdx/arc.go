package cdx

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/warctee/warctee/arc"
	"github.com/warctee/warctee/container"
	"github.com/warctee/warctee/warc"
)

// isARC reports whether the file is an ARC file.
func (s *scanner) isARC() bool {
	form, err := container.FormOf(s.file, s.file.Size)
	return err == nil && form == container.ARC
}

func (s *scanner) arcReader() *arc.Reader {
	return arc.NewReader(io.NewSectionReader(s.file, 0, s.file.Size))
}

// scanARC reads an ARC file to its end, or to where it is damaged.
func (s *scanner) scanARC(ctx context.Context) error {
	r := s.arcReader()
	var start [2]byte
	s.file.ReadAt(start[:], 0)
	plain := start != [2]byte{0x1f, 0x8b}
	var last *held
	for {
		rec, err := r.Next()
		s.progress(r.InputOffset())
		if err == nil {
			err = ctx.Err()
		}
		var broken *arc.Error
		switch {
		case err == io.EOF:
			return s.whole(last, r.InputOffset())
		case errors.As(err, &broken):
			s.tell(fmt.Errorf("%s: %w: not indexed from there on", s.file.Path, broken))
			if last == nil || broken.Offset <= last.offset {
				return nil
			}
			return s.whole(last, broken.Offset)
		case err != nil:
			return err
		}
		s.records++
		if last != nil && last.offset == rec.Offset && !plain {
			s.sharedMember(rec.Offset)
			continue
		}
		if err := s.whole(last, rec.Offset); err != nil {
			return err
		}
		if last = s.readARC(rec, r); last != nil && plain {
			last.end = r.InputOffset()
		}
	}
}

// readLength reads the rest of a block, and reports a length that is wrong.
func (s *scanner) readLength(rec *arc.Record, r *arc.Reader) {
	if _, err := io.Copy(io.Discard, r); err != nil {
		return // it comes again at Next
	}
	excess := r.Excess()
	switch place := fmt.Sprintf("%s: record at offset %d", s.file.Path, rec.Offset); {
	case rec.Damage != nil:
		s.tell(fmt.Errorf("%s: %w: its block of %d octets ends where the next record starts: indexed so", place, rec.Damage, rec.Length+excess))
	case excess != 0:
		s.tell(fmt.Errorf("%s: its line says that the block has %d octets, but it has %d: indexed so", place, rec.Length, rec.Length+excess))
	}
}

// readARC looks at a record of an ARC file as if it were one of a WARC file, and reads
// it to its end. It returns nil for one that has no line.
func (s *scanner) readARC(rec *arc.Record, block *arc.Reader) *held {
	defer s.readLength(rec, block)
	if rec.Filedesc() {
		return nil
	}
	date, err := rec.Time()
	if err != nil {
		return &held{offset: rec.Offset, err: fmt.Errorf("%s: record at offset %d: %w", s.file.Path, rec.Offset, err)}
	}
	content := rec.Type
	if scheme := lower(rec.URL); strings.HasPrefix(scheme, "http:") || strings.HasPrefix(scheme, "https:") {
		content = "application/http; msgtype=response"
	}
	length := rec.Length
	if rec.Damage != nil {
		length = 1 // it is not known, and may be more than nothing
	}
	h := s.read(&warc.Record{
		Version: warc.V1_1,
		Header: warc.Header{
			{Name: "WARC-Type", Value: warc.TypeResponse},
			{Name: "WARC-Target-URI", Value: rec.URL},
			{Name: "WARC-Date", Value: warc.FormatDate(date, warc.V1_1)},
			{Name: "Content-Type", Value: content},
		},
		Length: length,
	}, rec.Offset, block)
	if h.entry != nil && h.entry.MIME == "unk" && rec.Type != "no-type" && rec.Type != "" {
		h.entry.MIME = mediaType(rec.Type)
	}
	h.capture = false // there are no requests
	return h
}
