package warc

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/iotest"

	"github.com/klauspost/compress/zstd"
)

var trained = sync.OnceValues(func() (*Dictionary, error) {
	var samples [][]byte
	for n := range 200 {
		samples = append(samples, append(bytes.Clone(responseHeader), prose(500+n)...))
	}
	return TrainDictionary(samples, 8<<10)
})

// testDictionary is a dictionary for records like responseHeader and prose.
func testDictionary(t testing.TB) *Dictionary {
	t.Helper()
	d, err := trained()
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// frames compresses each part as a frame of its own, as other writers do.
func frames(d *Dictionary, parts ...string) string {
	var dst []byte
	z, err := d.encoder()
	if err != nil {
		panic(err)
	}
	for _, p := range parts {
		if p == "" { // the encoder leaves the checksum out too
			dst = append(dst, zstdMagic+"\x20\x00\x01\x00\x00"...)
			continue
		}
		dst = z.EncodeAll([]byte(p), dst)
	}
	return string(dst)
}

func skippableFrame(id byte, content string) string {
	n := len(content)
	return string([]byte{0x50 | id, 0x2a, 0x4d, 0x18, byte(n), byte(n >> 8), byte(n >> 16), 0}) + content
}

func TestReaderZstd(t *testing.T) {
	d := testDictionary(t)
	frame := string(d.AppendFrame(nil))
	packed := skippableFrame(0xd, frames(nil, string(d.Bytes())))
	a, b, long := rec("1.1", "response", "a"), rec("1.0", "request", ""), rec("1.1", "resource", string(prose(300_000)))
	fa, fb, flong := frames(nil, a), frames(nil, b), frames(nil, long)
	other := func(z *zstd.Encoder, err error) string { // of another writer
		if err != nil {
			t.Fatal(err)
		}
		return string(z.EncodeAll([]byte(a), nil))
	}
	all := []string{"a", "", string(prose(300_000))}
	for _, c := range []struct {
		name     string
		in       string
		strict   string // rule, "" for none
		tolerant string
		blocks   []string // that a tolerant reader gets
	}{
		{"frames", fa + fb + flong, "", "", all},
		{"a dictionary", frame + frames(d, a, b, long), "", "", all},
		{"a compressed dictionary", packed + frames(d, a, b, long), "", "", all},
		{"a record in several frames", frames(nil, a[:20], a[20:]) + fb + frames(nil, long[:1000], long[1000:200_000], long[200_000:]), "", "", all},
		{"a record end cut by frames", frames(nil, a[:len(a)-3], a[len(a)-3:len(a)-1], a[len(a)-1:], b) + flong, "", "", all},
		{"empty frames", frames(nil, "", a, "", b, "", "", long, ""), "", "", all},
		{"skippable frames", fa + skippableFrame(0, "x") + skippableFrame(0xf, "") + fb + flong + skippableFrame(1, strings.Repeat("x", 70_000)), "", "", all},
		{"skippable frames within a record", frames(nil, a[:20]) + skippableFrame(2, "x") + frames(nil, a[20:], b, long), "", "", all},
		{"a skippable frame first", skippableFrame(2, "x") + fa, RuleMember, "", []string{"a"}},
		{"another dictionary later", fa + frame + fb, RuleMember, "", []string{"a", ""}},
		{"two records in a frame", frames(nil, a+b, long), RuleMember, "", all},
		{"no checksum", other(zstd.NewWriter(nil, zstd.WithEncoderCRC(false), zstd.WithSingleSegment(true))), "", "", []string{"a"}},
		{"no content size", other(zstd.NewWriter(nil, zstd.WithSingleSegment(false))), "", "", []string{"a"}},
		{"frames that do not name the dictionary", frame + fa, "", "", []string{"a"}},
		{"no dictionary", frames(d, a), RuleMember, RuleMember, nil},
		{"no record end", frames(nil, a[:len(a)-4], b), RuleEnd, "", []string{"a", ""}},
		{"a short block", frames(nil, long[:len(long)-10]) + fb, RuleLength, RuleLength, nil},
		{"a damaged frame", fa + strings.Replace(fb, "WARC", "warc", 1), RuleMember, RuleMember, []string{"a"}},
		{"something behind", fa + "junk", RuleMember, RuleMember, []string{"a"}},
		{"a frame that ends too early", fa[:len(fa)-1], RuleMember, RuleMember, nil},
		{"a dictionary that ends too early", frame[:len(frame)-1], RuleMember, RuleMember, nil},
		{"a damaged dictionary", strings.Replace(frame, "\x37\xa4", "\x37\xa5", 1) + fa, RuleMember, RuleMember, nil},
		{"a long dictionary", dictionaryFrameMagic + "\x01\x00\x80\x00" + strings.Repeat("\x00", 8<<20+1), RuleMember, RuleMember, nil},
		{"a dictionary that unpacks to more", skippableFrame(0xd, frames(nil, strings.Repeat("x", 8<<20+1))), RuleMember, RuleMember, nil},
		{"a big window", zstdMagic + "\x00\x80" + "\x09\x00\x00x", RuleMember, RuleMember, nil},
		{"a big window of a single segment", zstdMagic + "\xe0\x00\x00\x00\x00\x01\x00\x00\x00" + "\x09\x00\x00x", RuleMember, RuleMember, nil},
		{"a bad block", zstdMagic + "\x24\x01" + "\x0f\x00\x00x", RuleMember, RuleMember, nil},
	} {
		for _, strict := range []bool{true, false} {
			rule, blocksWanted := c.tolerant, c.blocks
			if strict {
				rule = c.strict
			}
			for pieces, r := range map[string]io.Reader{"whole": strings.NewReader(c.in), "one byte": iotest.OneByteReader(strings.NewReader(c.in))} {
				if pieces != "whole" && len(c.in) > 500_000 {
					continue
				}
				got, err := readAll(r, strict)
				if brokenRule(err) != rule || (err == nil) != (rule == "") {
					t.Errorf("%s, strict %v, %s: %d records, %v, want rule %q", c.name, strict, pieces, len(got), err, rule)
				} else if rule == "" && !slices.Equal(blocks(got), blocksWanted) || !strict && !slices.Equal(blocks(got), blocksWanted) {
					t.Errorf("%s, strict %v, %s: %d records", c.name, strict, pieces, len(got))
				}
				if e := (*Error)(nil); err != nil && strings.Contains(err.Error(), "gzip") {
					t.Errorf("%s: %v, %v", c.name, err, e)
				}
			}
		}
	}
}

// TestZstdBounds: what is too big is refused for that, before there is memory for
// it.
func TestZstdBounds(t *testing.T) {
	for in, want := range map[string]string{
		zstdMagic + "\x00\x88" + "\x09\x00\x00x":                                     "needs a window of 134217728 bytes",
		zstdMagic + "\xe0\x01\x00\x00\x02\x00\x00\x00\x00" + "\x09\x00\x00x":         "needs a window of 33554433 bytes",
		dictionaryFrameMagic + "\x01\x00\x80\x00" + dictionaryMagic:                  "the dictionary has 8388609 bytes",
		skippableFrame(0xd, frames(nil, dictionaryMagic+strings.Repeat("x", 8<<20))): "the compressed dictionary is damaged",
	} {
		if _, err := NewReader(strings.NewReader(in)).Next(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.20q: %v, want %s", in, err, want)
		}
	}
}

// TestReaderZstdOffsets starts again at each record, with the dictionary.
func TestReaderZstdOffsets(t *testing.T) {
	d := testDictionary(t)
	in := string(d.AppendFrame(nil))
	var want []string
	var offsets []int64
	for i := range 20 {
		in += skippableFrame(1, "x")
		offsets = append(offsets, int64(len(in)))
		want = append(want, fmt.Sprint("block ", i))
		in += frames(d, rec("1.1", "resource", want[i]))
	}
	all, err := readAll(strings.NewReader(in), true)
	if err != nil || !slices.Equal(blocks(all), want) {
		t.Fatal(len(all), err)
	}
	dictionary, err := ReadDictionary(strings.NewReader(in))
	if err != nil || !bytes.Equal(dictionary.Bytes(), d.Bytes()) || dictionary.ID() != d.ID() {
		t.Fatal(err)
	}
	for i, g := range all {
		if g.Offset != offsets[i] {
			t.Errorf("record %d is at %d, not %d", i, g.Offset, offsets[i])
		}
		r := NewReader(strings.NewReader(in[g.Offset:]))
		r.Dictionary, r.Strict = dictionary, true
		if _, err := r.Next(); err != nil {
			t.Fatal(i, err)
		}
		if block, err := io.ReadAll(r); string(block) != want[i] || g.Offset+r.InputOffset() != g.end {
			t.Errorf("record %d, from its offset: %q, %v, up to %d", i, block, err, r.InputOffset())
		}
	}
	for _, other := range []string{"", "WARC/1.1", gz("x"), frames(nil, "x"), skippableFrame(1, "x")} {
		if d, err := ReadDictionary(strings.NewReader(other)); d != nil || err != nil {
			t.Errorf("%q has dictionary %v, %v", other, d, err)
		}
	}
}

// TestWholeZstdAtEveryByte cuts a file at every byte, in the dictionary too.
func TestWholeZstdAtEveryByte(t *testing.T) {
	d := testDictionary(t)
	in := string(d.AppendFrame(nil))
	bounds := []int64{0}
	for _, g := range [][]string{{linked("info", "x")}, {linked("q", "request", "r"), linked("r", strings.Repeat("response", 100), "q")}, {linked("last", "")}} {
		in += frames(d, g...)
		bounds = append(bounds, int64(len(in)))
	}
	for n := range len(in) + 1 {
		if int64(n) < bounds[1]-300 && n%97 != 0 { // to save time
			continue
		}
		last, _ := slices.BinarySearch(bounds, int64(n)+1)
		if good, err := Whole(strings.NewReader(in[:n])); err != nil || good != bounds[last-1] {
			t.Fatalf("%d of %d bytes: %d, %v, want %d", n, len(in), good, err, bounds[last-1])
		}
	}
	for n := range len(in) {
		if int64(n) < bounds[1]-300 && n%97 != 0 {
			continue
		}
		damaged := []byte(in)
		damaged[n] ^= 0x10
		if good, err := Whole(bytes.NewReader(damaged)); err != nil || !slices.Contains(bounds, good) {
			t.Errorf("byte %d: %d, %v", n, good, err)
		} else if kept, err := readAll(bytes.NewReader(damaged[:good]), true); err != nil || len(kept) > 0 && kept[0].block != "x" {
			t.Errorf("byte %d: %d records, %v", n, len(kept), err)
		}
	}
}

// program returns the path of a program that interoperates with us. Without it
// the test is skipped, but not in CI.
func program(t *testing.T, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil && os.Getenv("CI") == "true" {
		t.Fatal(err)
	} else if err != nil {
		t.Skip(err)
	}
	return path
}

// ofAllKinds are blocks that are compressed and stored, in one piece and several.
var ofAllKinds = sync.OnceValue(func() []string {
	return []string{"", "x", string(prose(1000)), string(prose(100_000)), string(prose(3 << 20)), string(noise(5000)), string(noise(maxBlock - 4)), string(noise(maxBlock - 3)),
		string(noise(maxBlock)), string(noise(500_000)), string(jsonText(50_000)) + string(noise(200_000)), strings.Repeat("a", 1<<20)}
})

// TestZstdProgram lets the reference implementation decode what we write, and
// reads what it writes.
func TestZstdProgram(t *testing.T) {
	zstdPath := program(t, "zstd")
	for _, d := range []*Dictionary{nil, testDictionary(t)} {
		var packed, plain bytes.Buffer
		z, p := NewWriter(&packed, WriterOptions{Compression: Zstd, Dictionary: d}), NewWriter(&plain, WriterOptions{Compression: Plain})
		h := Header{{"WARC-Type", "resource"}, {"WARC-Record-ID", "<a:1>"}, {"X-Long", string(prose(1000))}}
		for _, b := range ofAllKinds() {
			for _, w := range []*Writer{z, p} {
				if err := w.WriteRecord(h, strings.NewReader(b), int64(len(b))); err != nil {
					t.Fatal(err)
				}
			}
			// The head of a message is compressed, what comes behind it is not.
			header, err := append(slices.Clip(h), Field{"Content-Length", fmt.Sprint(len(b) + len(responseHead))}).Encode(nil, V1_1)
			if err != nil {
				t.Fatal(err)
			}
			frame, err := StoredFrame(d, header, responseHead, strings.NewReader(b), int64(len(b)))
			if err != nil {
				t.Fatal(err)
			}
			if _, err := io.Copy(&packed, frame); err != nil {
				t.Fatal(err)
			}
			fmt.Fprintf(&plain, "%s%s%s\r\n\r\n", header, responseHead, b)
		}
		// Matches that reach back further than a block.
		far := prose(150_000)
		frame, err := StoredFrame(d, []byte("WARC/1.1\r\nContent-Length: 300001\r\n\r\n"), append(bytes.Clone(far), far...), strings.NewReader("x"), 1)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.Copy(&packed, frame); err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&plain, "WARC/1.1\r\nContent-Length: 300001\r\n\r\n%s%sx\r\n\r\n", far, far)
		if all, err := readAll(bytes.NewReader(packed.Bytes()), true); err != nil || len(all) != 2*len(ofAllKinds())+1 {
			t.Fatal(len(all), err)
		}
		args := []string{"-d", "-c"}
		if d != nil {
			name := filepath.Join(t.TempDir(), "dictionary")
			if err := os.WriteFile(name, d.Bytes(), 0o600); err != nil {
				t.Fatal(err)
			}
			args = append(args, "-D", name)
		}
		cmd := exec.Command(zstdPath, args...)
		cmd.Stdin = &packed
		var stderr bytes.Buffer
		cmd.Stderr = &stderr
		if out, err := cmd.Output(); err != nil || !bytes.Equal(out, plain.Bytes()) {
			t.Errorf("dictionary %d: zstd makes %d octets of it, not %d: %v\n%s", d.ID(), len(out), plain.Len(), err, stderr.Bytes())
		}
		// What it writes.
		in := rec("1.1", "resource", string(prose(400_000)))
		for _, level := range []string{"-1", "-3", "-19"} {
			cmd := exec.Command(zstdPath, append([]string{level, "-c", fmt.Sprint("--stream-size=", len(in))}, args[2:]...)...)
			cmd.Stdin = strings.NewReader(in)
			out, err := cmd.Output()
			if err != nil {
				t.Fatal(err)
			}
			if all, err := readAll(bytes.NewReader(append(d.AppendFrame(nil), out...)), true); err != nil || len(all) != 1 || len(all[0].block) != 400_000 {
				t.Errorf("zstd %s, dictionary %d: %d records, %v", level, d.ID(), len(all), err)
			}
		}
	}
}

func TestDictionary(t *testing.T) {
	d := testDictionary(t)
	var with, without bytes.Buffer
	block := string(prose(600))
	for w, dictionary := range map[*bytes.Buffer]*Dictionary{&with: d, &without: nil} {
		if err := WriteFrame(w, dictionary, responseHeader, strings.NewReader(block), int64(len(block))); err != nil {
			t.Fatal(err)
		}
	}
	if with.Len() > without.Len()*2/3 {
		t.Errorf("%d bytes with a dictionary, %d without", with.Len(), without.Len())
	}
	for name, b := range map[string][]byte{
		"empty": nil, "text": []byte("no dictionary"), "cut": d.Bytes()[:20], "long": make([]byte, MaxDictionary+1),
		"no id": append([]byte(dictionaryMagic+"\x00\x00\x00\x00"), d.Bytes()[8:]...), "damaged frame": []byte(zstdMagic + "x"),
	} {
		if _, err := NewDictionary(b); err == nil {
			t.Errorf("%s: taken as a dictionary", name)
		}
	}
	for name, samples := range map[string][][]byte{"none": nil, "short": {[]byte("x")}} {
		if _, err := TrainDictionary(samples, 0); err == nil {
			t.Errorf("%s: trained", name)
		}
	}
}

// The head of a stored frame says its size, whatever that is.
func TestFrameHeadSizes(t *testing.T) {
	for _, size := range []uint64{1, 255, 1 << 16, 1<<32 - 1, 1 << 32, 1 << 40} {
		for _, id := range []uint32{0, 1 << 20} {
			var head zstd.Header
			b := appendFrameHead(nil, 10, id, size)
			if err := head.Decode(b); err != nil || head.FrameContentSize != size || !head.HasFCS || !head.HasCheckSum || head.DictionaryID != id || head.HeaderSize != len(b) {
				t.Errorf("size %d, dictionary %d: %+v, %v", size, id, head, err)
			}
		}
	}
}
