package main

import (
	"errors"
	"fmt"
	"path/filepath"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/dustin/go-humanize"
)

// maxText bounds what a line of the failure log, or of the log, has of one text, in
// bytes as they are written: it often comes from a client, which it costs nothing.
const maxText = 2 << 10

// shorten bounds the texts of a line.
func (f *failureLine) shorten() {
	if short := shortened(f.URL); short != f.URL {
		f.URL, f.URLLength = short, len(f.URL)
	}
	f.Method, f.Address, f.Error = shortened(f.Method), shortened(f.Address), shortened(f.Error)
}

// shortened returns s, or its beginning and a mark where it would take more than
// maxText bytes with what has to be escaped.
func shortened(s string) string {
	const mark = "…"
	if len(s) <= maxText/12 { // no character takes more than 12 bytes
		return s
	}
	n, fits := 0, 0
	for i, c := range s {
		if n+len(mark) <= maxText {
			fits = i
		}
		switch _, size := utf8.DecodeRuneInString(s[i:]); {
		case c == utf8.RuneError && size == 1, c < 0x10000 && !unicode.IsPrint(c):
			n += len(`\u0000`)
		case !unicode.IsPrint(c):
			n += len(`\u0000\u0000`)
		case c == '"' || c == '\\':
			n += 2
		default:
			n += size
		}
		if n > maxText {
			return s[:fits] + mark
		}
	}
	return s
}

// roomLooked is how long what is known of the disk holds; meanwhile only what the
// failure log takes itself is counted.
const roomLooked = 250 * time.Millisecond

// A room is what the disk of the failure log has left.
type room struct {
	looked       time.Time
	known        bool
	left, wanted int64 // bytes; wanted has to stay free
}

// take takes n bytes of the disk, or says that they are not there. Thinned lines
// leave what has to stay free, others half of it.
func (r *room) take(l *failureLog, n int64, thinned bool) error {
	if l.stayFree == nil {
		return nil
	}
	if now := time.Now(); now.Sub(r.looked) >= roomLooked {
		free, total, err := l.free(filepath.Dir(l.path))
		r.looked, r.known = now, err == nil && total > 0
		r.left, r.wanted = int64(min(free, 1<<62)), l.stayFree(total)
	}
	wanted := r.wanted
	if !thinned {
		wanted /= 2
	}
	if r.known && r.left-n < wanted {
		return fmt.Errorf("%w: %s are free, and %s have to stay free (--min-free)", errNoRoom, humanize.Bytes(uint64(r.left)), humanize.Bytes(uint64(wanted)))
	}
	r.left -= n
	return nil
}

var errNoRoom = errors.New("the disk is nearly full")

// enough reports whether all that has to stay free is.
func (r *room) enough() bool { return !r.known || r.left >= r.wanted }
