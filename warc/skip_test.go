package warc

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// write returns a file with a record for each block.
func write(t testing.TB, opts WriterOptions, blocks ...string) []byte {
	t.Helper()
	var buf bytes.Buffer
	w := NewWriter(&buf, opts)
	for i, b := range blocks {
		if err := w.WriteRecord(Header{{"WARC-Type", "resource"}, {"X-Number", fmt.Sprint(i)}}, strings.NewReader(b), int64(len(b))); err != nil {
			t.Fatal(err)
		}
	}
	return buf.Bytes()
}

// A meter counts what is read, and can do whatever its reader can.
type meter struct {
	*bytes.Reader
	n int64
}

func (m *meter) Read(p []byte) (int, error) {
	n, err := m.Reader.Read(p)
	m.n += int64(n)
	return n, err
}

// list returns the heads of the records, of which it reads no block.
func list(in io.Reader, strict bool) (all []Record, err error) {
	r := NewReader(in)
	r.Strict = strict
	for {
		rec, err := r.Next()
		if err == io.EOF {
			return all, nil
		}
		if err != nil {
			return all, err
		}
		copied := *rec
		copied.Header = slices.Clone(rec.Header)
		all = append(all, copied)
	}
}

// sameRecords compares heads, and reports whether there are that many.
func sameRecords(a, b []Record, n int) bool {
	return len(a) == n && slices.EqualFunc(a, b, func(x, y Record) bool {
		return x.Offset == y.Offset && x.Length == y.Length && slices.Equal(x.Header, y.Header)
	})
}

// TestSkip lists records with and without reading their blocks.
func TestSkip(t *testing.T) {
	for _, opts := range []WriterOptions{{}, {SkipLengths: true}, {Compression: Plain}, {Compression: Zstd}, {Compression: Zstd, Dictionary: testDictionary(t)}} {
		blocks := ofAllKinds()
		in := write(t, opts, blocks...)
		strict, err := list(bytes.NewReader(in), true)
		if err != nil || len(strict) != len(blocks) {
			t.Fatalf("%+v: %d records, %v", opts, len(strict), err)
		}
		m := &meter{Reader: bytes.NewReader(in)}
		skipped, err := list(m, false)
		if err != nil || !sameRecords(skipped, strict, len(blocks)) {
			t.Errorf("%+v: %d records, %v", opts, len(skipped), err)
		}
		if seeks := opts.SkipLengths || opts.Compression == Plain; seeks != (m.n < int64(len(in))*3/4) {
			t.Errorf("%+v: %d of %d bytes were read", opts, m.n, len(in))
		}
		streamed, err := list(io.MultiReader(bytes.NewReader(in)), false)
		if err != nil || !sameRecords(streamed, strict, len(blocks)) {
			t.Errorf("%+v, no seeking: %d records, %v", opts, len(streamed), err)
		}
		// Some of each block is read, and the input does not begin at 0.
		r := NewReader(io.NewSectionReader(bytes.NewReader(append([]byte("before"), in...)), 6, int64(len(in))))
		for i, b := range blocks {
			rec, err := r.Next()
			if err != nil || rec.Offset != strict[i].Offset {
				t.Fatalf("%+v: record %d: %v, %v", opts, i, rec, err)
			}
			start := make([]byte, min(len(b), i*1000))
			if _, err := io.ReadFull(r, start); err != nil || string(start) != b[:len(start)] {
				t.Fatalf("%+v: record %d: %v", opts, i, err)
			}
		}
		if _, err := r.Next(); err != io.EOF || r.InputOffset() != int64(len(in)) {
			t.Errorf("%+v: %v at %d", opts, err, r.InputOffset())
		}
	}
}

// TestSkipCut cuts a file in a block that is skipped: this does not go unnoticed.
func TestSkipCut(t *testing.T) {
	for _, opts := range []WriterOptions{{}, {SkipLengths: true}, {Compression: Plain}, {Compression: Zstd}} {
		for _, b := range []string{string(noise(400_000)), string(prose(2 << 20))} {
			in := write(t, opts, "first", b)
			for _, cut := range []int{5, 100, 300_000} {
				all, err := list(bytes.NewReader(in[:len(in)-cut]), false)
				if len(all) != 2 || err == nil {
					t.Errorf("%+v, less %d bytes: %d records, %v", opts, cut, len(all), err)
				}
			}
		}
	}
}

// TestSkipZstdNotAlone: a frame is not skipped when another record is in it.
func TestSkipZstdNotAlone(t *testing.T) {
	in := frames(nil, rec("1.1", "resource", string(prose(500_000)))+rec("1.1", "resource", "second"), rec("1.1", "resource", "third"))
	if all, err := list(strings.NewReader(in), false); err != nil || len(all) != 3 {
		t.Errorf("%d records, %v", len(all), err)
	}
}

// TestSkipZstdUndecoded damages what is skipped: nobody looks at it.
func TestSkipZstdUndecoded(t *testing.T) {
	in := write(t, WriterOptions{Compression: Zstd}, string(prose(1<<20)), "second")
	in[len(in)/2] ^= 0xff
	if all, err := list(bytes.NewReader(in), false); err != nil || len(all) != 2 {
		t.Errorf("%d records, %v", len(all), err)
	}
	if _, err := readAll(bytes.NewReader(in), false); brokenRule(err) != RuleMember {
		t.Error(err)
	}
}

// TestWrongSkipLengths: they mislead nobody, and a strict reader tells of them.
func TestWrongSkipLengths(t *testing.T) {
	blocks := []string{"first", string(prose(200_000)), string(noise(200_001)), "last"}
	good := write(t, WriterOptions{SkipLengths: true}, blocks...)
	want, err := list(bytes.NewReader(good), true)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 2 {
		at := int(want[1+i].Offset) + len(skipHead)
		member, content := binary.LittleEndian.Uint32(good[at:]), binary.LittleEndian.Uint32(good[at+4:])
		for _, c := range []struct {
			name            string
			member, content uint32
		}{
			{"none", 0, 0}, {"short", 8, content}, {"within the head", 20, content}, {"less", member - 1, content}, {"more", member + 1, content},
			{"next but one", member + uint32(want[3].Offset-want[2].Offset), content}, {"behind the end", uint32(len(good)), content},
			{"far behind", 1<<32 - 1, content}, {"less content", member, content - 1}, {"more content", member, content + 1}, {"exchanged", content, member},
		} {
			in := slices.Clone(good)
			binary.LittleEndian.PutUint32(in[at:], c.member)
			binary.LittleEndian.PutUint32(in[at+4:], c.content)
			if all, err := list(bytes.NewReader(in), false); err != nil || !sameRecords(all, want, len(want)) {
				t.Errorf("record %d, %s: %d records, %v", 1+i, c.name, len(all), err)
			}
			if all, err := list(bytes.NewReader(in), true); brokenRule(err) != RuleMember || len(all) != 2+i || !strings.Contains(err.Error(), "skip lengths") {
				t.Errorf("record %d, %s, strict: %d records, %v", 1+i, c.name, len(all), err)
			}
		}
	}
}

// A place that looks like the end of a member, by the size in front of it, is not
// enough: another member has to start there.
func TestSkipLengthsIntoNowhere(t *testing.T) {
	first := prose(300_000)
	fake := noise(300_000)
	blocks := []string{string(first), string(fake), "last"}
	good := write(t, WriterOptions{SkipLengths: true}, blocks...)
	want, err := list(bytes.NewReader(good), true)
	if err != nil {
		t.Fatal(err)
	}
	head := int(want[0].Offset) + len(skipHead)
	size := good[head+4 : head+8]
	const into = 200_000
	copy(fake[into:], size)
	blocks[1] = string(fake)
	in := write(t, WriterOptions{SkipLengths: true}, blocks...)
	at := bytes.Index(in[want[1].Offset+10_000:], size) + int(want[1].Offset) + 10_000
	if !bytes.Equal(in[head+4:head+8], size) || at < into {
		t.Fatalf("the size is at %d", at)
	}
	binary.LittleEndian.PutUint32(in[head:], uint32(at+4))
	if all, err := list(bytes.NewReader(in), false); err != nil || len(all) != 3 {
		t.Errorf("%d records, %v", len(all), err)
	}
}

// TestSkipTrailingLineEnds is about a member in which more comes behind the
// record than its skip lengths would allow for.
func TestSkipTrailingLineEnds(t *testing.T) {
	b := prose(200_000)
	record := rec("1.1", "resource", string(b))
	for _, content := range []string{record + "\r\n", record[:len(record)-2], record + record} {
		var packed bytes.Buffer
		d, err := Deflate(&packed, strings.NewReader(content[20:]))
		if err != nil {
			t.Fatal(err)
		}
		in := AppendSkippableStart(nil, []byte(content[:20]), d, int64(packed.Len()))
		in = AppendMemberEnd(append(in, packed.Bytes()...), []byte(content[:20]), d)
		want, err := list(io.MultiReader(bytes.NewReader(in)), false)
		if err != nil {
			t.Fatal(err)
		}
		if all, err := list(bytes.NewReader(in), false); err != nil || !sameRecords(all, want, len(want)) {
			t.Errorf("%d octets: %d records, %v", len(content), len(all), err)
		}
	}
}

func TestParseSkipLengths(t *testing.T) {
	field := skipField + "\x01\x02\x00\x00\x03\x00\x00\x01"
	want := skipLengths{0x201, 0x01000003, true}
	for extra, ok := range map[string]bool{
		field: true, "ab\x02\x00xy" + field + "cd\x00\x00": true, "": false, field[:11]: false, "sl\x04\x00\x01\x02\x03\x04": false, "ls" + field[2:]: false,
		"ab\xff\xff" + field: false, "sl": false,
	} {
		if got := parseSkipLengths([]byte(extra)); got.ok != ok || ok && got != want {
			t.Errorf("%q: %+v", extra, got)
		}
	}
}

// TestSkipLengthsTooBig: 4 GiB do not fit, and what is held back is bounded.
func TestSkipLengthsTooBig(t *testing.T) {
	header := []byte("WARC/1.1\r\n\r\n")
	for size, fits := range map[int64]bool{1<<32 - 1 - int64(len(header)): true, 1<<32 - int64(len(header)): false} {
		got := AppendSkippableStart(nil, header, Deflated{Size: size}, 100)
		if parseSkipLengths(got[12:24]).ok != fits {
			t.Errorf("%d octets: %q", size, got[:24])
		}
		if !fits && !bytes.Equal(got, AppendMemberStart(nil, header)) {
			t.Errorf("%d octets: %q", size, got)
		}
	}
	for size, fits := range map[int64]bool{1<<32 - 1<<21: true, 1 << 32: false} {
		m := newStoredMember(header, nil, nil, size, true)
		if hasField := bytes.HasPrefix(m.ready, []byte(skipHead)); hasField != fits {
			t.Errorf("stored, %d octets: %q", size, m.ready[:24])
		}
	}
	if testing.Short() {
		return
	}
	const size = maxHeld * 3 / 2 // half a byte for each octet would be too much
	b := make([]byte, size)
	for i, c := range noise(size) {
		b[i] = 'a' + c%32
	}
	in := write(t, WriterOptions{SkipLengths: true}, string(b)+string(b), "last")
	if bytes.HasPrefix(in, []byte(skipHead)) {
		t.Error("more than can be held back has skip lengths")
	}
	if all, err := list(bytes.NewReader(in), true); err != nil || len(all) != 2 {
		t.Errorf("%d records, %v", len(all), err)
	}
}

func TestHolderErrors(t *testing.T) {
	boom := errors.New("boom")
	for n := range 3 {
		h := &holder{w: &failingWriter{n, boom}, start: []byte("start"), held: new(bytes.Buffer)}
		if _, err := h.Write([]byte("x")); err != nil {
			t.Fatal(err)
		}
		if _, err := h.Write(make([]byte, maxHeld)); err != boom {
			t.Errorf("after %d writes: %v", n, err)
		}
	}
}

// TestSkipLengthsPrograms lets other programs read what has skip lengths.
func TestSkipLengthsPrograms(t *testing.T) {
	name := filepath.Join(t.TempDir(), "a.warc.gz")
	blocks := ofAllKinds()
	var buf bytes.Buffer
	w := NewWriter(&buf, WriterOptions{SkipLengths: true})
	for _, b := range blocks {
		h := Header{{"WARC-Type", "resource"}, {"WARC-Record-ID", NewRecordID()}, {"WARC-Date", "2026-01-02T03:04:05Z"}, {"WARC-Target-URI", "http://example.org/"}, {"Content-Type", "text/plain"}}
		if err := w.WriteRecord(h, strings.NewReader(b), int64(len(b))); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(name, buf.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(program(t, "gzip"), "-t", name).CombinedOutput(); err != nil {
		t.Errorf("gzip: %v\n%s", err, out)
	}
	node := filepath.Join("..", "testdata", "node")
	if _, err := os.Stat(filepath.Join(node, "node_modules", "warcio")); err != nil && os.Getenv("CI") != "true" {
		t.Skip("warcio is not installed: testdata/tools.sh does that")
	}
	out, err := exec.Command(program(t, "node"), filepath.Join(node, "records.mjs"), name).Output()
	if err != nil {
		t.Fatal(err)
	}
	var lengths []int
	for dec := json.NewDecoder(bytes.NewReader(out)); dec.More(); {
		var record struct{ Block struct{ Length int } }
		if err := dec.Decode(&record); err != nil {
			t.Fatal(err)
		}
		lengths = append(lengths, record.Block.Length)
	}
	if !slices.EqualFunc(lengths, blocks, func(n int, b string) bool { return n == len(b) }) {
		t.Errorf("warcio reads blocks of %d octets", lengths)
	}
}

// BenchmarkList lists the records of a file without reading them.
func BenchmarkList(b *testing.B) {
	var blocks []string
	for i := range 40 {
		blocks = append(blocks, string(prose(100_000+i)), string(prose(10_000+i)), string(noise(300_000+i)), string(prose(500_000+i)))
	}
	for _, c := range []struct {
		name string
		opts WriterOptions
	}{{"gzip", WriterOptions{}}, {"gzip with skip lengths", WriterOptions{SkipLengths: true}}, {"zstd", WriterOptions{Compression: Zstd}}, {"plain", WriterOptions{Compression: Plain}}} {
		in := write(b, c.opts, blocks...)
		name := filepath.Join(b.TempDir(), "file")
		if err := os.WriteFile(name, in, 0o600); err != nil {
			b.Fatal(err)
		}
		for _, skip := range []bool{true, false} {
			b.Run(fmt.Sprintf("%s/skip=%v", c.name, skip), func(b *testing.B) {
				b.SetBytes(int64(len(in)))
				for b.Loop() {
					f, err := os.Open(name)
					if err != nil {
						b.Fatal(err)
					}
					if all, err := list(f, !skip); err != nil || len(all) != len(blocks) {
						b.Fatal(len(all), err)
					}
					f.Close()
				}
			})
		}
	}
}
