package convert

import (
	"bytes"
	"fmt"
	"io"
	"os"
)

// maxInMemory is how many octets of a block are kept in memory; longer ones go
// to a temporary file.
const maxInMemory = 1 << 20

// A spool holds a block, so that it can be read more than once.
type spool struct {
	dir  string // for the temporary file
	buf  bytes.Buffer
	file *os.File // nil: all is in buf
	size int64
	err  error // of the file; sticky
}

// Write appends to the block.
func (s *spool) Write(p []byte) (int, error) {
	if s.err == nil {
		s.err = s.write(p)
	}
	if s.err != nil {
		return 0, s.err
	}
	s.size += int64(len(p))
	return len(p), nil
}

func (s *spool) write(p []byte) error {
	if s.file == nil && s.size+int64(len(p)) <= maxInMemory {
		s.buf.Write(p)
		return nil
	}
	if s.file == nil {
		f, err := os.CreateTemp(s.dir, "warctee-block-*")
		if err != nil {
			return fmt.Errorf("a place for a long block: %w", err)
		}
		s.file = f
		if _, err := f.Write(s.buf.Bytes()); err != nil {
			return fmt.Errorf("keeping a long block: %w", err)
		}
		s.buf.Reset()
	}
	if _, err := s.file.Write(p); err != nil {
		return fmt.Errorf("keeping a long block: %w", err)
	}
	return nil
}

// reader returns a reader of the whole block. It is valid until reset.
func (s *spool) reader() io.Reader {
	if s.file == nil {
		return bytes.NewReader(s.buf.Bytes())
	}
	return io.NewSectionReader(s.file, 0, s.size)
}

// reset forgets the block and removes its file.
func (s *spool) reset() {
	s.buf.Reset()
	s.size, s.err = 0, nil
	if s.file != nil {
		s.file.Close()
		os.Remove(s.file.Name())
		s.file = nil
	}
}
