package main

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/warctee/warctee/certs"
	"github.com/warctee/warctee/warc"
)

// hostileText are what a terminal may obey: C0, DEL, C1 in UTF-8 and as an octet that
// is none, marks of the direction of writing, an invisible character of a later plane.
const hostileText = "\x1b]0;x\x07\x08\x7f\u009b31m\x9b\u200e\u200f\u061c\u202a\u202e\u2066\u2069\u200b\xff\U000e0041"

// forgedLine would be a line of its own if a line feed in a name reached the output.
const forgedLine = "\nwarctee: all is well"

// unharmed reports the first thing in an output that a terminal could obey, and
// lines that a name has made.
func unharmed(t *testing.T, what, output string) {
	t.Helper()
	for i, c := range output {
		if c == utf8.RuneError && !strings.HasPrefix(output[i:], "\ufffd") || c != '\n' && !unicode.IsPrint(c) {
			t.Errorf("%s: writes %q in %q", what, output[i:i+1], output[max(0, i-100):min(len(output), i+60)])
			return
		}
	}
	if strings.Contains("\n"+output, forgedLine) {
		t.Errorf("%s: a name makes a line: %q", what, output)
	}
}

// hostileArchive writes files full of what terminals obey, under such names.
func hostileArchive(t *testing.T) (dir string, paths map[string]string) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "d"+hostileText+forgedLine)
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Skip("the file system does not have such names:", err)
	}
	const field = "\x1b[2J\x07\x7f\u009b\u202e\u061c\U000e0041" // a field is UTF-8 for the writer
	header := func(typ, n string, more ...string) warc.Header {
		h := warc.Header{{Name: "WARC-Type", Value: typ}, {Name: "WARC-Record-ID", Value: "<urn:uuid:" + n + field + ">"}, {Name: "WARC-Date", Value: "2026-01-02T03:04:05Z"}}
		for i := 0; i < len(more); i += 2 {
			h.Add(more[i], more[i+1])
		}
		return h
	}
	const http = "application/http; msgtype=response"
	head := "HTTP/1.1 200 " + hostileText + "\r\nContent-Type: text/html; x=" + hostileText + "\r\nX-" + hostileText + ": y\r\n:p" + field + ": x\r\n"
	page := "<title>" + hostileText + "</title>find me " + hostileText
	records := []struct {
		h     warc.Header
		block string
	}{
		{header("warcinfo", "0", "WARC-Filename", field, "Content-Type", "application/warc-fields"), "software: " + field + "\r\n"},
		{header("request", "1", "WARC-Target-URI", "http://origin.example/"+field, "Content-Type", "application/http; msgtype="+field), "GET /" + field + " HTTP/1.1\r\nHost: x\r\n\r\n"},
		{header("response", "2", "WARC-Target-URI", "http://origin.example/"+field, "Content-Type", http, "WARC-Concurrent-To", "<urn:uuid:1"+field+">", "WARC-IP-Address", field, "WARC-Payload-Digest", "sha1:"+field, "WARC-Truncated", field), head + "\r\n" + page},
		{header("response", "3", "WARC-Target-URI", "http://origin.example/length", "Content-Type", http), head + "Content-Length: 3\r\nContent-Encoding: gzip" + field + "\r\n\r\n" + page},
		{header("response", "4", "WARC-Target-URI", "http://origin.example/coded", "Content-Type", http), "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 99\r\n\r\n" + hostileText},
		{header("response", "5", "WARC-Target-URI", "http://origin.example/bad", "Content-Type", http), hostileText + "\r\n\r\n"},
		{header("revisit", "6", "WARC-Target-URI", "http://origin.example/"+field, "Content-Type", http, "WARC-Profile", field, "WARC-Refers-To", "<urn:uuid:"+field+">", "WARC-Refers-To-Date", field, "WARC-Refers-To-Target-URI", field), "HTTP/1.1 200 " + hostileText + "\r\n\r\n"},
		{header("type"+field, "7", "WARC-Target-URI", field, "Content-Type", field, "WARC-Segment-Number", field, "WARC-Block-Digest", field+":x"), page},
		{header("resource", "8", "WARC-Target-URI", "dns:"+field, "Content-Type", "text/"+field, "WARC-Date", field), page},
	}
	plain, good := "", ""
	for _, r := range records { // package warc writes no such headers
		var b strings.Builder
		b.WriteString("WARC/1.1\r\n")
		for _, f := range r.h {
			fmt.Fprintf(&b, "%s: %s\r\n", f.Name, f.Value)
		}
		fmt.Fprintf(&b, "Content-Length: %d\r\n\r\n%s\r\n\r\n", len(r.block), r.block)
		var member bytes.Buffer
		z := gzip.NewWriter(&member)
		io.WriteString(z, b.String())
		z.Close()
		plain += b.String()
		good += member.String()
	}
	paths = make(map[string]string)
	put := func(key, name, text string) {
		paths[key] = filepath.Join(dir, name)
		if err := os.WriteFile(paths[key], []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	put("good", "a"+hostileText+forgedLine+".warc.gz", good)
	put("plain", "b"+hostileText+forgedLine+".warc", plain)
	put("damaged", "c"+hostileText+forgedLine+".warc.gz", good[:len(good)/2]+hostileText+good[len(good)/2:])
	put("bad header", "d"+hostileText+forgedLine+".warc", strings.Replace(plain, "WARC-Type", hostileText+"\r\nWARC-Type", 2))
	put("junk", "e"+hostileText+forgedLine+".warc", hostileText)
	arc := "filedesc://" + field + " 0.0.0.0 20260102030405 text/plain 76\n1 0 " + field + "\nURL IP-address Archive-date Content-type Archive-length\n\n"
	put("arc", "f"+hostileText+forgedLine+".arc", arc+"http://origin.example/"+field+" "+field+" "+field+" text/"+field+" 30\n"+head+"\n")
	return dir, paths
}

// commandsOn are commands that read a file; name begins the names of what they write.
func commandsOn(path, name string) (lines [][]string) {
	add := func(args ...string) { lines = append(lines, args) }
	add("check", path)
	add("check", "--json", path)
	add("check", "--profile", "warctee", "--complete", "--max-findings", "1", path)
	add("ls", "--long", path)
	add("ls", "--json", path)
	add("grep", ".", path)
	add("grep", "--headers", ".", path)
	add("grep", "--payload", ".", path)
	add("grep", "--payload", "--json", ".", path)
	add("index", path)
	add("index", "--format", "cdx11", path)
	add("index", "--all", path)
	add("show", path+"@0")
	add("show", "--url", "http://origin.example/length", path)
	add("repair", "--json", path)
	add("repair", "--no-lost", "--out", name+"-"+filepath.Base(path)+".repaired", path)
	add("convert", "--compress", "gzip", "--out", name+"-"+filepath.Base(path)+".warc.gz", path)
	add("convert", "--compress", "none", "--out", name+"-"+filepath.Base(path)+"-10.warc.gz", path)
	add("pack", "--out", name+"-"+filepath.Base(path)+".wacz", path)
	return lines
}

// TestNothingReachesTheTerminal runs every command on files that are full of
// control characters, and so are their names: none is printed, as text nor as JSON.
func TestNothingReachesTheTerminal(t *testing.T) {
	dir, paths := hostileArchive(t)
	out := t.TempDir()
	authority := filepath.Join(out, "ca"+hostileText+forgedLine)
	if _, err := certs.Open(authority); err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(out, "o"+hostileText+forgedLine)
	// A list takes only names in UTF-8.
	list := filepath.Join(out, "m"+hostileText+forgedLine+".sha256")
	listed := filepath.Join(out, strings.ToValidUTF8("l"+hostileText+forgedLine, ""))
	inList := []string{filepath.Join(listed, strings.ToValidUTF8("a"+hostileText+forgedLine, "")), filepath.Join(listed, strings.ToValidUTF8("b"+hostileText+forgedLine, ""))}
	if err := os.Mkdir(listed, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, path := range inList {
		if err := os.WriteFile(path, []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	good, plain, damaged := paths["good"], paths["plain"], paths["damaged"]
	var lines [][]string
	add := func(args ...string) { lines = append(lines, args) }
	for _, path := range paths {
		lines = append(lines, commandsOn(path, name)...)
	}
	for _, id := range []string{"0", "1", "2", "3", "4", "5", "6", "7", "8"} {
		add("show", "--id", "<urn:uuid:"+id+"\x1b[2J\x07\x7f\u009b\u202e\u061c\U000e0041>", good)
	}
	add("check", good, plain, damaged)
	add("check", dir)
	add("ls", dir)
	add("index", "--out", name+".cdxj", dir)
	add("pack", "--out", name+".wacz", good)
	add("pack", "--verify", name+".wacz")
	add("pack", "--verify", "--json", name+".wacz")
	add("pack", "--verify", damaged)
	add("pack", "--new-key", name+".key")
	add("repair", "--out", name+"-repaired", damaged)
	add("repair", damaged)
	add("manifest", "--out", list, listed)
	add("manifest", "--verify", list)
	add("manifest", "--verify", paths["junk"])
	add("manifest", "--out", list+"2", dir)
	add("manifest", "--bag", name+"-bag", listed)
	add("manifest", "--verify", name+"-bag")
	for _, sub := range []string{"", "trust", "info", "fingerprint", "renew", "none"} {
		add("ca", sub, "--ca-dir", name+"-ca")
		add("ca", sub, "--ca-dir", authority)
	}
	for _, cmd := range []string{"check", "ls", "show", "cat", "grep", "index", "repair", "convert", "pack", "manifest", "record", "run", "ca", "help", "completion", hostileText + forgedLine} {
		add(cmd, "none"+hostileText+forgedLine)
		add(cmd, "x", "none"+hostileText+forgedLine)
		add(cmd, "--"+hostileText+forgedLine)
		add(cmd, "--out="+hostileText+forgedLine, "none"+hostileText+forgedLine)
		add(cmd, "--json="+hostileText+forgedLine, "none")
		add(cmd, "--listen="+hostileText+forgedLine, "--", "x")
		add(cmd, "--dir="+hostileText+forgedLine, "--at="+hostileText+forgedLine, "x")
		add(cmd, "--url", hostileText+forgedLine, "--at", hostileText+forgedLine, good)
		add(cmd, "--verify", "none"+hostileText+forgedLine)
	}
	var texts []string
	for _, args := range lines {
		_, stdout, stderr := inProcess(t, args...)
		what := strings.Join(args, " ")
		unharmed(t, what+", standard output", stdout)
		unharmed(t, what+", standard error", stderr)
		texts = append(texts, stdout, stderr)
	}
	// The names are there, in a form that nothing obeys.
	if all := strings.Join(texts, ""); !strings.Contains(all, `\x1b]0;x\x07`) || !strings.Contains(all, `\u202e`) {
		t.Error("the names are not shown at all")
	}
	// A fault in each of the files of a list, and of a bag, is told.
	os.Remove(inList[0])
	os.WriteFile(inList[1], []byte("another"), 0o600)
	os.RemoveAll(filepath.Join(name+"-bag", "data"))
	for _, args := range [][]string{{"manifest", "--verify", list}, {"manifest", "--verify", "--json", list}, {"manifest", "--verify", name + "-bag"}, {"manifest", "--verify", "--json", name + "-bag"}} {
		code, stdout, stderr := inProcess(t, args...)
		if unharmed(t, strings.Join(args, " "), stdout+stderr); code != exitFound || stdout == "" {
			t.Errorf("%v: %d %s %s", args, code, stdout, stderr)
		}
	}
}

// TestSafeWriter: characters may come in pieces, and what is no character is shown.
func TestSafeWriter(t *testing.T) {
	text := "plain\ttext é 漢 \U0001f600\n" + hostileText + "\xe6\xbc"
	want := "plain\ttext é 漢 \U0001f600\n" + `\x1b]0;x\x07\x08\x7f\u009b31m\x9b\u200e\u200f\u061c\u202a\u202e\u2066\u2069\u200b\xff\U000e0041` + `\xe6\xbc`
	for size := 1; size <= len(text); size++ {
		var b bytes.Buffer
		w := &safeWriter{w: &b}
		for rest := text; rest != ""; rest = rest[min(size, len(rest)):] {
			if n, err := w.Write([]byte(rest[:min(size, len(rest))])); n != min(size, len(rest)) || err != nil {
				t.Fatal(n, err)
			}
		}
		w.flush()
		if b.String() != want {
			t.Errorf("in pieces of %d: %q, want %q", size, b.String(), want)
		}
	}
	failing := &safeWriter{w: outputWriter{failingWriter{}}}
	if _, err := failing.Write([]byte("x")); err == nil {
		t.Error("no error")
	}
}

type failingWriter struct{}

func (failingWriter) Write([]byte) (int, error) { return 0, io.ErrShortWrite }

// TestHarmlessJSON: what is escaped means the same.
func TestHarmlessJSON(t *testing.T) {
	var b strings.Builder
	in := map[string]string{"a" + hostileText: strings.ToValidUTF8(hostileText+forgedLine, "") + "é 漢 \U0001f600\u2028"}
	if err := writeLine(&b, in); err != nil {
		t.Fatal(err)
	}
	unharmed(t, "JSON", b.String())
	var got map[string]string
	if err := json.Unmarshal([]byte(b.String()), &got); err != nil || len(got) != 1 || got["a"+strings.ToValidUTF8(hostileText, "\ufffd")] != in["a"+hostileText] {
		t.Errorf("%v: %q", err, got)
	}
}

// TestErrorLines: joined errors have a line each, and names make none.
func TestErrorLines(t *testing.T) {
	a, b := errors.New("a\nb"), errors.New("c\x1b")
	for _, c := range []struct {
		err  error
		want string
	}{
		{a, `a\nb`},
		{errors.Join(a, b), `a\nb|c\x1b`},
		{errors.Join(a), `a\nb`},
		{fmt.Errorf("x\n: %w; y", errors.Join(a, errors.Join(b, a))), `x\n: a\nb|c\x1b|a\nb; y`},
		{fmt.Errorf("%w and %w", a, b), `a\nb and c\x1b`},
		{commandError{exitFound, errors.Join(a, b)}, `a\nb|c\x1b`},
	} {
		if got := strings.Join(errorLines(c.err), "|"); got != c.want {
			t.Errorf("%q: %s, want %s", c.err, got, c.want)
		}
	}
}

// TestHarmlessLog: what origins send is in log lines too.
func TestHarmlessLog(t *testing.T) {
	var b bytes.Buffer
	log := (&recordFlags{logLevel: choice("info", "debug")}).logger(&b)
	log.Warn("m"+hostileText+forgedLine, "k"+hostileText, "v"+hostileText+forgedLine, "error", errors.New(hostileText+forgedLine))
	unharmed(t, "log", b.String())
}
