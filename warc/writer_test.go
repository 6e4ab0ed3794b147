package warc

import (
	"bytes"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
)

func TestWriter(t *testing.T) {
	for _, opts := range []WriterOptions{{}, {Version: V1_0}, {Compression: Plain}, {Version: V1_0, Compression: Plain}, {SkipLengths: true}, {Compression: Zstd}, {Version: V1_0, Compression: Zstd, Dictionary: testDictionary(t)}} {
		var buf bytes.Buffer
		w := NewWriter(&buf, opts)
		h := Header{{"WARC-Type", "response"}, {"WARC-Record-ID", "<a:1>"}}
		bodies := []string{"", "x", strings.Repeat("text ", 50_000), string(noise(100_000))}
		for _, b := range bodies {
			if err := w.WriteRecord(h, strings.NewReader(b), int64(len(b))); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.WriteRecord(Header{{"Content-Length", "0"}}, nil, 0); err != nil {
			t.Fatal(err)
		}
		if len(h) != 2 {
			t.Errorf("the caller's header became %q", h)
		}
		all, err := readAll(bytes.NewReader(buf.Bytes()), true)
		if err != nil || !slices.Equal(blocks(all), append(bodies, "")) {
			t.Fatalf("%+v: %d records, %v", opts, len(all), err)
		}
		want := append(slices.Clone(h), Field{"Content-Length", "1"})
		if got := all[1]; !slices.Equal(got.Header, want) || got.Version != opts.Version.orDefault() {
			t.Errorf("%+v: %+v", opts, got)
		}
		if (opts.Compression == Plain) != bytes.HasPrefix(buf.Bytes(), []byte("WARC/1.")) {
			t.Errorf("%+v: starts with %q", opts, buf.Bytes()[:10])
		}
		if good, err := Whole(&buf); err != nil || good != all[len(all)-1].end {
			t.Errorf("%+v: whole up to %d, %v", opts, good, err)
		}
	}
}

func TestWriterErrors(t *testing.T) {
	for _, opts := range []WriterOptions{{}, {Compression: Plain}, {Compression: Zstd}, {SkipLengths: true}} {
		w := NewWriter(io.Discard, opts)
		if err := w.WriteRecord(Header{{"a b", ""}}, nil, 0); err == nil {
			t.Error("wrote a bad header")
		}
		if err := w.WriteRecord(Header{{"Content-Length", "2"}}, strings.NewReader("x"), 1); err == nil {
			t.Error("wrote a wrong Content-Length")
		}
		if err := w.WriteRecord(nil, strings.NewReader("x"), 1); err != nil {
			t.Error(err)
		}
		err := w.WriteRecord(nil, strings.NewReader("x"), 2)
		if err == nil || w.WriteRecord(nil, nil, 0) != err {
			t.Error("a short block is no error, or not a final one")
		}
		boom := errors.New("boom")
		writes := 3
		if opts.Compression == Zstd {
			writes = 1
		}
		for n := range writes {
			w = NewWriter(&failingWriter{n, boom}, opts)
			if err := w.WriteRecord(nil, strings.NewReader("x"), 1); !errors.Is(err, boom) || !errors.Is(w.WriteRecord(nil, nil, 0), boom) {
				t.Errorf("after %d writes: %v", n, err)
			}
		}
	}
}
