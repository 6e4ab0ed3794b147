package warc

import (
	"bytes"
	stdgzip "compress/gzip"
	"fmt"
	"io"
	"testing"
)

// A block of more than 4 GiB: the size at the end of a gzip member is that
// modulo 2³², and readers agree.
func TestMemberBeyond4GiB(t *testing.T) {
	if raceEnabled {
		t.Skip("takes a minute with the race detector; go test ./warc runs it")
	}
	const size = 4<<30 + 1
	header := fmt.Appendf(nil, "WARC/1.1\r\nWARC-Type: resource\r\nWARC-Record-ID: %s\r\nWARC-Date: 2026-01-01T00:00:00Z\r\nContent-Length: %d\r\n\r\n", NewRecordID(), int64(size))
	member := assemble(t, header, zeros(size))

	z, err := stdgzip.NewReader(bytes.NewReader(member))
	if err != nil {
		t.Fatal(err)
	}
	if n, err := io.Copy(io.Discard, z); n != int64(len(header))+size+4 || err != nil {
		t.Errorf("the standard library reads %d bytes, %v", n, err)
	}
	r := NewReader(bytes.NewReader(member))
	r.Strict = true
	if _, err := r.Next(); err != nil {
		t.Fatal(err)
	}
	if n, err := io.Copy(io.Discard, r); n != size || err != nil {
		t.Errorf("the block has %d bytes, %v", n, err)
	}
	if _, err := r.Next(); err != io.EOF {
		t.Errorf("behind it: %v", err)
	}
}
