package warc

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

func TestStoredMember(t *testing.T) {
	header, head := []byte("WARC/1.1\r\nA: b\r\n\r\n"), []byte("HTTP/1.1 200 OK\r\nX: y\r\n\r\n")
	for _, n := range []int{0, 1, pieceSize - 1, pieceSize, pieceSize + 1, maxStored, maxStored + 1, 2*pieceSize - 1, 2 * pieceSize, 2*pieceSize + 1, 1<<20 + 3} {
		payload := noise(n)
		for name, wrap := range map[string]func(io.Reader) io.Reader{
			"whole":    func(r io.Reader) io.Reader { return r },
			"half":     iotest.HalfReader,
			"data+EOF": iotest.DataErrReader,
		} {
			member, err := io.ReadAll(wrap(StoredMember(header, head, wrap(bytes.NewReader(payload)), int64(n))))
			if err != nil {
				t.Fatal(err)
			}
			if got, want := string(inflate(t, member)), string(header)+string(head)+string(payload)+recordEnd; got != want {
				t.Errorf("%d octets, %s: inflated to %d octets, not %d", n, name, len(got), len(want))
			}
			if extra := len(member) - n; extra > 100+n/10_000 {
				t.Errorf("%d octets, %s: grew by %d", n, name, extra)
			}
		}
	}
}

func TestStoredMemberWithoutHead(t *testing.T) {
	for _, head := range []string{"", strings.Repeat("a: b\r\n", 20_000)} {
		member, err := io.ReadAll(iotest.OneByteReader(StoredMember([]byte("H"), []byte(head), strings.NewReader("payload"), 7)))
		if err != nil {
			t.Fatal(err)
		}
		if got := string(inflate(t, member)); got != "H"+head+"payload\r\n\r\n" {
			t.Errorf("%.100q", got)
		}
	}
}

func TestStoredMemberErrors(t *testing.T) {
	if _, err := io.ReadAll(StoredMember(nil, nil, strings.NewReader("short"), 6)); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("too short: %v", err)
	}
	boom := errors.New("boom")
	if _, err := io.ReadAll(StoredMember(nil, nil, io.MultiReader(strings.NewReader("abc"), iotest.ErrReader(boom)), 6)); !errors.Is(err, boom) {
		t.Errorf("broken: %v", err)
	}
}
