//go:build linux

package main

import (
	"archive/zip"
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

// maxMemory is what a command may take, at most, whatever its input is: the peak of
// its resident memory, in bytes.
const maxMemory = 200 << 20

// A hostileFile is made to cost memory. In its commands FILE stands for its path, BAG
// for its directory, DIR for another one, and PLAIN for a WARC file in it that is in order.
type hostileFile struct {
	what, name string
	write      func(w io.Writer) error
	commands   []string
	finds      string // what the commands say together, at least; "": nothing is required
}

// looks are the commands that read any WARC file.
var looks = []string{
	"ls FILE", "ls --json FILE", "check FILE", "index FILE", "index --all --format cdx11 FILE", "show FILE@0", "cat --headers FILE@0", "cat --decoded FILE@0",
	"grep --headers zzz FILE", "grep --payload zzz FILE", "repair --out DIR FILE", "convert --compress zstd --out DIR FILE", "pack FILE --out DIR/x.wacz",
}

// trained trains a dictionary with the records. Few of the files have enough of them.
const trained = "convert --compress zstd --zstd-dictionary auto --out DIR/trained FILE"

// Whatever is in a file, no command takes more memory than maxMemory for it, and all of
// them end.
func TestHostileFiles(t *testing.T) {
	if testing.Short() {
		t.Skip("it reads gigabytes")
	}
	program := buildProgram(t)
	for _, h := range hostileFiles {
		t.Run(strings.ReplaceAll(h.what, " ", "-"), func(t *testing.T) {
			t.Parallel() // of each process its own memory counts
			path := filepath.Join(t.TempDir(), h.name)
			if err := writeHostile(path, h.write); err != nil {
				t.Fatal(err)
			}
			declaration := filepath.Join(filepath.Dir(path), "bagit.txt")
			if err := os.WriteFile(declaration, []byte("BagIt-Version: 1.0\nTag-File-Character-Encoding: UTF-8\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			size := fileSize(path)
			said := ""
			for _, line := range h.commands {
				said += runHostile(t, program, path, line, size)
			}
			if !strings.Contains(said, h.finds) {
				t.Errorf("the commands do not say %q, but:\n%.3000s", h.finds, said)
			}
		})
	}
}

// buildProgram builds the program as a user would have it, without the race detector,
// which takes memory of its own.
func buildProgram(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "warctee")
	out, err := exec.Command("go", "build", "-race=false", "-o", path, ".").CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return path
}

// asMeasure makes the test binary run the command in its arguments and write to that
// file how much memory it took. The memory of a process counts that of the one which
// started it, until it runs its own program, and so that has to be small.
const asMeasure = "TEST_BINARY_MEASURES"

func init() {
	if name := os.Getenv(asMeasure); name != "" {
		cmd := exec.Command(os.Args[1], os.Args[2:]...)
		cmd.Env = slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, asMeasure) })
		cmd.Stderr = os.Stderr
		cmd.Run() // its error is in the state
		if cmd.ProcessState == nil {
			os.Exit(99)
		}
		peak := cmd.ProcessState.SysUsage().(*syscall.Rusage).Maxrss << 10
		if err := os.WriteFile(name, fmt.Append(nil, peak), 0o600); err != nil {
			os.Exit(99)
		}
		os.Exit(cmd.ProcessState.ExitCode())
	}
}

// runHostile runs a command, and returns the start of what it says on standard error.
func runHostile(t *testing.T, program, path, line string, size int64) string {
	t.Helper()
	dir := t.TempDir()
	plain := filepath.Join(dir, "plain.warc")
	if err := os.WriteFile(plain, []byte(message("response", "1", isResponse, "HTTP/1.1 200 OK\r\n\r\n")), 0o600); err != nil {
		t.Fatal(err)
	}
	line = strings.NewReplacer("FILE", path, "DIR", dir, "PLAIN", plain, "BAG", filepath.Dir(path)).Replace(line)
	// The bound is against commands that do not end.
	ctx, stop := context.WithTimeout(t.Context(), 10*time.Minute)
	defer stop()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	measured := filepath.Join(dir, "measured")
	cmd := exec.CommandContext(ctx, self, append([]string{program}, strings.Fields(line)...)...)
	cmd.Env = []string{"HOME=" + dir, "TMPDIR=" + dir, asMeasure + "=" + measured, quickExit}
	var stderr bytes.Buffer
	cmd.Stderr = &limitedWriter{w: &stderr, left: 64 << 10}
	started := time.Now()
	err = cmd.Run()
	line = strings.NewReplacer(path, filepath.Base(path), dir+"/", "", dir, ".").Replace(line)
	if ctx.Err() != nil {
		t.Errorf("%s: it does not end", line)
	}
	if cmd.ProcessState == nil {
		t.Fatal(err)
	}
	number, _ := os.ReadFile(measured)
	peak, err := strconv.ParseInt(string(number), 10, 64)
	if err != nil {
		t.Fatalf("%s: %v: %s", line, err, stderr.String())
	}
	t.Logf("%4d MB %6.2f s  status %d  %s (%d octets)", peak>>20, time.Since(started).Seconds(), cmd.ProcessState.ExitCode(), line, size)
	if peak > maxMemory {
		t.Errorf("%s: it takes %d MB of memory, more than %d", line, peak>>20, maxMemory>>20)
	}
	if code := cmd.ProcessState.ExitCode(); code != exitOK && code != exitError && code != exitFound {
		t.Errorf("%s: exit status %d: %.2000s", line, code, stderr.String())
	}
	return stderr.String()
}

// A limitedWriter keeps the start of what is written.
type limitedWriter struct {
	w    io.Writer
	left int
}

func (l *limitedWriter) Write(p []byte) (int, error) {
	n := min(len(p), l.left)
	l.left -= n
	l.w.Write(p[:n])
	return len(p), nil
}

// writeHostile writes a file, compressed as its name says.
func writeHostile(path string, write func(w io.Writer) error) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer f.Close()
	out := bufio.NewWriterSize(f, 1<<20)
	if err := write(out); err != nil {
		return err
	}
	return out.Flush()
}

// packed compresses what write writes as one gzip member.
func packed(write func(w io.Writer) error) func(w io.Writer) error {
	return func(w io.Writer) error {
		z, err := gzip.NewWriterLevel(w, gzip.BestCompression)
		if err != nil {
			return err
		}
		out := bufio.NewWriterSize(z, 1<<20)
		if err := write(out); err != nil {
			return err
		}
		if err := out.Flush(); err != nil {
			return err
		}
		return z.Close()
	}
}

// times writes what a function makes of 0, 1, 2 … n-1.
func times(n int, write func(w io.Writer, i int) error) func(w io.Writer) error {
	return func(w io.Writer) error {
		for i := range n {
			if err := write(w, i); err != nil {
				return err
			}
		}
		return nil
	}
}

// repeated writes a text n times.
func repeated(text string, n int) func(w io.Writer) error {
	return times(n, func(w io.Writer, _ int) error {
		_, err := io.WriteString(w, text)
		return err
	})
}

// inOrder writes texts, and what functions write.
func inOrder(parts ...any) func(w io.Writer) error {
	return func(w io.Writer) error {
		for _, part := range parts {
			var err error
			switch part := part.(type) {
			case string:
				_, err = io.WriteString(w, part)
			case func(w io.Writer) error:
				err = part(w)
			}
			if err != nil {
				return err
			}
		}
		return nil
	}
}

// recordHead is the header of a record. The fields end in CRLF.
func recordHead(kind, id, fields string, length int) string {
	return fmt.Sprintf("WARC/1.1\r\nWARC-Type: %s\r\nWARC-Record-ID: <urn:x:%s>\r\nWARC-Date: 2026-01-01T00:00:00Z\r\nWARC-Target-URI: http://example.org/%s\r\n%sContent-Length: %d\r\n\r\n", kind, id, id, fields, length)
}

const (
	isResponse = "Content-Type: application/http; msgtype=response\r\n"
	isRequest  = "Content-Type: application/http; msgtype=request\r\n"
)

// oneRecord is a response of which the message is so long.
func oneRecord(length int, message func(w io.Writer) error) func(w io.Writer) error {
	return inOrder(recordHead("response", "1", isResponse, length), message, "\r\n\r\n")
}

// message is a record with an HTTP message.
func message(kind, id, fields, text string) string {
	return recordHead(kind, id, fields, len(text)) + text + "\r\n\r\n"
}

// each compresses records as gzip members of their own.
func each(n int, record func(i int) string) func(w io.Writer) error {
	return times(n, func(w io.Writer, i int) error {
		return packed(inOrder(record(i)))(w)
	})
}

const lines33M = 33_000_000

var hostileFiles = []hostileFile{
	{"a head of 33 million lines", "x.warc.gz", packed(oneRecord(17+2*lines33M+2, inOrder("HTTP/1.1 200 OK\r\n", repeated("a\n", lines33M), "\r\n"))), looks, "the head has more than "},
	{"a head of too many lines", "x.warc.gz", packed(oneRecord(17+2*200_000+2, inOrder("HTTP/1.1 200 OK\r\n", repeated("a\n", 200_000), "\r\n"))), looks, "there are 200000 header fields, more than 100000"},
	{"a request of too many lines with a bad first one", "x.warc.gz", packed(inOrder(recordHead("request", "1", isRequest, 26+2*8_000_000+2), "GET http://e.org/ HTTP/2\r\n", repeated("a\n", 8_000_000), "\r\n", "\r\n\r\n")), looks, "there are 8000000 header fields, more than 100000"},
	{"a head of as many lines as are read", "x.warc.gz", packed(oneRecord(17+160*99_000+2, inOrder("HTTP/1.1 200 OK\r\n", repeated("name: "+strings.Repeat("x", 152)+"\r\n", 99_000), "\r\n"))), looks, ""},
	{"60 MB of Content-Type", "x.warc.gz", packed(oneRecord(17+14+60<<20+4, inOrder("HTTP/1.1 200 OK\r\nContent-Type: ", repeated(strings.Repeat("x", 1<<20), 60), "\r\n\r\n"))), looks, "the head has more than "},
	{"records of 16 MB of Content-Type", "x.warc.gz", each(8, func(i int) string {
		return message("response", fmt.Sprint(i), isResponse, "HTTP/1.1 200 OK\r\nContent-Type: "+strings.Repeat("x", 16<<20)+"\r\n\r\n")
	}), append([]string{trained}, looks...), ""},
	{"requests with 16 MB of Content-Type", "x.warc.gz", each(8, func(i int) string {
		return message("request", fmt.Sprint(i), isRequest, "POST / HTTP/1.1\r\nHost: example.org\r\nContent-Type: "+strings.Repeat("x", 16<<20)+"\r\n\r\n")
	}), append([]string{trained}, looks...), ""},
	{"ids of a megabyte", "x.warc.gz", each(300, func(i int) string {
		long := fmt.Sprint(i, strings.Repeat("x", 480<<10))
		return message("response", fmt.Sprint(i), isResponse+"WARC-Concurrent-To: <urn:x:"+long+"z>\r\nWARC-Refers-To: <"+long+">\r\n", "HTTP/1.1 200 OK\r\n\r\n")
	}), looks, ""},
	{"a lost member among ids of a megabyte", "x.warc.gz", inOrder(each(300, func(i int) string {
		return message("response", fmt.Sprint(strings.Repeat("x", 480<<10), i), isResponse+"WARC-Concurrent-To: <urn:x:"+fmt.Sprint(strings.Repeat("x", 480<<10), i+1)+">\r\n", "HTTP/1.1 200 OK\r\n\r\n")
	}), "garbage", each(300, func(i int) string { return message("response", fmt.Sprint(i), isResponse, "HTTP/1.1 200 OK\r\n\r\n") })), looks, ""},
	{"many Concurrent-To", "x.warc.gz", each(60, func(i int) string {
		return message("response", fmt.Sprint(i), isResponse+strings.Repeat("WARC-Concurrent-To: <urn:x:1>\r\n", 9_000), "HTTP/1.1 200 OK\r\n\r\n")
	}), looks, ""},
	{"a header of too many lines", "x.warc.gz", each(3, func(i int) string {
		return message("response", fmt.Sprint(i), isResponse+strings.Repeat("a:\n", 300_000), "HTTP/1.1 200 OK\r\n\r\n")
	}), looks, "the header has more than 10000 lines"},
	{"many small records", "x.warc", times(150_000, func(w io.Writer, i int) error {
		_, err := io.WriteString(w, "WARC/1.1\r\nWARC-Type: response\r\nWARC-Record-ID: <urn:x:"+fmt.Sprint(i)+">\r\nContent-Length: 0\r\n\r\n\r\n\r\n")
		return err
	}), []string{"check --max-findings 0 FILE", "ls --json FILE", "index FILE", "repair --out DIR FILE", "pack FILE --out DIR/x.wacz"}, ""},
	{"bodies of empty objects", "x.warc.gz", each(40, func(i int) string {
		body := "[" + strings.Repeat("{},", 340_000) + "{}]"
		return message("request", fmt.Sprint(i), isRequest, fmt.Sprintf("POST / HTTP/1.1\r\nHost: example.org\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(body), body))
	}), looks, ""},
	{"one octet chunks", "x.warc.gz", packed(oneRecord(17+30+2+6*8_000_000+5, inOrder("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked   \r\n\r\n", repeated("1\r\nx\r\n", 8_000_000), "0\r\n\r\n"))), looks, ""},
	{"a huge warcinfo", "x.warc.gz", packed(inOrder(recordHead("warcinfo", "1", "Content-Type: application/warc-fields\r\n", 100<<20), repeated("software: x\r\n   y\n", 100<<20/17), strings.Repeat("\n", 100<<20%17), "\r\n\r\n")), looks, ""},
	{"many segments", "x.warc", inOrder(recordHead("response", "0", isResponse+"WARC-Segment-Number: 1\r\n", 0), "\r\n\r\n", times(120_000, func(w io.Writer, i int) error {
		_, err := fmt.Fprintf(w, "WARC/1.1\r\nWARC-Type: continuation\r\nWARC-Record-ID: <urn:%d>\r\nWARC-Segment-Origin-ID: <urn:x:0>\r\nWARC-Segment-Number: %d\r\nWARC-Segment-Total-Length: 7\r\nContent-Length: 0\r\n\r\n\r\n\r\n", i, i+2)
		return err
	})), []string{"cat --payload FILE@0", "show FILE@0", "check FILE", "repair --out DIR FILE"}, ""},
	{"a member of a gigabyte", "x.warc.gz", packed(inOrder(message("response", "1", isResponse, "HTTP/1.1 200 OK\r\n\r\n"), repeated(strings.Repeat("\x00", 1<<20), 1000))), looks, ""},
	{"zstd windows", "x.warc.zst", zstdWindows(8), looks, ""},
	{"zstd contents", "x.warc.gz", zstdContents, looks, ""},
	{"a dictionary of 8 MB", "x.warc.zst", inOrder("\x5d\x2a\x4d\x18\x00\x00\x80\x00\x37\xa4\x30\xec", strings.Repeat("x", 8<<20-4)), looks, ""},
	{"an ARC of one line", "x.arc", repeated("filedesc://x 0 20260101000000 text/plain", 2<<20), append([]string{"convert --out DIR FILE"}, looks...), ""},
	{"an ARC of small records", "x.arc", inOrder("filedesc://x.arc 0.0.0.0 20260101000000 text/plain 1\n1\n", repeated("http://e.org/ 1.2.3.4 20260101000000 text/html 3\nabc\n", 80_000)), []string{"ls FILE", "index FILE", "convert --out DIR FILE"}, ""},
	{"a package that lists nothing", "x.wacz", hostilePackage(inOrder(`{"profile":"data-package","resources":[`, repeated("{},", 20_000_000), "{}]}")), []string{"pack --verify FILE", "ls FILE", "check FILE"}, ""},
	{"a package that lists less", "x.wacz", hostilePackage(inOrder(`{"profile":"data-package","resources":[`, repeated("{},", 5_000_000), "{}]}")), []string{"pack --verify FILE", "pack --verify --json FILE"}, "further faults"},
	{"a package of deep JSON", "x.wacz", hostilePackage(inOrder(`{"profile":`, repeated("[", 10<<20))), []string{"pack --verify FILE"}, ""},
	{"a package of many names", "x.wacz", manyNames(1_200_000), []string{"pack --verify FILE", "ls FILE", "check FILE", "index FILE", "grep x FILE"}, ""},
	{"a package of as many names as are read", "x.wacz", manyNames(90_000), []string{"pack --verify FILE", "ls FILE", "check FILE", "index FILE", "grep x FILE"}, ""},
	{"lines of a list that are none", "list.sha256", repeated("x\n", 50<<20), []string{"manifest --verify FILE", "manifest --verify --json FILE"}, ""},
	{"a long list", "list.md5", times(1_200_000, func(w io.Writer, i int) error {
		_, err := fmt.Fprintf(w, "%032x  %d\n", i, i)
		return err
	}), []string{"manifest --verify FILE"}, ""},
	{"a list of long names", "list.md5", times(1_600, func(w io.Writer, i int) error {
		_, err := fmt.Fprintf(w, "%032x  %d%s\n", i, i, strings.Repeat("x", 60<<10))
		return err
	}), []string{"manifest --verify FILE"}, ""},
	{"a list of all files", "list.md5", inOrder("# all files of directory: .\n", times(1_200_000, func(w io.Writer, i int) error {
		_, err := fmt.Fprintf(w, "%032x  %d\n", i, i)
		return err
	})), []string{"manifest --verify FILE"}, ""},
	{"a bag of many files", "manifest-md5.txt", times(2_500_000, func(w io.Writer, i int) error {
		_, err := fmt.Fprintf(w, "%032x  data/%d\n", i, i)
		return err
	}), []string{"manifest --verify BAG"}, "more than 16777216 octets"},
	{"a bag of as many files as are read", "manifest-md5.txt", times(360_000, func(w io.Writer, i int) error {
		_, err := fmt.Fprintf(w, "%032x  data/%d\n", i, i)
		return err
	}), []string{"manifest --verify BAG"}, ""},
	{"long lines of pages", "pages.jsonl", inOrder(`{"format":"json-pages-1.0","id":"pages","title":"x"}`+"\n", repeated(`{"url":"http://e.org/","ts":"2026-01-01T00:00:00Z","text":"`+strings.Repeat("x", 15<<20)+"\"}\n", 6)), []string{"pack --pages FILE --out DIR/x.wacz PLAIN"}, ""},
}

// zstdWindows is frames that want as large a window as is granted, 32 MiB.
func zstdWindows(n int) func(w io.Writer) error {
	return times(n, func(w io.Writer, i int) error {
		z, err := zstd.NewWriter(w, zstd.WithWindowSize(32<<20), zstd.WithEncoderConcurrency(1))
		if err != nil {
			return err
		}
		const size = 40 << 20
		if err := inOrder(recordHead("resource", fmt.Sprint(i), "Content-Type: text/plain\r\n", size), repeated(strings.Repeat("x", 1<<20), 40), "\r\n\r\n")(z); err != nil {
			return err
		}
		return z.Close()
	})
}

// zstdContents is payloads of three zstd codings.
func zstdContents(w io.Writer) error {
	payload := bytes.Repeat([]byte("x"), 64<<20)
	for range 3 {
		z, err := zstd.NewWriter(nil, zstd.WithWindowSize(8<<20), zstd.WithSingleSegment(false))
		if err != nil {
			return err
		}
		payload = z.EncodeAll(payload, nil)
	}
	return each(20, func(i int) string {
		return message("response", fmt.Sprint(i), isResponse, "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Encoding: zstd, zstd, zstd\r\n\r\n"+string(payload))
	})(w)
}

// hostilePackage is a package with that datapackage.json, whose digest is right.
func hostilePackage(datapackage func(w io.Writer) error) func(w io.Writer) error {
	return func(w io.Writer) error {
		z := zip.NewWriter(w)
		out, err := z.Create("datapackage.json")
		if err != nil {
			return err
		}
		sum := sha256.New()
		if err := datapackage(io.MultiWriter(out, sum)); err != nil {
			return err
		}
		if out, err = z.Create("datapackage-digest.json"); err != nil {
			return err
		}
		fmt.Fprintf(out, `{"path":"datapackage.json","hash":"sha256:%x"}`, sum.Sum(nil))
		return z.Close()
	}
}

// manyNames is a package with so many names, all of which are of the same octets.
func manyNames(n int) func(w io.Writer) error {
	return func(w io.Writer) error {
		const content = "WARC/1.1\r\n"
		local := "PK\x03\x04\x14\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x0a\x00\x00\x00\x0a\x00\x00\x00\x01\x00\x00\x00x" + content
		var directory int
		err := inOrder(local, times(n, func(w io.Writer, i int) error {
			name := fmt.Sprintf("archive/%d.warc", i)
			entry := "PK\x01\x02\x14\x00\x14\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x0a\x00\x00\x00\x0a\x00\x00\x00" +
				string([]byte{byte(len(name)), 0}) + strings.Repeat("\x00", 16) + name
			directory += len(entry)
			_, err := io.WriteString(w, entry)
			return err
		}))(w)
		if err != nil {
			return err
		}
		number := string([]byte{byte(n), byte(n >> 8)})
		size := string([]byte{byte(directory), byte(directory >> 8), byte(directory >> 16), byte(directory >> 24)})
		_, err = io.WriteString(w, "PK\x05\x06\x00\x00\x00\x00"+number+number+size+string([]byte{byte(len(local)), 0, 0, 0})+"\x00\x00")
		return err
	}
}
