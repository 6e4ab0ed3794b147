package recorder

import (
	"io"
	"log/slog"
	"runtime/debug"
)

// A record is read once, into its file.
type record struct {
	start, end []byte // that have not been read
	block      io.Reader
	size       int64 // of what has been read
	late       *io.PipeReader
}

func (r *record) Read(p []byte) (n int, err error) {
	switch {
	case len(r.start) > 0:
		n = copy(p, r.start)
		r.start = r.start[n:]
	case r.block != nil:
		if n, err = r.block.Read(p); err == io.EOF {
			r.block, err = nil, nil
		}
	case len(r.end) > 0:
		n = copy(p, r.end)
		r.end = r.end[n:]
	default:
		err = io.EOF
	}
	r.size += int64(n)
	return n, err
}

func (r *record) close() {
	if r.late != nil {
		r.late.Close()
	}
}

// late is a record that write makes while it is read.
func late(log *slog.Logger, start []byte, write func(io.Writer) error) *record {
	r, w := io.Pipe()
	go func() { // ends when all has been read, or when the record is closed
		var err error
		defer func() {
			if p := recover(); p != nil { // in a library: this record is to blame, no other one
				log.Error("internal error while a record was compressed", "panic", p, "stack", string(debug.Stack()))
				err = errInternal
			}
			w.CloseWithError(err)
		}()
		err = write(w)
	}()
	return &record{start: start, block: r, late: r}
}
