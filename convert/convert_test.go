package convert

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/warctee/warctee/warc"
)

// TestRecompress: headers and blocks are the same octets, whatever is in them.
func TestRecompress(t *testing.T) {
	for seed := range uint64(15) {
		in := []byte(randomFile(seed))
		want := readAll(t, in)
		for _, way := range [][]warc.Compression{
			{warc.Gzip, warc.Plain, warc.Gzip}, {warc.Zstd, warc.Gzip, warc.Zstd}, {warc.Plain, warc.Zstd, warc.Plain},
		} {
			b := in
			var files [][]byte
			for _, c := range way {
				var result Result
				b, result = to(t, b, Options{Compression: c, From: "a.warc", To: "a.warc" + c.Suffix()})
				files = append(files, b)
				if len(result.Changed) > 0 {
					t.Fatalf("seed %d: %v was changed", seed, result.Changed)
				}
				if got := readAll(t, b); !slices.EqualFunc(got, want, func(a, b kept) bool { return a.raw == b.raw && a.block == b.block }) {
					t.Fatalf("seed %d, %v: records differ:\n%q\n%q", seed, way, got, want)
				}
			}
			if !bytes.Equal(files[0], files[2]) {
				t.Errorf("seed %d: %v differs when it was %v", seed, way[0], way[1])
			}
		}
	}
}

const info10 = "software: x\r\nformat: WARC File Format 1.0\r\nconformsTo: http://bibnum.bnf.fr/WARC/WARC_ISO_28500_version1_latestdraft.pdf\r\n"

func TestVersions(t *testing.T) {
	info := record(info10, "WARC/1.0", "WARC-Type: warcinfo", "WARC-Record-ID: <urn:i>", "WARC-Date: 2020-02-03T04:05:06Z", "warc-filename:  a.warc",
		"Content-Type: application/warc-fields", "WARC-Block-Digest: sha256:"+sumOf(info10))
	old := info + record("x", "WARC/0.18", "WARC-Type: resource", "WARC-Record-ID: <urn:a>", "WARC-Date: 2020-02-03T04:05:06Z", "WARC-Target-URI: <http://a.example/>", "x-Folded: a\r\n  b") +
		record("", "WARC/1.0", "WARC-Type: revisit", "WARC-Record-ID: <urn:r>", "WARC-Date: 2020-02-03T04:05:07Z", "WARC-Target-URI: http://a.example/",
			"WARC-Profile: http://netpreserve.org/warc/1.0/revisit/identical-payload-digest", "WARC-Refers-To-Date: 2020-02-03T04:05:06Z") +
		record("", "WARC/1.0", "WARC-Type: revisit", "WARC-Record-ID: <urn:s>", "WARC-Date: 2020-02-03T04:05:07Z",
			"WARC-Profile: http://netpreserve.org/warc/1.0/revisit/server-not-modified") +
		record("", "WARC/1.0", "WARC-Type: revisit", "WARC-Record-ID: <urn:t>", "WARC-Profile: http://example.org/1.0/mine")
	b, result := to(t, []byte(old), Options{Compression: warc.Plain, Version: warc.V1_1, From: "a.warc", To: "b.warc"})
	newInfo := strings.ReplaceAll(strings.Replace(info10, "http://bibnum.bnf.fr/WARC/WARC_ISO_28500_version1_latestdraft.pdf", "https://iipc.github.io/warc-specifications/specifications/warc-format/warc-1.1/", 1), "Format 1.0", "Format 1.1")
	info = record(newInfo, "WARC/1.1", "WARC-Type: warcinfo", "WARC-Record-ID: <urn:i>", "WARC-Date: 2020-02-03T04:05:06Z", "warc-filename: b.warc",
		"Content-Type: application/warc-fields", "WARC-Block-Digest: sha256:"+sumOf(newInfo))
	_, rest, _ := strings.Cut(old, info10+"\r\n\r\n")
	want := info + strings.NewReplacer("WARC/1.0", "WARC/1.1", "WARC/0.18", "WARC/1.1", "<http://a.example/>", "http://a.example/", "warc/1.0/revisit", "warc/1.1/revisit").Replace(rest)
	if string(b) != want {
		t.Errorf("got:\n%s\nwant:\n%s", b, want)
	}
	for what, n := range map[string]int64{changedVersion: 5, changedProfile: 2, changedBrackets: 1, changedInfo: 1, changedName: 1} {
		if !slices.Contains(result.Changed, Count{what, n}) {
			t.Errorf("%d %s are not in %v", n, what, result.Changed)
		}
	}
	if len(result.Changed) != 5 {
		t.Errorf("changed: %v", result.Changed)
	}

	back, _ := to(t, b, Options{Compression: warc.Plain, Version: warc.V1_0, From: "b.warc", To: "a.warc"})
	again, result := to(t, back, Options{Compression: warc.Plain, Version: warc.V1_1, From: "a.warc", To: "b.warc"})
	if !bytes.Equal(again, b) {
		t.Errorf("1.1 → 1.0 → 1.1 gives\n%s\nand not\n%s", again, b)
	}
	same, result := to(t, again, Options{Compression: warc.Plain, Version: warc.V1_1, From: "b.warc", To: "b.warc"})
	if !bytes.Equal(same, again) || len(result.Changed) > 0 {
		t.Errorf("1.1 → 1.1 changes %v", result.Changed)
	}
}

func TestDates(t *testing.T) {
	for _, c := range []struct{ in, want, count string }{
		{"2020-02-03T04:05:06.987Z", "2020-02-03T04:05:06Z", changedDate},
		{"2020-02-03T04:05:06.123456789Z", "2020-02-03T04:05:06Z", changedDate},
		{"2020-02-03T04:05:06Z", "2020-02-03T04:05:06Z", ""},
		{"2020-02-03T04:05Z", "2020-02-03T04:05:00Z", filledDate},
		{"2020-02-03", "2020-02-03T00:00:00Z", filledDate},
		{"2020", "2020-01-01T00:00:00Z", filledDate},
		{"yesterday", "yesterday", "odd"},
	} {
		for _, field := range []string{"WARC-Date", "WARC-Refers-To-Date"} {
			in := record("", "WARC/1.1", "WARC-Type: revisit", "WARC-Record-ID: <urn:a>", field+": "+c.in)
			found := 0
			b, result := to(t, []byte(in), Options{Compression: warc.Plain, Version: warc.V1_0, Found: func(int64, string) { found++ }})
			if want := strings.Replace(strings.Replace(in, "1.1", "1.0", 1), c.in, c.want, 1); string(b) != want {
				t.Errorf("%s: got %q, want %q", c.in, b, want)
			}
			if c.count == "" && len(result.Changed) != 1 || (found > 0) != (c.count == "odd") || c.count != "" && c.count != "odd" && !slices.Contains(result.Changed, Count{c.count, 1}) {
				t.Errorf("%s: counted %v, and found %d", c.in, result.Changed, found)
			}
		}
	}
}

// TestInfo: a warcinfo that is not sure to be understood stays as it is.
func TestInfo(t *testing.T) {
	for name, c := range map[string]struct {
		found int
		lines []string
	}{
		"wrong digest":   {1, []string{"Content-Type: application/warc-fields", "WARC-Block-Digest: sha256:" + sumOf("")}},
		"unknown digest": {1, []string{"Content-Type: application/warc-fields", "WARC-Block-Digest: crc32:1234"}},
		"wrong payload":  {1, []string{"Content-Type: application/warc-fields", "WARC-Block-Digest: sha256:" + sumOf(info10), "WARC-Payload-Digest: sha256:" + sumOf("")}},
		"another type":   {0, []string{"Content-Type: text/xml", "WARC-Block-Digest: sha256:" + sumOf("")}},
		"another name":   {0, []string{"Content-Type: text/xml", "WARC-Filename: c.warc"}},
	} {
		in := record(info10, append([]string{"WARC/1.0", "WARC-Type: warcinfo", "WARC-Record-ID: <urn:a>"}, c.lines...)...)
		found := 0
		b, _ := to(t, []byte(in), Options{Compression: warc.Plain, Version: warc.V1_1, From: "a.warc", To: "b.warc", Found: func(int64, string) { found++ }})
		if want := strings.Replace(in, "WARC/1.0", "WARC/1.1", 1); string(b) != want || found != c.found {
			t.Errorf("%s: found %d, got %q, want %q", name, found, b, want)
		}
	}
}

// TestUnchangeable: what cannot be changed without doubt is refused.
func TestUnchangeable(t *testing.T) {
	in := record("", "WARC/1.1", "WARC-Date: 2020-02-03T04:05:06.5Z", "no colon", " 2021", "WARC-Target-URI: <http://a/", " >", "A: b", "no colon", " c")
	if b, _ := to(t, []byte(in), Options{Compression: warc.Plain}); string(b) != in {
		t.Errorf("nothing was asked for, and %q is changed to %q", in, b)
	}
	in = record("", "WARC/1.0", "WARC-Target-URI: <http://a/", "no colon", " >")
	if _, err := WARC(context.Background(), io.Discard, strings.NewReader(in), Options{Version: warc.V1_1}); !errors.Is(err, ErrUnchangeable) {
		t.Errorf("a line that continues one without a colon: %v", err)
	}
	in = strings.ReplaceAll(record("", "WARC/1.1", "WARC-Target-URI: <http://a/>", "WARC-Date: 2020-02-03T04:05:06.5Z"), "\r\n", "\n")
	if b, _ := to(t, []byte(in), Options{Compression: warc.Plain, Version: warc.V1_0}); !strings.HasPrefix(string(b), "WARC/1.0\nWARC-Target-URI: <http://a/>\nWARC-Date: 2020-02-03T04:05:06Z\n") {
		t.Errorf("bare line feeds, and angle brackets: %q becomes %q", in, b)
	}
	// Repeated fields are not mixed up.
	in = record("", "WARC/1.1", "WARC-Date: 2020-02-03T04:05:06.5Z", ": nothing", "WARC-Date: 2021-02-03T04:05:06Z", "no colon", "WARC-Date: 2022-02-03T04:05:06.7Z")
	b, _ := to(t, []byte(in), Options{Compression: warc.Plain, Version: warc.V1_0})
	if want := strings.NewReplacer("1.1", "1.0", ".5", "", ".7", "").Replace(in); string(b) != want {
		t.Errorf("got %q, want %q", b, want)
	}
}

func TestDamagedInput(t *testing.T) {
	good, _ := to(t, []byte(randomFile(3)+randomFile(4)), Options{})
	flipped := slices.Clone(good)
	flipped[len(flipped)-6] ^= 1
	for name, in := range map[string][]byte{"cut": good[:len(good)-3], "flipped": flipped, "garbage": append(slices.Clip(good), "garbage"...)} {
		var damage *warc.Error
		if _, err := WARC(context.Background(), io.Discard, bytes.NewReader(in), Options{}); !errors.As(err, &damage) || damage.Offset == 0 {
			t.Errorf("%s: %v", name, err)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := WARC(ctx, io.Discard, bytes.NewReader(good), Options{}); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

// TestVerify: each kind of difference is seen.
func TestVerify(t *testing.T) {
	in := record("one", "WARC/1.1", "A: b") + record("two", "WARC/1.1", "A: b")
	_, result := to(t, []byte(in), Options{Compression: warc.Plain})
	packed, _ := to(t, []byte(in), Options{})
	if err := Verify(bytes.NewReader(packed), result.Sum); err != nil {
		t.Fatal(err)
	}
	for name, b := range map[string]string{
		"another block":   strings.Replace(in, "two", "tow", 1),
		"another header":  strings.Replace(in, "A: b", "A: c", 1),
		"another version": strings.Replace(in, "WARC/1.1", "WARC/1.0", 1),
		"white space":     strings.Replace(in, "A: b", "A:  b", 1),
		"a line end":      strings.Replace(in, "A: b\r\n", "A: b\n", 1),
		"another order":   record("two", "WARC/1.1", "A: b") + record("one", "WARC/1.1", "A: b"),
		"one less":        record("one", "WARC/1.1", "A: b"),
		"one more":        in + record("two", "WARC/1.1", "A: b"),
		"nothing":         "",
		"cut":             in[:len(in)-5],
		"octets moved":    strings.Replace(in, "Content-Length: 3\r\n\r\none", "Content-Length: 2\r\n\r\non", 1),
	} {
		if err := Verify(strings.NewReader(b), result.Sum); !errors.Is(err, errDiffers) {
			t.Errorf("%s: %v", name, err)
		}
	}
	var one bytes.Buffer
	z := gzip.NewWriter(&one)
	io.WriteString(z, in)
	z.Close()
	if err := Verify(&one, result.Sum); !errors.Is(err, errDiffers) {
		t.Errorf("one gzip member for both records: %v", err)
	}
}

func TestTrain(t *testing.T) {
	var file strings.Builder
	for seed := range uint64(40) {
		file.WriteString(randomFile(seed))
	}
	in := []byte(record("", "WARC/1.1", "WARC-Date: yesterday") + file.String())
	form, err := FormOf(bytes.NewReader(in), "")
	if err != nil {
		t.Fatal(err)
	}
	o := Options{Compression: warc.Zstd, Version: warc.V1_0, Found: func(int64, string) { t.Error("training tells of the input") }}
	if o.Dictionary, err = Train(context.Background(), form, bytes.NewReader(in), o); err != nil {
		t.Fatal(err)
	}
	o.Found = nil
	b, _ := to(t, in, o)
	if got, want := readAll(t, b), readAll(t, in); len(got) != len(want) || got[len(got)-1].block != want[len(want)-1].block {
		t.Error("with a dictionary the records are others")
	}
	if d, err := warc.ReadDictionary(bytes.NewReader(b)); err != nil || d.ID() != o.Dictionary.ID() {
		t.Errorf("the file has no dictionary: %v", err)
	}
	if _, err := Train(context.Background(), form, strings.NewReader(record("x", "WARC/1.1", "A: b")), o); err == nil {
		t.Error("one record makes a dictionary")
	}
}

func TestForms(t *testing.T) {
	plain := []byte(record("x", "WARC/1.1", "A: b"))
	for _, c := range []warc.Compression{warc.Plain, warc.Gzip, warc.Zstd} {
		b, _ := to(t, plain, Options{Compression: c})
		if form, err := FormOf(bytes.NewReader(b), "x"); err != nil || form != (Form{Compression: c}) {
			t.Errorf("%v: %v, %v", c, form, err)
		}
	}
	for in, arcError := range map[string]bool{"filedesc://x": true, "hello": false} {
		var damage *warc.Error
		if _, err := FormOf(strings.NewReader(in), "a.txt"); errors.As(err, &damage) == arcError {
			t.Errorf("%q: %v", in, err)
		}
	}
	for _, in := range []string{"", "\r\n\r\n"} {
		if _, err := FormOf(strings.NewReader(in), "a.arc"); !errors.Is(err, ErrNoRecords) {
			t.Errorf("%q: %v", in, err)
		}
	}
}
