package repair

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"github.com/warctee/warctee/warc"
)

// A sample is a file with what is in it.
type sample struct {
	form  warc.Compression
	file  []byte
	parts []part
}

// A part is a record in a sample.
type part struct {
	id         string
	start, end int    // in the file
	text       []byte // of the record, decompressed
}

// recordText returns a record as it is in a plain file.
func recordText(id string, block []byte, digest bool, fields ...string) []byte {
	h := warc.Header{{Name: "WARC-Type", Value: "response"}, {Name: "WARC-Record-ID", Value: id}, {Name: "WARC-Date", Value: "2026-01-02T03:04:05Z"}, {Name: "WARC-Target-URI", Value: "http://origin.example/" + strings.Trim(id, "<>")}}
	if digest {
		d := newDigester(&warc.Record{Header: warc.Header{{Name: "WARC-Block-Digest", Value: "sha256:" + strings.Repeat("00", 32)}}})
		d.Write(block)
		h.Add("WARC-Block-Digest", warc.SHA256.Format(d.h.Sum(nil)))
	}
	for i := 0; i < len(fields); i += 2 {
		h.Add(fields[i], fields[i+1])
	}
	if h.Get("Content-Length") == "" {
		h.Add("Content-Length", fmt.Sprint(len(block)))
	}
	text, err := h.Encode(nil, "")
	if err != nil {
		panic(err)
	}
	return append(append(text, block...), recordEnd...)
}

var zstdEncoder, _ = zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1))

func pack(form warc.Compression, text []byte) []byte {
	var b bytes.Buffer
	switch form {
	case warc.Plain:
		return text
	case warc.Zstd:
		return zstdEncoder.EncodeAll(text, nil)
	case warc.Gzip:
		z := gzip.NewWriter(&b)
		z.Write(text)
		z.Close()
	}
	return b.Bytes()
}

func (s *sample) add(id string, text []byte) {
	start := len(s.file)
	s.file = append(s.file, pack(s.form, text)...)
	s.parts = append(s.parts, part{id, start, len(s.file), text})
}

// randomSample makes a good file.
func randomSample(form warc.Compression, rnd *rand.Rand) *sample {
	s := &sample{form: form}
	for i := range 3 + rnd.IntN(20) {
		block := make([]byte, rnd.IntN(1<<rnd.IntN(14)))
		for j := range block {
			if block[j] = byte(rnd.Uint32()); rnd.IntN(4) > 0 {
				block[j] = "<p> \r\nWARC/1.1"[j%14]
			}
		}
		if rnd.IntN(6) == 0 { // a WARC file as payload
			block = append(block, "\r\n"+string(recordText(fmt.Sprintf("<inner:%d>", i), block, rnd.IntN(2) == 0))...)
		}
		id := fmt.Sprintf("<urn:%d>", i)
		s.add(id, recordText(id, block, rnd.IntN(4) > 0))
	}
	return s
}

// A result is what Run made of a file.
type result struct {
	Summary
	out    []byte
	ranges []Range
	links  []Link
}

func repaired(t *testing.T, file []byte) result {
	t.Helper()
	return repairedAs(t, file, true)
}

// repairedAs expects of gzip output that it is as a strict reader wants it, or
// not: what is whole may have had other faults before.
func repairedAs(t *testing.T, file []byte, strict bool) result {
	t.Helper()
	var res result
	var out *bytes.Buffer
	sum, err := Run(t.Context(), bytes.NewReader(file), int64(len(file)), Options{
		Create:  func(warc.Compression) (io.Writer, error) { out = new(bytes.Buffer); return out, nil },
		Range:   func(g Range) error { res.ranges = append(res.ranges, g); return nil },
		Link:    func(l Link) { res.links = append(res.links, l) },
		TempDir: t.TempDir(),
	})
	if err != nil {
		t.Fatal(err)
	}
	res.Summary = sum
	if res.out = file; out != nil {
		res.out = out.Bytes()
	}
	if (out != nil) != sum.Changed {
		t.Errorf("an output: %v, said %v", out != nil, sum.Changed)
	}
	res.check(t, file, strict)
	return res
}

// check looks whether what is true of all repairs is true of this one.
func (res *result) check(t *testing.T, file []byte, strict bool) {
	t.Helper()
	var pos int64
	rest := res.out
	for _, g := range res.ranges {
		if g.Inside >= 0 {
			continue
		}
		if g.Offset != pos || g.Length <= 0 {
			t.Fatalf("the range %+v comes where %d is next", g, pos)
		}
		pos += g.Length
		if g.Kind == Kept {
			i := bytes.Index(rest, file[g.Offset:pos])
			if i < 0 {
				t.Fatalf("the range %+v is not in the output", g)
			}
			rest = rest[i+int(g.Length):]
		}
		if g.Kind != Kept && g.Reason == "" {
			t.Errorf("no reason in %+v", g)
		}
	}
	if pos != int64(len(file)) {
		t.Fatalf("the ranges end at %d of %d", pos, len(file))
	}
	records := int64(0)
	z := warc.NewReader(bytes.NewReader(res.out))
	z.Strict = strict && res.Compression == warc.Gzip
	for ; ; records++ {
		if _, err := z.Next(); err == io.EOF {
			break
		} else if err != nil {
			t.Fatalf("the output cannot be read: %v", err)
		}
		if _, err := io.Copy(io.Discard, z); err != nil {
			t.Fatalf("the output cannot be read: %v", err)
		}
	}
	if records != res.Kept+res.Rewritten {
		t.Errorf("%d records in the output, %d + %d are told", records, res.Kept, res.Rewritten)
	}
}

// damage changes a file at random. It returns the range of the file that is no
// more what it was.
func damage(file []byte, rnd *rand.Rand) (damaged []byte, from, to int, what string) {
	at := rnd.IntN(len(file))
	n := min(1+rnd.IntN(1<<rnd.IntN(13)), len(file)-at)
	junk := make([]byte, n)
	for i := range junk {
		junk[i] = byte(rnd.Uint32())
	}
	switch rnd.IntN(7) {
	case 0:
		return slices.Clone(file[:at]), at, len(file), "cut"
	case 1:
		b := slices.Clone(file)
		b[at] ^= 1 << rnd.IntN(8)
		return b, at, at + 1, "flip"
	case 2:
		return slices.Insert(slices.Clone(file), at, junk...), at, at, "insert"
	case 3:
		return slices.Delete(slices.Clone(file), at, at+n), at, at + n, "delete"
	case 4:
		b := slices.Clone(file)
		clear(b[at : at+n])
		return b, at, at + n, "zero"
	case 5:
		b := slices.Clone(file)
		copy(b[at:], junk)
		return b, at, at + n, "overwrite"
	}
	return append(slices.Clone(file), junk...), len(file), len(file), "append"
}

// Whatever happens to a file: each record that is not touched is saved, byte for
// byte, and each octet is accounted for.
func TestRandomDamage(t *testing.T) {
	for _, form := range []warc.Compression{warc.Gzip, warc.Plain, warc.Zstd} {
		t.Run(form.String(), func(t *testing.T) {
			lost, total := 0, 0
			seeds := uint64(150)
			if form == warc.Zstd {
				seeds = 50 // its decoders are slow to make
			}
			for seed := range seeds {
				rnd := rand.New(rand.NewPCG(seed, 1))
				s := randomSample(form, rnd)
				file, from, to, what := damage(s.file, rnd)
				if !t.Run(fmt.Sprintf("%s-%d", what, seed), func(t *testing.T) {
					res := repaired(t, file)
					for _, p := range s.parts {
						touched := p.start < to && from < p.end || from == to && p.start < from && from < p.end
						if total++; touched {
							lost++
						} else if !bytes.Contains(res.out, s.file[p.start:p.end]) {
							t.Errorf("%s of %d to %d: the record %s at %d to %d is not in the output\n%+v", what, from, to, p.id, p.start, p.end, res.ranges)
						}
					}
				}) {
					return
				}
			}
			if lost == 0 || lost > total/2 {
				t.Errorf("%d of %d records were damaged", lost, total)
			}
		})
	}
}

func TestWhole(t *testing.T) {
	for _, form := range []warc.Compression{warc.Gzip, warc.Plain, warc.Zstd} {
		for seed := range uint64(5) {
			s := randomSample(form, rand.New(rand.NewPCG(seed, 2)))
			if res := repaired(t, s.file); res.Changed || res.Kept != int64(len(s.parts)) || len(res.ranges) != 1 || res.Compression != form {
				t.Errorf("%s: %+v", form, res.Summary)
			}
		}
	}
	if res := repaired(t, nil); res.Changed || len(res.ranges) > 0 {
		t.Errorf("empty: %+v", res.Summary)
	}
}

func join(parts ...any) []byte {
	var b []byte
	for _, p := range parts {
		switch p := p.(type) {
		case string:
			b = append(b, p...)
		case []byte:
			b = append(b, p...)
		}
	}
	return b
}

func TestDamages(t *testing.T) {
	a, b, c := recordText("<a>", []byte("block a"), true), recordText("<b>", []byte("block b\r\n\r\nmore"), true), recordText("<c>", []byte("block c"), false)
	ga, gb, gc := pack(warc.Gzip, a), pack(warc.Gzip, b), pack(warc.Gzip, c)
	noEnd := func(text []byte) []byte { return bytes.TrimSuffix(text, []byte(recordEnd)) }
	flip := func(text []byte, i int) []byte {
		text = slices.Clone(text)
		text[(i+len(text))%len(text)] ^= 0x10
		return text
	}
	nested := recordText("<outer>", join("text\r\n", a, c), true)
	wrongLength := func(n string, digest bool) []byte {
		return recordText("<w>", []byte("the block of w"), digest, "Content-Length", n)
	}
	d := recordText("<d>", make([]byte, 20+len(a)), true)
	zeroed := slices.Clone(a)
	clear(zeroed[40:60])
	noColon := bytes.Replace(b, []byte("WARC-Date:"), []byte("WARC-Date"), 1)
	// A member in a stored block (RFC 1951 §3.2.4), of which the end is missing,
	// and which so goes on into the next one.
	swallows := func(next []byte) []byte {
		const there = 300
		size := there + len(next) - 8
		head := []byte{0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255, 1, byte(size), byte(size >> 8), ^byte(size), ^byte(size >> 8)}
		return join(head, recordText("<s>", make([]byte, 2000), false)[:there], next)
	}
	empty := recordText("<urn:empty>", nil, true)
	ofNothing := recordText("<urn:revisit>", []byte("HTTP/1.1 200 OK\r\n\r\n"), false, "WARC-Block-Digest", "sha1:3I42H3S6NNFQ2MSVX7XZKYAYSCX5QBYJ")
	var all []byte
	for range 100 {
		all = append(all, c...)
	}
	for _, test := range []struct {
		name      string
		file, out []byte // out nil: as file
		texts     [][]byte
		reasons   []string // of what is lost or rewritten
	}{
		{name: "zeros at the end", file: join(ga, gb, make([]byte, 100)), out: join(ga, gb), reasons: []string{"lost: zero bytes"}},
		{name: "zeros between", file: join(a, make([]byte, 100_000), b), out: join(a, b), reasons: []string{"lost: zero bytes"}},
		{name: "garbage between", file: join(ga, "garbage", gb), out: join(ga, gb), reasons: []string{"lost: no record starts here"}},
		{name: "garbage first", file: join("garbage", ga, gb), out: join(ga, gb), reasons: []string{"lost: no record starts here"}},
		{name: "garbage first, plain", file: join("garbage", a, b), out: join(a, b), reasons: []string{"lost: no record starts here"}},
		{name: "cut", file: join(ga, gb[:len(gb)-9]), out: ga, reasons: []string{"lost: the file ends in the middle of its gzip member"}},
		{name: "cut, plain", file: join(a, b[:len(b)-9]), out: a, reasons: []string{"lost: the file ends in the record: of the 15 octets of its block 10"}},
		{name: "cut behind the block", file: join(c, noEnd(a)), out: join(c, a), reasons: []string{"rewritten: there was nothing between"}},
		{name: "checksum", file: join(ga, flip(gb, -6), gc), out: join(ga, gc), reasons: []string{"lost: its gzip member is damaged: its checksum is wrong"}},
		{name: "stream", file: join(ga, flip(gb, len(gb)/2), gc), out: join(ga, gc), reasons: []string{"lost: "}},
		{name: "block digest in a member that is right", file: join(ga, pack(warc.Gzip, bytes.Replace(b, []byte("block"), []byte("blick"), 1)), gc), reasons: []string{"kept: its block does not agree"}},
		{name: "block digest, plain", file: join(a, bytes.Replace(b, []byte("block"), []byte("blick"), 1), c), out: join(a, c), reasons: []string{"lost: its block does not agree"}},
		{name: "a version in a header", file: join(b, "WARC/1.1\r\n", c), out: join(b, c), reasons: []string{"lost: a record starts here, but another record starts in its header"}},
		{name: "a block digest of nothing, as Wget writes it", file: join(ga, pack(warc.Gzip, ofNothing), gc), out: join(ga, pack(warc.Gzip, ofNothing), gc)},
		{name: "an empty block in a damaged member", file: flip(pack(warc.Gzip, join(a, empty, b)), -6), texts: [][]byte{a, b}, reasons: []string{"lost: its gzip member is damaged: its checksum"}},
		{name: "no line ends", file: join(noEnd(a), noEnd(b), noEnd(c)), out: join(a, b, c), reasons: []string{"rewritten: there was nothing", "rewritten: there was nothing", "rewritten: there was nothing"}},
		{name: "one line end", file: join(noEnd(c), "\r\n", b), out: join(c, b), reasons: []string{`rewritten: behind the block there was "\r\n"`}},
		{name: "many line ends", file: join(c, "\r\n\n", b), out: join(c, b), reasons: []string{`rewritten: behind the block there was "\r\n\r\n\r\n\n"`}},
		{name: "no line ends, gzip", file: join(ga, pack(warc.Gzip, noEnd(b)), gc), texts: [][]byte{a, b, c}, reasons: []string{"rewritten: a gzip member that holds"}},
		{name: "one member", file: pack(warc.Gzip, join(a, b, c)), texts: [][]byte{a, b, c}, reasons: []string{"rewritten: a gzip member that holds"}},
		{name: "one frame", file: pack(warc.Zstd, join(a, b, c)), texts: [][]byte{a, b, c}, reasons: []string{"rewritten: a zstd frame that holds"}},
		{name: "one member, cut", file: pack(warc.Gzip, all)[:200], reasons: []string{"lost: the file ends in the middle of its gzip member"}},
		{name: "one member, its checksum wrong", file: flip(pack(warc.Gzip, join(a, c, b)), -6), texts: [][]byte{a, b}, reasons: []string{"lost: its gzip member is damaged: its checksum"}},
		{name: "a record in several members", file: join(ga, pack(warc.Gzip, b[:20]), pack(warc.Gzip, b[20:len(b)-3]), pack(warc.Gzip, b[len(b)-3:]), gc), texts: [][]byte{a, b, c}, reasons: []string{"rewritten: 3 gzip members that hold"}},
		{name: "garbage in a member", file: join(ga, pack(warc.Gzip, join(b, "garbage", c)), gc), texts: [][]byte{a, b, c, c}, reasons: []string{"lost: no record starts here", "rewritten: a gzip member"}},
		{name: "an empty member", file: join(ga, pack(warc.Gzip, nil), gc), out: join(ga, gc), reasons: []string{"rewritten: an empty gzip member"}},
		{name: "a member of something else", file: join(ga, pack(warc.Gzip, []byte("hello")), gc), out: join(ga, gc), reasons: []string{"lost: no record starts here"}},
		{name: "length too small", file: join(a, wrongLength("3", true), c), out: join(a, wrongLength("14", true), c), reasons: []string{"rewritten: its Content-Length was 3; by its WARC-Block-Digest it is 14"}},
		{name: "length too large", file: join(a, wrongLength("99999", true), c), out: join(a, wrongLength("14", true), c), reasons: []string{"rewritten: its Content-Length was 99999"}},
		{name: "length too large, at the end", file: join(a, wrongLength("99999", true)), out: join(a, wrongLength("14", true)), reasons: []string{"rewritten: its Content-Length was 99999"}},
		{name: "length wrong, no digest", file: join(a, wrongLength("3", false), c), out: join(a, c), reasons: []string{"lost: its block does not end where its Content-Length of 3 says"}},
		{name: "length wrong, gzip", file: join(ga, pack(warc.Gzip, wrongLength("3", true)), gc), texts: [][]byte{a, wrongLength("14", true), c}, reasons: []string{"rewritten: a gzip member"}},
		{name: "length wrong, gzip, no digest", file: join(ga, pack(warc.Gzip, wrongLength("3", false)), gc), out: join(ga, gc), reasons: []string{"lost: its block does not end"}},
		{name: "length is no number", file: join(a, wrongLength("x", true), c), out: join(a, c), reasons: []string{"lost: a record starts here, but the Content-Length"}},
		{name: "a WARC file as payload", file: join(a, nested, c), reasons: nil},
		{name: "a WARC file in a block that is wrong", file: join(a, bytes.Replace(nested, []byte("text"), []byte("test"), 1), b), out: join(a, b), reasons: []string{"lost: its block does not agree"}},
		{name: "records that end where a damaged one does", file: join(b, d[:len(d)-len(a)], a, c), out: join(b, a, c), reasons: []string{"lost: its block does not agree"}},
		{name: "a member that goes on into the next", file: join(ga, swallows(gb)), out: join(ga, gb), reasons: []string{"lost: its gzip member is damaged"}},
		{name: "no record", file: join(a, "garbage WARC/1.1\r\nContent-Length: 0\r\n\r\n\r\n\r\n", b), out: join(a, b), reasons: []string{"lost: no record starts here"}},
		{name: "zeros in the header", file: join(b, zeroed, c), out: join(b, c), reasons: []string{"lost: a record starts here, but its header has what no writer puts there"}},
		{name: "the end of the header is gone", file: join(a[:60], b, c), out: join(b, c), reasons: []string{"lost: a record starts here, but its header has two different ids"}},
		{name: "a line without a colon", file: join(a, noColon, c), reasons: nil},
		{name: "a line without a colon in a damaged member", file: flip(pack(warc.Gzip, join(a, noColon)), -6), texts: [][]byte{a}, reasons: []string{"lost: its gzip member is damaged: its checksum"}},
		{name: "garbage in place of line ends", file: join(noEnd(a), "\r\ngarbage", b), out: join(a, b), reasons: []string{"rewritten: behind the block there was", "lost: no record"}},
		{name: "LF only", file: join(bytes.ReplaceAll(c, []byte("\r\n"), []byte("\n")), a), out: join(bytes.ReplaceAll(noEnd(c), []byte("\r\n"), []byte("\n")), recordEnd, a), reasons: []string{"rewritten: behind the block there was \"\\n\\n\""}},
		{name: "LF in the header", file: join(bytes.Replace(c, []byte("\r\n"), []byte("\n"), 3), a), reasons: nil},
		{name: "no WARC file", file: []byte("hello world"), out: []byte{}, reasons: []string{"lost: no record starts here"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			res := repaired(t, test.file)
			var reasons []string
			for _, g := range res.ranges {
				if g.Reason != "" {
					reasons = append(reasons, string(g.Kind)+": "+g.Reason)
				}
			}
			if !slices.EqualFunc(reasons, test.reasons, strings.HasPrefix) {
				t.Errorf("reasons %q, want %q", reasons, test.reasons)
			}
			switch {
			case test.texts != nil:
				if got, want := unpack(t, res.Compression, res.out), bytes.Join(test.texts, nil); !bytes.Equal(got, want) {
					t.Errorf("the output is\n%q\nwant\n%q", got, want)
				}
			case test.out == nil && !slices.ContainsFunc(reasons, func(r string) bool { return !strings.HasPrefix(r, "kept: ") }):
				if res.Changed {
					t.Errorf("it was changed: %+v", res.ranges)
				}
			case test.out != nil && !bytes.Equal(res.out, test.out):
				t.Errorf("the output is\n%q\nwant\n%q", res.out, test.out)
			}
		})
	}
}

func unpack(t *testing.T, form warc.Compression, file []byte) []byte {
	t.Helper()
	r := io.Reader(bytes.NewReader(file))
	var err error
	if form == warc.Gzip {
		r, err = gzip.NewReader(r)
	} else if form == warc.Zstd {
		r, err = zstd.NewReader(r)
	}
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// A file that is one gzip member, and cut, gives the records before the cut.
func TestOneMemberCut(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 1))
	var text []byte
	var ends []int
	for i := range 50 {
		block := make([]byte, 3000)
		for j := range block {
			block[j] = byte(rnd.Uint32())
		}
		text = append(text, recordText(fmt.Sprintf("<%d>", i), block, i%2 == 0)...)
		ends = append(ends, len(text))
	}
	file := pack(warc.Gzip, text)
	res := repaired(t, file[:len(file)/2])
	if res.Rewritten < 20 || res.Rewritten > 25 || !bytes.Equal(unpack(t, warc.Gzip, res.out), text[:ends[res.Rewritten-1]]) {
		t.Errorf("%+v", res.Summary)
	}
	if len(res.ranges) != 1 || res.ranges[0].Records != int(res.Rewritten) || len(res.ranges[0].Refs) != 1 {
		t.Errorf("%+v", res.ranges)
	}
}

// A zstd file with a dictionary can only be read with it.
func TestDictionary(t *testing.T) {
	a, b := recordText("<a>", []byte("block a"), true), recordText("<b>", []byte("block b"), true)
	var samples [][]byte
	for i := range 200 {
		samples = append(samples, recordText(fmt.Sprintf("<%d>", i), fmt.Appendf(nil, "<html> some %d words %x", i*i, i*7919), true))
	}
	dict, err := zstd.BuildDict(zstd.BuildDictOptions{ID: 42, Contents: samples, History: bytes.Join(samples[:20], nil)})
	if err != nil {
		t.Fatal(err)
	}
	z, err := zstd.NewWriter(nil, zstd.WithEncoderDict(dict), zstd.WithEncoderConcurrency(1))
	if err != nil {
		t.Fatal(err)
	}
	za, zb := z.EncodeAll(a, nil), z.EncodeAll(b, nil)
	small := pack(warc.Zstd, dict)
	for name, d := range map[string][]byte{"plain": dict, "compressed": small} {
		first := join(dictMagic, []byte{byte(len(d)), byte(len(d) >> 8), byte(len(d) >> 16), 0}, d)
		if res := repaired(t, join(first, za, zb)); res.Changed || res.Kept != 2 {
			t.Errorf("%s: %+v %+v", name, res.Summary, res.ranges)
		}
		if res := repaired(t, join(first, za, "garbage", zb)); !bytes.Equal(res.out, join(first, za, zb)) {
			t.Errorf("%s: %+v", name, res.Summary)
		}
	}
	if res := repaired(t, join(za, zb)); res.Kept != 0 || res.LostBytes == 0 {
		t.Errorf("without: %+v", res.Summary)
	}
}

type failing struct{ after int64 }

var errDisk = errors.New("disk on fire")

func (f failing) ReadAt(p []byte, offset int64) (int, error) {
	if offset+int64(len(p)) > f.after {
		return 0, errDisk
	}
	return bytes.NewReader(bytes.Repeat(recordText("<a>", []byte("abcdefgh"), true), 10_000)).ReadAt(p, offset)
}

// An input that cannot be read is not damaged.
func TestInputFails(t *testing.T) {
	_, err := Run(t.Context(), failing{300_000}, 1_000_000, Options{Create: func(warc.Compression) (io.Writer, error) {
		t.Error("an output is made")
		return io.Discard, nil
	}})
	if !errors.Is(err, errDisk) {
		t.Errorf("%v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Run(ctx, failing{1 << 20}, 1000, Options{}); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	want := errors.New("no room")
	if _, err := Run(t.Context(), strings.NewReader("hello"), 5, Options{Create: func(warc.Compression) (io.Writer, error) { return nil, want }}); !errors.Is(err, want) {
		t.Errorf("%v", err)
	}
}

func FuzzRun(f *testing.F) {
	a, b := recordText("<a>", []byte("block a"), true), recordText("<b>", []byte("block b"), false, "WARC-Concurrent-To", "<a>")
	for _, form := range []warc.Compression{warc.Gzip, warc.Plain, warc.Zstd} {
		f.Add(join(pack(form, a), pack(form, b)))
		f.Add(join(pack(form, join(a, b)), "garbage", pack(form, a[:20]), pack(form, a[20:])))
	}
	f.Fuzz(func(t *testing.T, file []byte) { repairedAs(t, file, false) })
}
