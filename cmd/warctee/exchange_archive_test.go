package main

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/warctee/warctee/warc"
	"github.com/warctee/warctee/warc/warctest"
)

// A wanted is an exchange that the archive has to hold.
type wanted struct {
	uri      string
	request  string // block: what the origin received
	response string // block: what the origin sent

	truncated        string // WARC-Truncated of the response
	requestTruncated string
	atLeast          int     // when not 0: the response is cut somewhere after so many bytes
	revisitOf        *wanted // response is then only its head
	ip               string  // default 127.0.0.1
	plain            bool    // the exchange is http although the scene is https
	tls12            bool    // not TLS 1.3
	instead          bool    // response is no response, and is recorded as such, or the start of it
	untrusted        string  // a part of what is noted about the certificate of the origin
}

func (x *scene) want(w wanted) *wanted {
	x.wants = append(x.wants, w)
	return &x.wants[len(x.wants)-1]
}

// A stored is a record as it was read back.
type stored struct {
	warc.Header
	version warc.Version
	file    string
	block   string
	taken   bool
}

func (r *stored) kind() string { return r.Get("WARC-Type") }
func (r *stored) id() string   { return r.Get("WARC-Record-ID") }

// checkArchive compares the archive with what the test wanted. The proxy must
// have stopped.
func (x *scene) checkArchive() {
	x.Helper()
	warctest.Check(x.T, x.flags.dir)
	records := x.readArchive()
	byID := map[string]*stored{}
	count := 0
	for _, r := range records {
		byID[r.id()] = r
		if r.kind() != "warcinfo" {
			count++
		}
	}
	want := 2 * len(x.wants)
	for _, w := range x.wants {
		if w.untrusted != "" {
			want++
		}
	}
	if count != want {
		var list []string
		for _, r := range records {
			list = append(list, r.kind()+" "+r.Get("WARC-Target-URI"))
		}
		x.Errorf("the archive has %d records besides warcinfo, want %d:\n%s", count, want, strings.Join(list, "\n"))
	}
	for i := range x.wants {
		x.checkExchange(&x.wants[i], records, byID)
	}
}

func (x *scene) checkExchange(w *wanted, records []*stored, byID map[string]*stored) {
	x.Helper()
	response := w.find(records)
	if response == nil {
		x.Errorf("no response or revisit record of %s is left for this request and response:\n%.300q\n%.300q", w.uri, w.request, w.response)
		for _, r := range records {
			if r.Get("WARC-Target-URI") == w.uri && !r.taken {
				x.Logf("%s record, truncated %q, of that URI: %.600q", r.kind(), r.Get("WARC-Truncated"), r.block)
			}
		}
		return
	}
	response.taken = true
	request := byID[response.Get("WARC-Concurrent-To")]
	if request == nil || request.kind() != "request" || request.Get("WARC-Concurrent-To") != response.id() {
		x.Errorf("%s: request and response do not name each other", w.uri)
		return
	}
	request.taken = true
	x.same("the request block of "+w.uri, request.block, w.request)
	contentType, http := "application/octet-stream", ""
	if !w.instead {
		contentType, http = "application/http; msgtype=response", "http/1."+w.response[len("HTTP/1."):][:1]
	}
	for _, check := range []struct{ what, got, want string }{
		{"WARC-Truncated of the request", request.Get("WARC-Truncated"), w.requestTruncated},
		{"WARC-Target-URI of the request", request.Get("WARC-Target-URI"), w.uri},
		{"WARC-Date of the request", request.Get("WARC-Date"), response.Get("WARC-Date")},
		{"Content-Type of the request", request.Get("Content-Type"), "application/http; msgtype=request"},
		{"Content-Type of the response", response.Get("Content-Type"), contentType},
	} {
		if check.got != check.want {
			x.Errorf("%s: %s is %q, want %q", w.uri, check.what, check.got, check.want)
		}
	}
	x.checkConnection(w, request, "http/1.1")
	x.checkConnection(w, response, http)
	if w.revisitOf != nil {
		x.checkRevisit(w, response, records)
	}
	if w.untrusted != "" {
		x.checkNote(w, request, response, byID)
	}
}

// checkNote checks what is said of a certificate that was not trusted.
func (x *scene) checkNote(w *wanted, request, response *stored, byID map[string]*stored) {
	x.Helper()
	names := request.Values("WARC-Concurrent-To")
	note := byID[names[len(names)-1]]
	if len(names) != 2 || note.kind() != "metadata" || note.Get("WARC-Concurrent-To") != response.id() || note.Get("WARC-Target-URI") != w.uri {
		x.Errorf("%s: the request names %q, of which the last should be a metadata record about the response", w.uri, names)
		return
	}
	note.taken = true
	if !strings.HasPrefix(note.block, "tls-verify: failed: ") || !strings.Contains(note.block, w.untrusted) {
		x.Errorf("%s: the note is %q, without %q", w.uri, note.block, w.untrusted)
	}
}

// find returns the record that has not been taken yet and fits.
func (w *wanted) find(records []*stored) *stored {
	kind, truncated, block, uri := "response", w.truncated, w.response, w.uri
	if w.instead {
		kind, uri = "resource", "urn:bad-reply:"+w.uri
	}
	if w.revisitOf != nil {
		kind, truncated = "revisit", "length"
		head, _, _ := strings.Cut(block, "\r\n\r\n")
		block = head + "\r\n\r\n"
	}
	for _, r := range records {
		fits := r.block == block
		if w.atLeast > 0 {
			fits = strings.HasPrefix(block, r.block) && len(r.block) >= w.atLeast
		}
		if fits && !r.taken && r.kind() == kind && r.Get("WARC-Target-URI") == uri && r.Get("WARC-Truncated") == truncated {
			return r
		}
	}
	return nil
}

// checkConnection checks what is said of the connection to the origin.
func (x *scene) checkConnection(w *wanted, r *stored, http string) {
	x.Helper()
	ip, protocols := "127.0.0.1", []string{http}
	if http == "" {
		protocols = nil
	}
	if w.ip != "" {
		ip = w.ip
	}
	if x.https && !w.plain {
		version := "tls/1.3"
		if w.tls12 {
			version = "tls/1.2"
		}
		protocols = append(protocols, version)
	}
	if got := r.Get("WARC-IP-Address"); got != ip {
		x.Errorf("%s: WARC-IP-Address of the %s is %q, want %q", w.uri, r.kind(), got, ip)
	}
	if got := r.Values("WARC-Protocol"); !slices.Equal(got, protocols) {
		x.Errorf("%s: WARC-Protocol of the %s is %q, want %q", w.uri, r.kind(), got, protocols)
	}
	if got := r.Get("WARC-Cipher-Suite"); strings.HasPrefix(got, "TLS_") != (x.https && !w.plain) {
		x.Errorf("%s: WARC-Cipher-Suite of the %s is %q", w.uri, r.kind(), got)
	}
}

func (x *scene) checkRevisit(w *wanted, revisit *stored, records []*stored) {
	x.Helper()
	i := slices.IndexFunc(records, func(r *stored) bool { return r.id() == revisit.Get("WARC-Refers-To") })
	if i < 0 {
		x.Errorf("%s: the revisit refers to no record of the archive", w.uri)
		return
	}
	original := records[i]
	if original.kind() != "response" || original.block != w.revisitOf.response {
		x.Errorf("%s: the revisit refers to a %s with the block %.300q", w.uri, original.kind(), original.block)
	}
	for _, name := range []string{"WARC-Target-URI", "WARC-Date"} {
		refers := "WARC-Refers-To-" + strings.TrimPrefix(name, "WARC-")
		if got, want := revisit.Get(refers), original.Get(name); got != want || got == "" {
			x.Errorf("%s: %s of the revisit is %q, want %q", w.uri, refers, got, want)
		}
	}
	if got, want := revisit.Get("WARC-Payload-Digest"), original.Get("WARC-Payload-Digest"); got != want || got == "" {
		x.Errorf("%s: the payload digest of the revisit is %q, that of the original %q", w.uri, got, want)
	}
}

// readArchive reads all files and checks what is about files.
func (x *scene) readArchive() (records []*stored) {
	x.Helper()
	entries, err := os.ReadDir(x.flags.dir)
	if err != nil {
		x.Fatal(err)
	}
	for _, e := range entries {
		switch name := e.Name(); {
		case strings.HasSuffix(name, ".warc.gz"), strings.HasSuffix(name, ".warc.zst"), strings.HasSuffix(name, ".warc"):
			records = append(records, x.readFile(name)...)
		case name != ".lock" && name != "dedup.bolt" && name != "failures.jsonl":
			x.Errorf("in the archive's directory is %s", name)
		}
	}
	return records
}

func (x *scene) readFile(name string) (records []*stored) {
	x.Helper()
	f, err := os.Open(filepath.Join(x.flags.dir, name))
	if err != nil {
		x.Fatal(err)
	}
	defer f.Close()
	z := warc.NewReader(f)
	z.Strict = true
	for {
		r, err := z.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			x.Fatalf("%s: %v", name, err)
		}
		block, err := io.ReadAll(z)
		if err != nil {
			x.Fatalf("%s: %v", name, err)
		}
		records = append(records, &stored{Header: slices.Clone(r.Header), version: r.Version, file: name, block: string(block)})
	}
	if len(records) == 0 || records[0].kind() != "warcinfo" {
		x.Errorf("%s does not start with a warcinfo record", name)
	}
	return records
}
