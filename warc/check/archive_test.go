package check_test

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/warctee/warctee/warc"
)

// An entry is a record to be written. Digests of value "*" are computed.
type entry struct {
	h       warc.Header
	block   string
	payload string
	raw     func([]byte) []byte // changes the finished member
}

// An archive is some files full of entries. The last, c, is a record in segments.
type archive struct {
	opts       warc.WriterOptions
	a, b, c, d []*entry
	names      [4]string
	algo       warc.Algorithm
}

func id(n string) string {
	return "<urn:uuid:00000000-0000-4000-8000-0000000000" + n + ">"
}

func (ar *archive) add(file *[]*entry, typ, n, uri, block, payload string, more ...string) *entry {
	e := &entry{block: block, payload: payload}
	e.h.Add("WARC-Type", typ)
	e.h.Add("WARC-Record-ID", id(n))
	e.h.Add("WARC-Date", warc.FormatDate(date, ar.opts.Version))
	if uri != "" {
		e.h.Add("WARC-Target-URI", uri)
		e.h.Add("WARC-Warcinfo-ID", (*file)[0].h.Get("WARC-Record-ID"))
	}
	e.h.Add("WARC-Block-Digest", "*")
	for i := 0; i < len(more); i += 2 {
		e.h.Add(more[i], more[i+1])
	}
	*file = append(*file, e)
	return e
}

const (
	httpRequest  = "application/http; msgtype=request"
	httpResponse = "application/http; msgtype=response"
)

// exchange adds a request and a response or revisit.
func (ar *archive) exchange(file *[]*entry, n, uri, request, requestBody, typ, response, payload string, more ...string) {
	q := []string{"WARC-Concurrent-To", id(n + "2"), "WARC-IP-Address", "2001:db8::1", "Content-Type", httpRequest, "WARC-Protocol", "http/1.1", "WARC-Protocol", "tls/1.3"}
	if requestBody != "" {
		q = append(q, "WARC-Payload-Digest", "*")
	}
	ar.add(file, "request", n+"1", uri, request, requestBody, q...)
	s := []string{"WARC-Concurrent-To", id(n + "1"), "WARC-IP-Address", "192.0.2.1", "Content-Type", httpResponse, "WARC-Payload-Digest", "*"}
	ar.add(file, typ, n+"2", uri, response, payload, append(s, more...)...)
}

// good is an archive with everything that we write, and more.
func good(opts warc.WriterOptions, algo warc.Algorithm) *archive {
	ar := &archive{opts: opts, algo: algo, names: [4]string{"a.warc.gz", "b.warc.gz", "c.warc.gz", "d.warc.gz"}}
	if opts.Compression == warc.Plain {
		ar.names = [4]string{"a.warc", "b.warc", "c.warc", "d.warc"}
	}
	info := func(file *[]*entry, n, name string) {
		ar.add(file, "warcinfo", n, "", "software: test\r\nformat: WARC\r\n", "", "WARC-Filename", name, "Content-Type", "application/warc-fields")
	}
	const get, uri = "GET / HTTP/1.1\r\nHost: example.org\r\n\r\n", "https://example.org/"
	info(&ar.a, "00", ar.names[0])
	ar.exchange(&ar.a, "1", uri, get, "", "response", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4;x=y\r\nwiki\r\n5\r\npedia\r\n0\r\nT: x\r\n\r\n", "wikipedia")
	ar.exchange(&ar.a, "2", uri+"?%C3%A4", "POST /?\xc3\xa4 HTTP/1.1\r\nHost: example.org\r\nContent-Length: 3\r\n\r\na=b", "a=b", "response", "HTTP/1.1 204 No\r\n\r\n", "")
	ar.exchange(&ar.a, "3", uri, "HEAD / HTTP/1.1\r\nHost: example.org\r\n\r\n", "", "response", "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n", "")
	ar.exchange(&ar.a, "4", uri, get, "", "response", "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nwiki", "wiki", "WARC-Truncated", "disconnect")
	ar.exchange(&ar.a, "5", uri, get, "", "revisit", "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n", "wikipedia", "WARC-Truncated", "length",
		"WARC-Profile", opts.Version.IdenticalPayloadProfile(), "WARC-Refers-To", id("12"), "WARC-Refers-To-Target-URI", uri, "WARC-Refers-To-Date", warc.FormatDate(date, opts.Version))
	ar.add(&ar.a, "metadata", "61", uri, "via: http://example.org/\r\n", "", "WARC-Concurrent-To", id("12"), "Content-Type", "application/warc-fields")
	ar.add(&ar.a, "resource", "62", "dns:example.org", "20260101000000\n", "20260101000000\n", "WARC-Payload-Digest", "*", "Content-Type", "text/dns")
	ar.add(&ar.a, "conversion", "63", uri, "text", "text", "WARC-Payload-Digest", "*", "WARC-Refers-To", id("12"), "Content-Type", "text/plain")
	ar.add(&ar.a, "resource", "64", uri, "?", "?", "Content-Type", "text/plain")

	info(&ar.b, "01", ar.names[1])
	const uri6 = "http://[2001:db8::1]:8080/x?[0]"
	ar.exchange(&ar.b, "7", strings.NewReplacer("?[", "?%5B", "0]", "0%5D").Replace(uri6), get, "", "revisit", "HTTP/1.1 200 OK\r\n\r\n", "wikipedia", "WARC-Truncated", "length",
		"WARC-Profile", opts.Version.IdenticalPayloadProfile(), "WARC-Refers-To", id("12"), "WARC-Refers-To-Target-URI", uri, "WARC-Refers-To-Date", warc.FormatDate(date, opts.Version))
	ar.exchange(&ar.b, "8", uri, get, "", "revisit", "HTTP/1.1 304 Not Modified\r\n\r\n", "", "WARC-Profile", opts.Version.NotModifiedProfile())
	ar.exchange(&ar.b, "9", uri, get, "", "response", "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n\r\n", "")
	ar.exchange(&ar.b, "a", uri, get, "", "response", "HTTP/1.0 200 OK\nX: \xe4\n\n"+strings.Repeat("until close ", 6_000), strings.Repeat("until close ", 6_000))
	info(&ar.c, "02", ar.names[2])
	ar.add(&ar.c, "response", "b1", uri, "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nwi", "wikipedia", "Content-Type", httpResponse, "WARC-Segment-Number", "1", "WARC-Payload-Digest", "*")
	info(&ar.d, "03", ar.names[3])
	ar.add(&ar.d, "continuation", "b2", uri, "kiped", "", "WARC-Segment-Number", "2", "WARC-Segment-Origin-ID", id("b1"))
	ar.add(&ar.d, "continuation", "b3", uri, "ia", "", "WARC-Segment-Number", "3", "WARC-Segment-Origin-ID", id("b1"), "WARC-Segment-Total-Length", "47")
	return ar
}

// write writes the files and returns their paths.
func (ar *archive) write(t *testing.T) []string {
	t.Helper()
	dir := t.TempDir()
	var paths []string
	for i, entries := range [][]*entry{ar.a, ar.b, ar.c, ar.d} {
		var file bytes.Buffer
		for _, e := range entries {
			file.Write(ar.encode(t, e))
		}
		path := filepath.Join(dir, ar.names[i])
		if err := os.WriteFile(path, file.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
		paths = append(paths, path)
	}
	return paths
}

func (ar *archive) encode(t *testing.T, e *entry) []byte {
	t.Helper()
	h := append(warc.Header(nil), e.h...)
	for i, f := range h {
		if f.Value == "*" {
			sum := ar.algo.New()
			sum.Write([]byte(map[string]string{"WARC-Block-Digest": e.block, "WARC-Payload-Digest": e.payload}[f.Name]))
			h[i].Value = ar.algo.Format(sum.Sum(nil))
		}
	}
	var out bytes.Buffer
	if err := warc.NewWriter(&out, ar.opts).WriteRecord(h, strings.NewReader(e.block), int64(len(e.block))); err != nil {
		t.Fatal(err)
	}
	if e.raw != nil {
		return e.raw(out.Bytes())
	}
	return out.Bytes()
}

// get returns the entry of that id.
func (ar *archive) get(n string) *entry {
	for _, e := range slices.Concat(ar.a, ar.b, ar.c, ar.d) {
		if e.h.Get("WARC-Record-ID") == id(n) {
			return e
		}
	}
	panic("no entry " + strconv.Quote(n))
}
