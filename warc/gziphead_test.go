package warc

import (
	"errors"
	"io"
	"strings"
	"testing"
)

// An input that ends within the head of a gzip member is damaged: what a library
// makes of it must not be taken for the end.
func TestCutInGzipHead(t *testing.T) {
	const head = "\x1f\x8b\x08\x18\x00\x00\x00\x00\x00\x00name\x00comment\x00"
	for n := 2; n < len(head); n++ {
		_, err := NewReader(strings.NewReader(head[:n])).Next()
		var broken *Error
		if !errors.As(err, &broken) || broken.Rule != RuleMember || !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("cut to %d bytes: %v", n, err)
		}
	}
}
