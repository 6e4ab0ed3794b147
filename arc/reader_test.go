package arc

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"time"
)

const (
	head     = "1 0 Example\nURL IP-address Archive-date Content-type Archive-length\n"
	response = "HTTP/1.0 200 OK\r\nContent-Type: text/html\r\n\r\n<p>\n\n"
)

// line returns the line of a record and its block.
func line(url, rest, block string) string {
	return fmt.Sprintf("%s %s %d\n%s", url, rest, len(block), block)
}

func filedesc() string {
	return line("filedesc://a.arc", "0.0.0.0 20010203040506 text/plain", head)
}

const usual = "192.0.2.1 20010203040507 text/html"

type read struct {
	Record
	block  string
	excess int64
}

func readAll(in io.Reader) (all []read, err error) {
	z := NewReader(in)
	for {
		r, err := z.Next()
		if err == io.EOF {
			return all, nil
		}
		if err != nil {
			return all, err
		}
		got := read{Record: *r}
		block, err := io.ReadAll(z)
		if err != nil {
			return all, err
		}
		got.block, got.excess = string(block), z.Excess()
		all = append(all, got)
	}
}

// members returns each part as a gzip member.
func members(parts ...string) []byte {
	var b bytes.Buffer
	for _, p := range parts {
		z := gzip.NewWriter(&b)
		io.WriteString(z, p)
		z.Close()
	}
	return b.Bytes()
}

func TestForms(t *testing.T) {
	a := line("http://a.example/", usual, response) + "\n"
	b := line("http://b.example/", usual, "") + "\n"
	d := filedesc() + "\n"
	for name, in := range map[string][]byte{
		"plain":               []byte(d + a + b),
		"member per record":   members(d, a, b),
		"gzip as a whole":     members(d + a + b),
		"cut anywhere":        members(d[:100], d[100:]+a[:70], a[70:]+b),
		"too many line ends":  []byte("\n" + d + "\n\r\n" + a + "\n\n\n" + b + "\n"),
		"too few":             []byte(strings.TrimSuffix(d, "\n") + strings.TrimSuffix(a, "\n") + strings.TrimSuffix(b, "\n")),
		"members without":     members(strings.TrimSuffix(d, "\n"), strings.TrimSuffix(a, "\n"), strings.TrimSuffix(b, "\n")),
		"line end of its own": members(d, "\n", a, "\n", b),
	} {
		for kind, r := range map[string]io.Reader{"": bytes.NewReader(in), ", a byte at a time": iotest.OneByteReader(bytes.NewReader(in))} {
			all, err := readAll(r)
			if err != nil || len(all) != 3 {
				t.Errorf("%s%s: %d records, %v", name, kind, len(all), err)
				continue
			}
			if all[0].block != head || all[1].block != response || all[2].block != "" {
				t.Errorf("%s%s: blocks %q, %q, %q", name, kind, all[0].block, all[1].block, all[2].block)
			}
			if !all[0].Filedesc() || all[1].Filedesc() || all[1].URL != "http://a.example/" || all[2].URL != "http://b.example/" {
				t.Errorf("%s%s: URLs %q, %q, %q", name, kind, all[0].URL, all[1].URL, all[2].URL)
			}
			for _, r := range all {
				if r.excess != 0 {
					t.Errorf("%s%s: the length of %s is called wrong by %d", name, kind, r.URL, r.excess)
				}
			}
		}
	}
}

func TestOffsets(t *testing.T) {
	d, a, b := filedesc()+"\n", line("http://a.example/", usual, response)+"\n", line("http://b.example/", usual, "x")
	offsets := func(in []byte) (all []int64) {
		records, err := readAll(bytes.NewReader(in))
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range records {
			all = append(all, r.Offset)
		}
		return all
	}
	if got, want := offsets([]byte(d+a+b)), []int64{0, int64(len(d)), int64(len(d) + len(a))}; !slices.Equal(got, want) {
		t.Errorf("offsets %d, want %d", got, want)
	}
	if got, want := offsets(members(d, a, b)), []int64{0, int64(len(members(d))), int64(len(members(d, a)))}; !slices.Equal(got, want) {
		t.Errorf("offsets of members %d, want %d", got, want)
	}
	if got := offsets(members(d + a + b)); !slices.Equal(got, []int64{0, 0, 0}) {
		t.Errorf("offsets in one member %d, want 0", got)
	}
}

func TestLines(t *testing.T) {
	for in, want := range map[string]Record{
		"http://a/ 192.0.2.1 20010203040506 text/html 5":    {URL: "http://a/", IP: "192.0.2.1", Date: "20010203040506", Type: "text/html", Length: 5},
		"http://a/?a b  c 192.0.2.1 20010203040506 - 5":     {URL: "http://a/?a b  c", IP: "192.0.2.1", Date: "20010203040506", Type: "-", Length: 5},
		"http://a/ 0 20010203040506 no-type 0":              {URL: "http://a/", IP: "0", Date: "20010203040506", Type: "no-type"},
		"http://a/ 2001:db8::1 20010203040506 no-type 0":    {URL: "http://a/", IP: "2001:db8::1", Date: "20010203040506", Type: "no-type"},
		"http://a/ 20010203040506 192.0.2.1 text/html 5":    {URL: "http://a/", IP: "192.0.2.1", Date: "20010203040506", Type: "text/html", Length: 5},
		"http://a/ 192.0.2.1 20010203040506 5":              {URL: "http://a/", IP: "192.0.2.1", Date: "20010203040506", Length: 5},
		"http://a/ 192.0.2.1 20010203040506 a/b; c=d 5":     {URL: "http://a/", IP: "192.0.2.1", Date: "20010203040506", Type: "a/b; c=d", Length: 5},
		"http://a/ 192.0.2.1 200102030405 text/html 5":      {URL: "http://a/", IP: "192.0.2.1", Date: "200102030405", Type: "text/html", Length: 5},
		"http://a/ host.example 20010203040506 x/y 5":       {URL: "http://a/", IP: "host.example", Date: "20010203040506", Type: "x/y", Length: 5},
		"dns:a.example 192.0.2.1 20010203040506 text/dns 5": {URL: "dns:a.example", IP: "192.0.2.1", Date: "20010203040506", Type: "text/dns", Length: 5},
		"http://a/ 192.0.2.1 20010203040506 text/html 302 abc http://b/ 209 f.arc 5": {URL: "http://a/", IP: "192.0.2.1", Date: "20010203040506", Type: "text/html",
			Result: "302", Checksum: "abc", Location: "http://b/", FileOffset: "209", Filename: "f.arc", Length: 5},
		"filedesc://f.arc 0.0.0.0 20010203040506 text/plain 200 - - 0 f.arc 122": {URL: "filedesc://f.arc", IP: "0.0.0.0", Date: "20010203040506", Type: "text/plain",
			Result: "200", Checksum: "-", Location: "-", FileOffset: "0", Filename: "f.arc", Length: 122},
	} {
		want.Line = in
		if got, err := parseLine(in); err != nil || got != want {
			t.Errorf("%q is read as %+v, %v", in, got, err)
		}
	}
	for _, in := range []string{
		"", " ", "http://a/",
		"http://a/ 192.0.2.1 2001 text/html 5", "a 192.0.2.1 20010203040506 text/html 5", "1a: 192.0.2.1 20010203040506 text/html 5",
		"192.0.2.1 20010203040506 text/html 5", "HTTP/1.1 200 OK", "<p>see http://a/ for 20010203040506 things",
	} {
		if got, err := parseLine(in); err == nil {
			t.Errorf("%q is read as %+v", in, got)
		}
	}
	for _, in := range []string{
		"http://a/ 192.0.2.1 20010203040506 text/html -1", "http://a/ 192.0.2.1 20010203040506 text/html abc", "http://a/ 192.0.2.1 20010203040506 text/html",
		"http://a/ 192.0.2.1 20010203040506 text/html +5", "http://a/ 192.0.2.1 20010203040506 text/html 99999999999999999999", "http://a/ b 192.0.2.1 2001020304050 5 x",
	} {
		if got, err := parseLine(in); err != nil || got.Damage == nil || got.Length != 0 || got.IP != "192.0.2.1" {
			t.Errorf("%q, which has no length, is read as %+v, %v", in, got, err)
		}
	}
}

func TestDates(t *testing.T) {
	second := time.Date(2001, 2, 3, 4, 5, 6, 0, time.UTC)
	for in, want := range map[string]time.Time{
		"20010203040506":        second,
		"200102030405":          second.Add(-6 * time.Second),
		"2001020304050678":      second.Add(780 * time.Millisecond),
		"20010203040506789":     second.Add(789 * time.Millisecond),
		"201404010000000000":    time.Date(2014, 4, 1, 0, 0, 0, 0, time.UTC),
		"20010203040506000001":  second.Add(time.Microsecond),
		"20011303040506":        {},
		"2001020304":            {},
		"2001020304050":         {},
		"":                      {},
		"200102030405067890123": {},
		"2001-02-03T04:05":      {},
	} {
		r := Record{Date: in}
		if got, err := r.Time(); !got.Equal(want) || (err != nil) != want.IsZero() {
			t.Errorf("%q is read as %v, %v; want %v", in, got, err, want)
		}
	}
}

// TestWrongLengths: where the block ends can be told otherwise.
func TestWrongLengths(t *testing.T) {
	wrong := func(by int) string {
		return fmt.Sprintf("http://a.example/ %s %d\n%s", usual, len(response)+by, response)
	}
	d, b := filedesc()+"\n", line("http://b.example/", usual, "b")+"\n"
	for name, c := range map[string]struct {
		in     []byte
		excess int64
	}{
		"short, a member":           {members(d, wrong(-9)+"\n", b), 9},
		"short by much, a member":   {members(d, "http://a.example/ "+usual+" 0\n"+response+"\n", b), int64(len(response))},
		"long, a member":            {members(d, wrong(+7), b), -7},
		"long, the last member":     {members(d, b, wrong(+7)), -7},
		"short, plain":              {[]byte(d + wrong(-9) + "\n" + b), 9},
		"short, plain, at the end":  {[]byte(d + b + wrong(-9) + "\n"), 9},
		"short, no line end behind": {[]byte(d + b + wrong(-9)), 8}, // the last one is taken for that
		"long, plain, at the end":   {[]byte(d + b + wrong(+7)), -7},
		"long, gzip as a whole":     {members(d + b + wrong(+7)), -7},
		"short, gzip as a whole":    {members(d + wrong(-9) + "\n" + b), 9},
	} {
		for kind, r := range map[string]io.Reader{"": bytes.NewReader(c.in), ", a byte at a time": iotest.OneByteReader(bytes.NewReader(c.in))} {
			all, err := readAll(r)
			if err != nil || len(all) != 3 {
				t.Errorf("%s%s: %d records, %v", name, kind, len(all), err)
				continue
			}
			i := slices.IndexFunc(all, func(r read) bool { return r.URL == "http://a.example/" })
			if got := all[i]; got.excess != c.excess || got.block != response && c.excess != 8 {
				t.Errorf("%s%s: %d octets of excess, block %q; want %d", name, kind, got.excess, got.block, c.excess)
			}
			if all[3-i].block != "b" {
				t.Errorf("%s%s: the other block is %q", name, kind, all[3-i].block)
			}
		}
	}
	long := strings.Repeat("no record\n", 10000)
	all, err := readAll(bytes.NewReader(members(d, line("http://a.example/", usual, "")+long+"\n")))
	if err != nil || all[1].block != long || all[1].excess != int64(len(long)) {
		t.Errorf("a member of %d octets more: %v", len(long), err)
	}
}

// TestOverrun: a length that is too large by so much that the block would end within
// the line of the next record, or behind it.
func TestOverrun(t *testing.T) {
	d, b, c := filedesc()+"\n", line("http://b.example/", usual, "b")+"\n", line("http://c.example/", usual, "c")+"\n"
	wrong := func(block string, by int) string {
		return fmt.Sprintf("http://a.example/ %s %d\n%s\n", usual, len(block)+by, block)
	}
	for _, block := range []string{"", response, strings.Repeat("x", 3*maxExcess) + "\n\n", "x", "\n"} {
		for by := 2; by < len(b)+len(c); by++ {
			if by == len(b) || by == len(b)+1 || by == len(b)+2 {
				continue // it ends before the line of c, or before the line end before it: then it holds b
			}
			for kind, in := range map[string][]byte{"plain": []byte(d + wrong(block, by) + b + c), "gzip as a whole": members(d + wrong(block, by) + b + c)} {
				all, err := readAll(bytes.NewReader(in))
				if err != nil || len(all) != 4 || strings.TrimRight(all[1].block, "\n") != strings.TrimRight(block, "\n") || all[1].excess != int64(len(all[1].block)-len(block)-by) || all[2].block != "b" || all[3].block != "c" {
					t.Fatalf("%s: a block of %d octets whose length is %d more: %+v, %v", kind, len(block), by, all, err)
				}
			}
		}
	}
	inner := string(d + b + c) // an ARC file in an ARC file
	all, err := readAll(strings.NewReader(d + line("http://a.example/a.arc", usual, inner) + "\n" + b))
	if err != nil || len(all) != 3 || all[1].block != inner {
		t.Errorf("an ARC file in an ARC file: %+v, %v", all, err)
	}
}

// TestDamagedFiledesc: a file is read whatever the line says that describes it.
func TestDamagedFiledesc(t *testing.T) {
	b := line("http://b.example/", usual, "b") + "\n"
	for _, first := range []string{
		"filedesc://a.arc 127.0.0.1 20140301000000 text/plain -1", "filedesc://a.arc 127.0.0.1 20140301000000 text/plain", "filedesc://a.arc 2014 text/plain 76",
		"filedesc:", "filedesc://a.arc", "filedesc://a.arc 127.0.0.1 20140301000000 text/plain 1000000",
	} {
		for kind, in := range map[string][]byte{"plain": []byte(first + "\n" + head + "\n" + b + b), "members": members(first+"\n"+head+"\n", b, b)} {
			all, err := readAll(bytes.NewReader(in))
			if err != nil || len(all) != 3 || !all[0].Filedesc() || strings.TrimRight(all[0].block, "\n") != strings.TrimRight(head, "\n") || all[0].Damage == nil && all[0].excess == 0 || all[1].block != "b" || all[2].block != "b" {
				t.Errorf("%s, %q: %+v, %v", kind, first, all, err)
			}
		}
	}
}

// checkBad checks what is read of a file with damaged lines: without a length, and one
// with a wrong one.
func checkBad(t *testing.T, all []read, err error) {
	if err != nil || len(all) != 4 {
		t.Fatalf("bad.arc: %d records, %v", len(all), err)
	}
	for i, want := range []read{{block: "1 0 Bad Capture\nURL IP-address Archive-date Content-type Archive-length\n"}, {}, {block: "\n"}, {}} {
		if got := all[i]; strings.TrimRight(got.block, "\n") != strings.TrimRight(want.block, "\n") || (got.Damage == nil) != (i == 2) {
			t.Errorf("bad.arc, record %d: %+v", i, got)
		}
	}
}

func TestDamaged(t *testing.T) {
	d, a := filedesc()+"\n", line("http://a.example/", usual, response)
	packed := members(d, a)
	flipped := slices.Clone(packed)
	flipped[len(flipped)-6] ^= 1
	for name, c := range map[string]struct {
		in      string
		records int // whole ones
		want    string
	}{
		"no ARC":           {"WARC/1.0\r\n", 0, `offset 0: it starts with "WARC/1.0\r\n", which is not the line of an ARC record`},
		"negative length":  {d + "http://b.example/ " + usual + " -1\n" + strings.Repeat("no record\n", 500), 1, `the length "-1" is not a length, and no record`},
		"no end of a line": {strings.Repeat("x", maxLine+2*maxExcess), 0, "more than 65536 bytes"},
		"cut member":       {string(packed[:len(packed)-1]), 1, "damaged: unexpected EOF"},
		"cut comment":      {"\x1f\x8b\x08\x10\x00\x00\x00\x00\x00\x00", 0, "damaged: unexpected EOF"},
		"cut head":         {string(packed[:len(members(d))+5]), 1, "damaged: unexpected EOF"},
		"wrong checksum":   {string(flipped), 1, "damaged: gzip: invalid checksum"},
		"block of no end":  {string(members(d+a)) + "x", 2, "damaged"},
		"garbage behind":   {d + line("http://b.example/", usual, "") + strings.Repeat("no record\n", 500), 1, "its length of 0 is wrong"},
		"the same, gzip":   {string(members(d + line("http://b.example/", usual, "") + strings.Repeat("no record\n", 500))), 1, "its length of 0 is wrong"},
		"length far wrong": {d + line("http://b.example/", usual, "") + strings.Repeat("no record\n", 8000), 1, "its length of 0 is wrong"},
	} {
		all, err := readAll(strings.NewReader(c.in))
		e := (*Error)(nil)
		if len(all) > c.records || !errors.As(err, &e) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %d records, then %v; want %q", name, len(all), err, c.want)
		}
	}
	failure := errors.New("the disk is gone")
	_, err := readAll(io.MultiReader(strings.NewReader(d+a[:50]), iotest.ErrReader(failure)))
	if !errors.Is(err, failure) || errors.As(err, new(*Error)) {
		t.Errorf("an error of the input is told as %v", err)
	}
}

// TestSticky: nothing comes after an error or the end.
func TestSticky(t *testing.T) {
	for _, in := range []string{"", filedesc(), "bad", filedesc() + "\nhttp://a.example/ " + usual + " 5\nx"} {
		z := NewReader(strings.NewReader(in))
		var err error
		for err == nil {
			_, err = z.Next()
		}
		if _, again := z.Next(); again != err {
			t.Errorf("%q: %v, then %v", in, err, again)
		}
		if n, again := z.Read(make([]byte, 9)); n != 0 || again != err {
			t.Errorf("%q: %v, but Read gives %d, %v", in, err, n, again)
		}
	}
}

// TestSamples reads archives of other writers, from the folder in
// WARCTEE_SAMPLES.
func TestSamples(t *testing.T) {
	dir := os.Getenv("WARCTEE_SAMPLES")
	if dir == "" {
		t.Skip("WARCTEE_SAMPLES is not set")
	}
	for name, want := range map[string]string{
		"example.arc":              "http://example.com/",
		"example.arc.gz":           "http://example.com/",
		"example-space-in-url.arc": "http://example.com/index.cfm?FuseAction=Email&EmailTitle=Examples From The Live Web&IsPopUp=False",
		"bad.arc":                  "http://example.com/",
	} {
		in, err := os.Open(filepath.Join(dir, "warcio", name))
		if err != nil {
			t.Error(err)
			continue
		}
		all, err := readAll(in)
		in.Close()
		if name == "bad.arc" {
			checkBad(t, all, err)
			continue
		}
		if err != nil || len(all) != 2 {
			t.Errorf("%s: %d records, %v", name, len(all), err)
			continue
		}
		if all[1].URL != want || all[1].IP != "93.184.216.119" || all[1].Date != "20140216050221" {
			t.Errorf("%s: %+v", name, all[1].Record)
		}
		if body := all[1].block; !strings.HasPrefix(body, "HTTP/1.1 200 OK") || !strings.HasSuffix(strings.TrimRight(body, "\n"), "</html>") {
			t.Errorf("%s: the block is %q … %q", name, body[:20], body[len(body)-20:])
		}
	}
}

// FuzzReader: nothing of a file is lost but line ends between records.
func FuzzReader(f *testing.F) {
	d, a := filedesc()+"\n", line("http://a.example/", usual, response)+"\n"
	f.Add([]byte(d + a))
	f.Add(members(d, a))
	f.Add(members(d + a))
	f.Add([]byte(d + "http://a.example/ " + usual + " 9\n" + response + a))
	f.Add(members(d, "http://a.example/ "+usual+" 9\n"+response, a))
	f.Add(members(d, "http://a.example/ "+usual+" 999\n"+response, a))
	f.Fuzz(func(t *testing.T, in []byte) {
		all, err := readAll(bytes.NewReader(in))
		if err != nil {
			return
		}
		plain := in
		if bytes.HasPrefix(in, []byte("\x1f\x8b")) {
			z, err := gzip.NewReader(bytes.NewReader(in))
			if err != nil {
				t.Fatal(err)
			}
			if plain, err = io.ReadAll(io.LimitReader(z, 10<<20)); err != nil || len(plain) == 10<<20 {
				return
			}
		}
		var got bytes.Buffer
		for _, r := range all {
			got.WriteString(r.Line + r.block)
			if r.excess != int64(len(r.block))-r.Length {
				t.Errorf("%d octets of excess in a block of %d, whose length is %d", r.excess, len(r.block), r.Length)
			}
		}
		if !bytes.Equal(withoutLineEnds(got.Bytes()), withoutLineEnds(plain)) {
			t.Errorf("%q is read as %q", plain, got.Bytes())
		}
	})
}

func withoutLineEnds(b []byte) []byte {
	return bytes.Map(func(c rune) rune {
		if c == '\r' || c == '\n' {
			return -1
		}
		return c
	}, b)
}
