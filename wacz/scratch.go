package wacz

import (
	"bufio"
	"context"
	"errors"
	"hash"
	"io"
	"os"
)

// A scratch is a file for what is written, then read, then forgotten.
type scratch struct {
	*bufio.Writer
	f *os.File
}

func newScratch(dir string) (*scratch, error) {
	f, err := os.CreateTemp(dir, "warctee-pack-*")
	if err != nil {
		return nil, err
	}
	return &scratch{bufio.NewWriterSize(f, 64<<10), f}, nil
}

// rewind ends the writing and returns a reader from the start.
func (s *scratch) rewind() (io.Reader, error) {
	if err := s.Flush(); err != nil {
		return nil, err
	}
	_, err := s.f.Seek(0, io.SeekStart)
	return s.f, err
}

func (s *scratch) close() error { return errors.Join(s.f.Close(), os.Remove(s.f.Name())) }

// A counter is the digest and the number of what is written to it.
type counter struct {
	hash   hash.Hash
	octets int64
}

func (c *counter) Write(p []byte) (int, error) {
	c.octets += int64(len(p))
	return c.hash.Write(p)
}

// A meter tells what is read through it, and ends with its context.
type meter struct {
	ctx  context.Context
	r    io.Reader
	told func(int64)
}

func (m *meter) Read(p []byte) (int, error) {
	if err := m.ctx.Err(); err != nil {
		return 0, err
	}
	n, err := m.r.Read(p)
	if m.told != nil && n > 0 {
		m.told(int64(n))
	}
	return n, err
}
