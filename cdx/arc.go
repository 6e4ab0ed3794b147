package cdx

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/warctee/warctee/arc"
	"github.com/warctee/warctee/warc"
)

// isARC reports whether the file is an ARC file.
func (s *scanner) isARC() bool {
	rec, err := s.arcReader().Next()
	return err == nil && rec.Filedesc()
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
			if last != nil && last.end > r.InputOffset() {
				s.tell(fmt.Errorf("%s: record at offset %d: the file ends %d octets before it should: indexed as it is", s.file.Path, last.offset, last.end-r.InputOffset()))
			}
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
		end := int64(0)
		if plain {
			end = r.InputOffset() + rec.Length
		}
		if last = nil; !rec.Filedesc() {
			last = s.readARC(rec, r)
			last.end = end
		}
	}
}

// readARC looks at a record of an ARC file as if it were one of a WARC file.
func (s *scanner) readARC(rec *arc.Record, block io.Reader) *held {
	date, err := rec.Time()
	if err != nil {
		return &held{offset: rec.Offset, err: fmt.Errorf("%s: record at offset %d: %w", s.file.Path, rec.Offset, err)}
	}
	content := rec.Type
	if scheme := lower(rec.URL); strings.HasPrefix(scheme, "http:") || strings.HasPrefix(scheme, "https:") {
		content = "application/http; msgtype=response"
	}
	h := s.read(&warc.Record{
		Version: warc.V1_1,
		Header: warc.Header{
			{Name: "WARC-Type", Value: warc.TypeResponse},
			{Name: "WARC-Target-URI", Value: rec.URL},
			{Name: "WARC-Date", Value: warc.FormatDate(date, warc.V1_1)},
			{Name: "Content-Type", Value: content},
		},
		Length: rec.Length,
	}, rec.Offset, block)
	if h.entry != nil && h.entry.MIME == "unk" && rec.Type != "no-type" && rec.Type != "" {
		h.entry.MIME = mediaType(rec.Type)
	}
	h.capture = false // there are no requests
	return h
}
