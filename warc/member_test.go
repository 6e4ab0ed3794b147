package warc

import (
	"bytes"
	stdgzip "compress/gzip"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
)

// assemble makes a member from its parts.
func assemble(t *testing.T, header []byte, block io.Reader) []byte {
	t.Helper()
	var body bytes.Buffer
	d, err := Deflate(&body, block)
	if err != nil {
		t.Fatal(err)
	}
	member := append(AppendMemberStart(nil, header), body.Bytes()...)
	return AppendMemberEnd(member, header, d)
}

// inflate reads one member with the standard library, which did not write it.
func inflate(t *testing.T, member []byte) []byte {
	t.Helper()
	z, err := stdgzip.NewReader(bytes.NewReader(member))
	if err != nil {
		t.Fatal(err)
	}
	z.Multistream(false)
	got, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func noise(n int) []byte {
	b := make([]byte, n)
	rand.NewChaCha8([32]byte{1}).Read(b)
	return b
}

func text(n int) []byte {
	return bytes.Repeat([]byte("<p>to be or not to be</p>\n"), n/26+1)[:n]
}

func TestMember(t *testing.T) {
	for _, n := range []int{0, 1, 15, 16, maxShort - 1, maxShort, maxShort + 1, 32 << 10, 32<<10 + 1, 64<<10 - 1, 64 << 10, 64<<10 + 1, 128 << 10, 1 << 20, 1<<20 + 3} {
		for kind, block := range map[string][]byte{"text": text(n), "noise": noise(n), "zeros": make([]byte, n)} {
			for _, header := range []string{"", "H", "WARC/1.1\r\nA: b\r\n\r\n", strings.Repeat("x", 100_000)} {
				member := assemble(t, []byte(header), bytes.NewReader(block))
				got := inflate(t, member)
				if string(got) != header+string(block)+"\r\n\r\n" {
					t.Errorf("%d octets of %s behind %d: inflated to %d octets", n, kind, len(header), len(got))
				}
				if extra := len(member) - n - len(header); kind == "noise" && extra > 200+n/1000 {
					t.Errorf("%d octets of noise behind %d grew by %d", n, len(header), extra)
				}
				if kind == "text" && n >= 1<<10 && len(member) > (n+len(header))/4+200 {
					t.Errorf("%d octets of text behind %d took %d", n, len(header), len(member))
				}
			}
		}
	}
}

func TestMemberStartKeepsDst(t *testing.T) {
	got := AppendMemberStart([]byte("before"), []byte("header"))
	if !bytes.HasPrefix(got, []byte("before\x1f\x8b")) {
		t.Errorf("%q", got)
	}
	if got := AppendMemberEnd([]byte("before"), nil, Deflated{}); !bytes.HasPrefix(got, []byte("before")) || len(got) != 6+8 {
		t.Errorf("%q", got)
	}
}

func TestDeflateReadsInAnyPieces(t *testing.T) {
	block := text(100_000)
	want := assemble(t, nil, bytes.NewReader(block))
	for name, r := range map[string]io.Reader{
		"one byte": iotest.OneByteReader(bytes.NewReader(block)),
		"half":     iotest.HalfReader(bytes.NewReader(block)),
		"data+EOF": iotest.DataErrReader(bytes.NewReader(block)),
	} {
		if got := assemble(t, nil, r); !bytes.Equal(got, want) {
			t.Errorf("%s: other bytes", name)
		}
	}
}

func TestDeflateErrors(t *testing.T) {
	boom := errors.New("boom")
	if _, err := Deflate(io.Discard, io.MultiReader(bytes.NewReader(text(200_000)), iotest.ErrReader(boom))); !errors.Is(err, boom) {
		t.Errorf("block: %v", err)
	}
	// A short block that breaks off with the error that others take for its end.
	if _, err := Deflate(io.Discard, io.MultiReader(strings.NewReader("abc"), iotest.ErrReader(io.ErrUnexpectedEOF))); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("block: %v", err)
	}
	for n := range 3 {
		if _, err := Deflate(&failingWriter{n, boom}, bytes.NewReader(noise(300_000))); !errors.Is(err, boom) {
			t.Errorf("dst: %v", err)
		}
	}
	// What failed must not spoil what comes from the pools next.
	if got := inflate(t, assemble(t, []byte("h"), strings.NewReader("b"))); string(got) != "hb\r\n\r\n" {
		t.Errorf("%q", got)
	}
}

type failingWriter struct {
	n   int
	err error
}

func (w *failingWriter) Write(p []byte) (int, error) {
	if w.n--; w.n < 0 {
		return 0, w.err
	}
	return len(p), nil
}

func TestDeflateConcurrently(t *testing.T) {
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() { // ends by itself, wg.Wait waits for it
			for j := range 20 {
				header := fmt.Sprint("header ", i, j)
				block := append([]byte(header), text(i*7000+j)...)
				if got := inflate(t, assemble(t, []byte(header), bytes.NewReader(block))); string(got) != header+string(block)+"\r\n\r\n" {
					t.Errorf("%s: inflated to something else", header)
				}
			}
		})
	}
	wg.Wait()
}

func TestCombineCRC(t *testing.T) {
	b := noise(5000)
	for _, i := range []int{0, 1, 2, 7, 8, 255, 256, 257, 2500, 4999, 5000} {
		got := combineCRC(crc32.ChecksumIEEE(b[:i]), crc32.ChecksumIEEE(b[i:]), int64(len(b)-i))
		if got != crc32.ChecksumIEEE(b) {
			t.Errorf("split at %d: %08x", i, got)
		}
	}
}

// TestCombineCRCBig doubles zeros up to more than 2³² of them, in two ways.
func TestCombineCRCBig(t *testing.T) {
	const n = 1<<33 + 1<<20
	twice := func(crc uint32, n int64) uint32 { return combineCRC(crc, crc, n) }
	mib := crc32.ChecksumIEEE(make([]byte, 1<<20))
	whole := mib
	for size := int64(1 << 20); size < 1<<33; size *= 2 {
		whole = twice(whole, size)
	}
	a := combineCRC(whole, mib, 1<<20)
	b := combineCRC(mib, whole, 1<<33)
	if a != b {
		t.Errorf("%08x and %08x", a, b)
	}
	end := AppendMemberEnd(nil, make([]byte, 3), Deflated{Size: n})
	if got := end[4:]; !bytes.Equal(got, []byte{3, 0, 0x10, 0}) {
		t.Errorf("ISIZE of 2³³+2²⁰+3 octets is %x", got)
	}
}

func TestMemberStartAllocates(t *testing.T) {
	header, dst := text(600), make([]byte, 0, 4096)
	if n := testing.AllocsPerRun(100, func() { dst = AppendMemberStart(dst[:0], header) }); n > 1 && !raceEnabled {
		t.Errorf("%v allocations", n)
	}
}

var raceEnabled bool

func TestCompresses(t *testing.T) {
	head := "HTTP/1.1 200 OK\r\nContent-Type: image/jpeg\r\n" + strings.Repeat("X: y\r\n", 100) + "\r\n"
	for _, c := range []struct {
		name  string
		block []byte
		want  bool
	}{
		{"nothing", nil, false},
		{"little noise", noise(1000), false},
		{"text", text(64 << 10), true},
		{"noise", noise(64 << 10), false},
		{"noise behind a head", append([]byte(head), noise(10_000)...), false},
		{"text behind a head", append([]byte(head), text(10_000)...), true},
	} {
		if got := Compresses(c.block); got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
	}
}
