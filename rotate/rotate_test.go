package rotate

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"
)

// The tests write frames: "LENGTH CRC\n" and so many bytes.

func frame(content string) string {
	return fmt.Sprintf("%08x %08x\n%s", len(content), crc32.ChecksumIEEE([]byte(content)), content)
}

// frames returns what the whole frames at the start of b hold, and their length.
func frames(b []byte) (contents []string, good int64) {
	for len(b) >= 18 {
		var n int
		var crc uint32
		if k, _ := fmt.Sscanf(string(b[:18]), "%08x %08x\n", &n, &crc); k != 2 || len(b) < 18+n {
			break
		}
		content := string(b[18 : 18+n])
		if crc32.ChecksumIEEE([]byte(content)) != crc {
			break
		}
		contents = append(contents, content)
		b, good = b[18+n:], good+int64(18+n)
	}
	return contents, good
}

func verify(r io.Reader) (int64, error) {
	b, err := io.ReadAll(r)
	_, good := frames(b)
	return good, err
}

// begun is a file that Current or Next returned, with its preamble.
func begun(f *File, err error) (*File, error) {
	if err == nil && f.Fresh() {
		err = f.Begin(strings.NewReader(frame("file " + f.Name())))
	}
	return f, err
}

func testOptions(dir string) Options {
	return Options{
		Dir: dir,
		Name: func(series string, _ time.Time, serial int) string {
			return fmt.Sprintf("%s-%05d.log.gz", series, serial)
		},
		Verify: verify,
		Logger: slog.New(slog.DiscardHandler),
	}
}

func open(t *testing.T, o Options) *Set {
	t.Helper()
	s, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.lock.Close() }) // a test may have ended in the middle
	return s
}

func current(t *testing.T, s *Set, series string) *File {
	t.Helper()
	f, err := begun(s.Current(series))
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func add(t *testing.T, f *File, contents ...string) {
	t.Helper()
	var parts []io.Reader
	var all string
	for _, c := range contents {
		parts = append(parts, strings.NewReader(frame(c)))
		all += frame(c)
	}
	before := f.Size()
	offset, length, err := f.Append(parts...)
	if err != nil || offset != before || length != int64(len(all)) || f.Size() != before+length {
		t.Fatalf("Append = %d, %d, %v, and Size %d; want %d, %d", offset, length, err, f.Size(), before, len(all))
	}
}

func closeSet(t *testing.T, s *Set) {
	t.Helper()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

// archive checks the directory of a closed set and returns what is in the
// files with a final name, without their preambles.
func archive(t *testing.T, dir string) map[string][]string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	all := make(map[string][]string)
	for _, e := range entries {
		name := e.Name()
		if name == ".lock" || strings.Contains(name, ".bad-") || strings.Contains(name, ".tail") {
			continue
		}
		if strings.HasSuffix(name, OpenSuffix) {
			t.Errorf("%s is left", name)
			continue
		}
		b, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		contents, good := frames(b)
		if int(good) != len(b) {
			t.Errorf("%s: only %d of %d bytes are whole appends", name, good, len(b))
		}
		if len(contents) == 0 || contents[0] != "file "+name {
			t.Errorf("%s begins with %.40q", name, contents)
			continue
		}
		all[name] = contents[1:]
	}
	return all
}

func wantArchive(t *testing.T, dir string, want map[string][]string) {
	t.Helper()
	got := archive(t, dir)
	for name := range got {
		if !slices.Equal(got[name], want[name]) || want[name] == nil {
			t.Errorf("%s holds %q, want %q", name, got[name], want[name])
		}
	}
	for name := range want {
		if got[name] == nil {
			t.Errorf("%s is missing", name)
		}
	}
}

// list returns the names in a directory, but for the lock.
func list(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		if e.Name() != ".lock" {
			names = append(names, e.Name())
		}
	}
	return names
}

func TestRotateBySize(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "deep", "down")
	o := testOptions(dir)
	o.MaxSize = 100
	s := open(t, o)
	f := current(t, s, "a")
	if f.Name() != "a-00000.log.gz" || f.Size() != int64(len(frame("file "+f.Name()))) || f.Preamble() != f.Size() {
		t.Errorf("%q, %d, %d", f.Name(), f.Size(), f.Preamble())
	}
	if got := list(t, dir); !slices.Equal(got, []string{"a-00000.log.gz.open"}) {
		t.Errorf("while it is written: %q", got)
	}
	big := strings.Repeat("big", 3*bufferSize/2) // longer than a file may be, and than the buffer
	add(t, f, "1", "2")
	add(t, current(t, s, "a"), big, "3") // is never split
	add(t, current(t, s, "b"), "other series")
	g := current(t, s, "a")
	if g == f {
		t.Fatal("a full file is still the current one")
	}
	if f.Synced() != f.Size() {
		t.Errorf("of the finished file %d of %d bytes are durable", f.Synced(), f.Size())
	}
	if _, _, err := f.Append(strings.NewReader("x")); err == nil {
		t.Error("Append to a finished file")
	}
	add(t, g, "4")
	closeSet(t, s)
	closeSet(t, s)
	if _, err := s.Current("a"); !errors.Is(err, ErrClosed) {
		t.Errorf("Current after Close: %v", err)
	}
	if err := s.Finish(); !errors.Is(err, ErrClosed) {
		t.Errorf("Finish after Close: %v", err)
	}
	wantArchive(t, dir, map[string][]string{
		"a-00000.log.gz": {"1", "2", big, "3"},
		"b-00001.log.gz": {"other series"},
		"a-00002.log.gz": {"4"},
	})
}

func TestFinish(t *testing.T) {
	dir := t.TempDir()
	s := open(t, testOptions(dir))
	add(t, current(t, s, "a"), "1")
	add(t, current(t, s, "b"), "2")
	current(t, s, "empty")
	if err := s.Finish(); err != nil {
		t.Fatal(err)
	}
	want := map[string][]string{"a-00000.log.gz": {"1"}, "b-00001.log.gz": {"2"}}
	wantArchive(t, dir, want)
	if err := s.Finish(); err != nil {
		t.Fatal(err)
	}
	add(t, current(t, s, "a"), "3")
	closeSet(t, s)
	want["a-00003.log.gz"] = []string{"3"}
	wantArchive(t, dir, want)
}

func TestRotateByAge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		o := testOptions(dir)
		o.MaxAge = time.Hour
		s := open(t, o)
		start := time.Now()
		add(t, current(t, s, "a"), "1")
		time.Sleep(30 * time.Minute)
		add(t, current(t, s, "a"), "2")
		add(t, current(t, s, "b"), "3")
		expire := func(after time.Duration, left int) {
			t.Helper()
			if err := s.Expire(start.Add(after)); err != nil {
				t.Fatal(err)
			}
			if len(s.files) != left {
				t.Errorf("%d files are being written after %v, want %d", len(s.files), after, left)
			}
		}
		expire(time.Hour-1, 2)
		expire(time.Hour, 1)
		expire(90*time.Minute-1, 1)
		time.Sleep(time.Hour) // a file that has become too old is not appended to
		add(t, current(t, s, "b"), "4")
		closeSet(t, s)
		wantArchive(t, dir, map[string][]string{
			"a-00000.log.gz": {"1", "2"}, "b-00001.log.gz": {"3"}, "b-00002.log.gz": {"4"},
		})
	})
}

func TestNoAge(t *testing.T) {
	s := open(t, testOptions(t.TempDir()))
	add(t, current(t, s, "a"), "1")
	if err := s.Expire(time.Now().Add(1e6 * time.Hour)); err != nil || len(s.files) != 1 {
		t.Errorf("%v, %d files", err, len(s.files))
	}
	closeSet(t, s)
}

// Nothing is ever overwritten: names that are taken are passed over.
func TestNameIsTaken(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "a-00000.log.gz", frame("file a-00000.log.gz")+frame("old"))
	s := open(t, testOptions(dir))
	write(t, dir, "a-00001.log.gz.open", "somebody's")
	f := current(t, s, "a")
	if f.Name() != "a-00002.log.gz" {
		t.Errorf("the name is %s", f.Name())
	}
	add(t, f, "new")
	closeSet(t, s)
	if read(t, dir, "a-00001.log.gz.open") != "somebody's" {
		t.Error("another file was touched")
	}
	os.Remove(filepath.Join(dir, "a-00001.log.gz.open"))
	wantArchive(t, dir, map[string][]string{"a-00000.log.gz": {"old"}, "a-00002.log.gz": {"new"}})
}

func write(t *testing.T, dir, name, content string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, dir, name string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// When somebody takes the final name meanwhile, the file gets another one.
func TestNameIsTakenMeanwhile(t *testing.T) {
	dir := t.TempDir()
	s := open(t, testOptions(dir))
	f := current(t, s, "a")
	add(t, f, "1")
	write(t, dir, "a-00000.log.gz", "somebody's")
	write(t, dir, "a-00000-1.log.gz", "as well")
	closeSet(t, s)
	if f.Name() != "a-00000-2.log.gz" {
		t.Errorf("the name is %s", f.Name())
	}
	if got := read(t, dir, "a-00000.log.gz") + read(t, dir, "a-00000-1.log.gz"); got != "somebody'sas well" {
		t.Errorf("overwritten: %q", got)
	}
	if got := read(t, dir, f.Name()); got != frame("file a-00000.log.gz")+frame("1") {
		t.Errorf("it holds %q", got)
	}
}

func TestBadNames(t *testing.T) {
	for _, name := range []string{"", ".", "..", "../x", "a/b", `a\b`, "x.open", ".hidden", "/x"} {
		o := testOptions(t.TempDir())
		o.Name = func(string, time.Time, int) string { return name }
		s := open(t, o)
		if _, err := s.Current("a"); err == nil {
			t.Errorf("%q was taken as a name", name)
		}
		closeSet(t, s)
	}
	o := testOptions(t.TempDir())
	o.Name = func(string, time.Time, int) string { return "always" }
	s := open(t, o)
	add(t, current(t, s, "a"), "1")
	if _, err := s.Current("b"); err == nil || !strings.Contains(err.Error(), "always") {
		t.Errorf("a name that does not change: %v", err)
	}
	closeSet(t, s)
	if _, err := Open(Options{}); err == nil {
		t.Error("Open without options")
	}
}

func TestSerialGoesRound(t *testing.T) {
	s := open(t, testOptions(t.TempDir()))
	s.serial = MaxSerial
	add(t, current(t, s, "a"), "1")
	add(t, current(t, s, "b"), "2")
	closeSet(t, s)
	wantArchive(t, s.options.Dir, map[string][]string{"a-99999.log.gz": {"1"}, "b-00000.log.gz": {"2"}})
}

// A preamble that cannot be read leaves the file fresh, and a fresh file is not
// kept.
func TestPreambleFails(t *testing.T) {
	trouble := errors.New("trouble")
	o := testOptions(t.TempDir())
	s := open(t, o)
	f, err := s.Current("a")
	if err != nil || !f.Fresh() {
		t.Fatalf("fresh is %t, %v", f.Fresh(), err)
	}
	if err := f.Begin(strings.NewReader("some"), iotest.ErrReader(trouble)); !errors.Is(err, trouble) || !f.Fresh() {
		t.Errorf("fresh is %t, %v", f.Fresh(), err)
	}
	if again, err := s.Current("a"); again != f || err != nil {
		t.Errorf("another file is current, %v", err)
	}
	closeSet(t, s)
	if got := list(t, o.Dir); len(got) > 0 {
		t.Errorf("left: %q", got)
	}
}

func TestNoPreamble(t *testing.T) {
	o := testOptions(t.TempDir())
	s := open(t, o)
	f, err := s.Current("a")
	if err != nil {
		t.Fatal(err)
	}
	add(t, f, "file a-00000.log.gz", "1")
	if f.Fresh() || f.Preamble() != 0 {
		t.Errorf("fresh is %t, the preamble has %d bytes", f.Fresh(), f.Preamble())
	}
	if _, err := s.Current("b"); err != nil {
		t.Fatal(err)
	}
	closeSet(t, s)
	wantArchive(t, o.Dir, map[string][]string{"a-00000.log.gz": {"1"}})
}

// A source that fails, or panics, leaves the file as it was.
func TestSourceFails(t *testing.T) {
	dir := t.TempDir()
	s := open(t, testOptions(dir))
	f := current(t, s, "a")
	add(t, f, "1")
	trouble := errors.New("trouble")
	long := strings.Repeat("x", 2*bufferSize)
	for _, err := range []error{trouble, io.ErrUnexpectedEOF} {
		for _, before := range []string{"", "short", long} {
			_, length, got := f.Append(strings.NewReader(frame("2")), strings.NewReader(before), iotest.ErrReader(err))
			if !errors.Is(got, err) || errors.Is(got, ErrBroken) || length != 0 || f.Err() != nil {
				t.Errorf("%d, %v, %v", length, got, f.Err())
			}
		}
	}
	func() {
		defer func() {
			if recover() == nil {
				t.Error("the panic got lost")
			}
		}()
		f.Append(strings.NewReader(long), panicReader{})
	}()
	add(t, f, "3")
	if offset, length, err := f.Append(); offset != f.Size() || length != 0 || err != nil {
		t.Errorf("Append of nothing: %d, %d, %v", offset, length, err)
	}
	one := frame("4")
	if _, _, err := f.Append(iotest.OneByteReader(strings.NewReader(one)), iotest.DataErrReader(bufio.NewReader(strings.NewReader(frame("5"))))); err != nil {
		t.Error(err)
	}
	closeSet(t, s)
	wantArchive(t, dir, map[string][]string{"a-00000.log.gz": {"1", "3", "4", "5"}})
}

type panicReader struct{}

func (panicReader) Read([]byte) (int, error) { panic("trouble") }

// An append is few writes.
func TestFewWrites(t *testing.T) {
	fake := &faultFS{}
	o := testOptions(t.TempDir())
	o.FS = fake
	s := open(t, o)
	f := current(t, s, "a")
	fake.calls = nil
	var parts []io.Reader
	for range 500 {
		parts = append(parts, strings.NewReader(frame("x")))
	}
	if _, _, err := f.Append(parts...); err != nil {
		t.Fatal(err)
	}
	if len(fake.calls) != 1 {
		t.Errorf("%d calls: %q", len(fake.calls), fake.calls)
	}
	fake.calls = nil
	if _, _, err := f.Append(bytes.NewReader(make([]byte, 3*bufferSize+1))); err != nil {
		t.Fatal(err)
	}
	if len(fake.calls) != 4 {
		t.Errorf("%d calls: %q", len(fake.calls), fake.calls)
	}
}

func TestOtherNames(t *testing.T) {
	for name, want := range map[string]string{
		"a.warc.gz": "a-3.warc.gz", "a.b.warc.zst": "a.b-3.warc.zst", "a.warc": "a-3.warc",
		"a": "a-3", "a.gz": "a-3.gz", "a.warc.gz.tail": "a.warc.gz-3.tail",
	} {
		if got := other(name, 3); got != want {
			t.Errorf("other(%q) = %q, want %q", name, got, want)
		}
		if got := other(name, 0); got != name {
			t.Errorf("other(%q, 0) = %q", name, got)
		}
	}
}
