package warc

import (
	"bytes"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
)

// FuzzEncode: any header that can be written reads back equal.
func FuzzEncode(f *testing.F) {
	f.Add("WARC-Type", "response", "WARC-Target-URI", "http://example.org/?a=b: c")
	f.Add("WARC-Concurrent-To", "<urn:uuid:1>", "warc-concurrent-to", "<urn:uuid:2>")
	f.Add("a", "", "b", "ä\u2028b =?utf-8?q?x?=")
	f.Add("a", "x\r\nb: c", "b", " x")
	f.Add("a", "\u0085", "b\u00a0", "\u00a0x")
	f.Fuzz(func(t *testing.T, n1, v1, n2, v2 string) {
		h := Header{{n1, v1}, {n2, v2}, {"Content-Length", "0"}}
		for _, version := range []Version{V1_0, V1_1} {
			encoded, err := h.Encode(nil, version)
			if err != nil {
				return
			}
			r := NewReader(bytes.NewReader(append(encoded, recordEnd...)))
			r.Strict = true
			rec, err := r.Next()
			if strings.EqualFold(n1, "Content-Length") || strings.EqualFold(n2, "Content-Length") {
				return // may be two of them, or a wrong one
			}
			if err != nil || !slices.Equal(rec.Header, h) || rec.Version != version {
				t.Fatalf("%q came back as %+v, %v", h, rec, err)
			}
			if _, err := r.Next(); err != io.EOF {
				t.Fatal(err)
			}
		}
	})
}

func addFiles(f *testing.F) {
	a, b := linked("a", "block a", "b"), linked("b", "block b", "a")
	folded := rec("1.0", "response", "x", "X: y\r\n z", "Y:z", "WARC-Block-Digest: sha1:x")
	mine := new(bytes.Buffer)
	w := NewWriter(mine, WriterOptions{})
	w.WriteRecord(Header{{"WARC-Type", "resource"}}, bytes.NewReader(noise(10_000)), 10_000)
	d := testDictionary(f)
	withDictionary := string(d.AppendFrame(nil))
	for _, opts := range []WriterOptions{{SkipLengths: true}, {Compression: Zstd}, {Compression: Zstd, Dictionary: d}} {
		f.Add(write(f, opts, "block", "", string(noise(3000)), string(prose(3000))))
	}
	for _, s := range []string{
		"", "WARC/1.1\r\n", a + b, a + b[:30], folded, rec("0.17", "x", ""), strings.ReplaceAll(a, "\r\n", "\n"),
		gz(a, b), gz(a + b), gz(a[:40], a[40:]), gz(folded, ""), gz(a, b)[:100], gz("x") + a, mine.String(),
		frames(nil, a, b), frames(nil, a+b), frames(nil, a[:40], "", a[40:], b) + skippableFrame(3, "x"), withDictionary + frames(d, a, b), withDictionary + frames(nil, a), withDictionary[:5000],
		frames(nil, a, b)[:100], skippableFrame(0xd, frames(nil, string(d.Bytes()))) + frames(d, a), frames(d, a),
		"WARC/1.1\r\nContent-Length: 9223372036854775807\r\n\r\n", "\r\n\n\r" + a + "\r\n" + b,
	} {
		f.Add([]byte(s))
	}
}

// FuzzReader: nothing panics; a block is never longer than it says; what a
// strict reader takes a tolerant one takes as well, and sees the same in it.
func FuzzReader(f *testing.F) {
	addFiles(f)
	f.Fuzz(func(t *testing.T, in []byte) {
		strict, err := readAll(bytes.NewReader(in), true)
		tolerant, terr := readAll(bytes.NewReader(in), false)
		for _, e := range []error{err, terr} {
			if broken := (*Error)(nil); e != nil && (!errors.As(e, &broken) || broken.Offset < 0 || broken.Offset > int64(len(in))) {
				t.Fatalf("error %v", e)
			}
		}
		if len(strict) > len(tolerant) || err == nil && (terr != nil || len(strict) != len(tolerant)) {
			t.Fatalf("strict: %d records, %v; tolerant: %d, %v", len(strict), err, len(tolerant), terr)
		}
		if listed, lerr := list(bytes.NewReader(in), false); err == nil && (lerr != nil || len(listed) != len(strict)) {
			t.Fatalf("strict: %d records; listed: %d, %v", len(strict), len(listed), lerr)
		}
		for i, s := range strict {
			if l := tolerant[i]; s.block != l.block || s.Offset != l.Offset || !slices.Equal(s.Header, l.Header) || int64(len(s.block)) != s.Length {
				t.Fatalf("record %d: strict %+v, tolerant %+v", i, s, l)
			}
		}
	})
}

// FuzzRoundTrip: what is in the form that we write is written as the same bytes;
// all else that is read strictly, and can be written, reads back equal.
func FuzzRoundTrip(f *testing.F) {
	addFiles(f)
	f.Fuzz(func(t *testing.T, in []byte) {
		all, err := readAll(bytes.NewReader(in), true)
		if err != nil {
			return
		}
		var buf bytes.Buffer
		w := NewWriter(&buf, WriterOptions{Compression: Plain})
		ours := !bytes.HasPrefix(in, []byte(gzipHead[:2])) && !bytes.HasPrefix(in, []byte(zstdMagic)) && !isSkippable(in)
		for _, g := range all {
			w.opts.Version = g.Version
			if err := w.WriteRecord(g.Header, strings.NewReader(g.block), g.Length); err != nil {
				return // an older version, a tab in a value, a length with zeros in front
			}
			if ours {
				head := in[g.Offset : g.end-g.Length-int64(len(recordEnd))]
				ours = canonical(string(head))
			}
		}
		if ours && !bytes.Equal(buf.Bytes(), in) {
			t.Fatalf("%q was written as %q", in, buf.Bytes())
		}
		again, err := readAll(bytes.NewReader(buf.Bytes()), true)
		if err != nil || len(again) != len(all) {
			t.Fatalf("%d records became %d, %v", len(all), len(again), err)
		}
		for i, g := range again {
			if !slices.Equal(g.Header, all[i].Header) || g.block != all[i].block {
				t.Fatalf("%+v became %+v", all[i], g)
			}
		}
	})
}

// FuzzWriter: what is written in any form reads back equal, in full and skipped.
func FuzzWriter(f *testing.F) {
	f.Add("X", "value", []byte("block"), uint32(0), uint8(0))
	f.Add("WARC-Type", "response", []byte("compressible "), uint32(100_000), uint8(1))
	f.Add("WARC-Type", "response", []byte{}, uint32(0), uint8(2))
	f.Add("WARC-Type", "response", noise(3000), uint32(200_000), uint8(3))
	f.Add("WARC-Type", "response", noise(300), uint32(600_000), uint8(4))
	d := testDictionary(f)
	all := []WriterOptions{{}, {SkipLengths: true}, {Compression: Zstd}, {Compression: Zstd, Dictionary: d}, {Compression: Plain}}
	f.Fuzz(func(t *testing.T, name, value string, piece []byte, size uint32, form uint8) {
		opts := all[int(form)%len(all)]
		block := bytes.Repeat(piece, 1+int(size%1_000_000)/(1+len(piece)))
		var buf bytes.Buffer
		w := NewWriter(&buf, opts)
		h := Header{{name, value}}
		if strings.EqualFold(name, "Content-Length") || w.WriteRecord(h, bytes.NewReader(block), int64(len(block))) != nil {
			return
		}
		if err := w.WriteRecord(h, bytes.NewReader(piece), int64(len(piece))); err != nil {
			t.Fatal(err)
		}
		got, err := readAll(bytes.NewReader(buf.Bytes()), true)
		if err != nil || len(got) != 2 || got[0].block != string(block) || got[1].block != string(piece) || got[0].Header[0] != h[0] {
			t.Fatalf("%+v: %d records, %v", opts, len(got), err)
		}
		if listed, err := list(bytes.NewReader(buf.Bytes()), false); err != nil || len(listed) != 2 || listed[1].Offset != got[1].Offset {
			t.Fatalf("%+v: listed %d records, %v", opts, len(listed), err)
		}
	})
}

// canonical reports whether a header has one space behind each colon, no other
// around values, and no folded lines.
func canonical(head string) bool {
	for _, line := range strings.Split(strings.TrimSuffix(head, "\r\n\r\n"), "\r\n")[1:] {
		name, value, ok := strings.Cut(line, ": ")
		if !ok || !isToken(name) || strings.TrimSpace(value) != value {
			return false
		}
	}
	return true
}

// FuzzWhole: the prefix reads cleanly, is its own prefix, and nothing that is
// whole is left out of it.
func FuzzWhole(f *testing.F) {
	addFiles(f)
	f.Fuzz(func(t *testing.T, in []byte) {
		good, err := Whole(bytes.NewReader(in))
		if err != nil || good < 0 || good > int64(len(in)) {
			t.Fatal(good, err)
		}
		all, err := readAll(bytes.NewReader(in[:good]), true)
		if err != nil {
			t.Fatalf("the prefix of %d bytes: %v", good, err)
		}
		if again, err := Whole(bytes.NewReader(in[:good])); err != nil || again != good {
			t.Fatalf("the prefix of %d bytes is whole up to %d, %v", good, again, err)
		}
		ids := map[string]bool{}
		for _, g := range all {
			ids[g.ID()] = true
		}
		for _, g := range all {
			for _, other := range g.Header.Values("WARC-Concurrent-To") {
				if !ids[other] {
					t.Fatalf("%s names %s, which is not in the prefix", g.ID(), other)
				}
			}
		}
	})
}
