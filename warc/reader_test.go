package warc

import (
	"bytes"
	stdgzip "compress/gzip"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
)

// gz compresses each part as a member of its own, as other writers do.
func gz(parts ...string) string {
	var buf bytes.Buffer
	z := stdgzip.NewWriter(&buf)
	for _, p := range parts {
		z.Reset(&buf)
		z.Name = "a name" // as gzip(1) writes
		z.Write([]byte(p))
		z.Close()
	}
	return buf.String()
}

func rec(version, typ, block string, more ...string) string {
	h := "WARC/" + version + "\r\nWARC-Type: " + typ + "\r\n"
	for _, m := range more {
		h += m + "\r\n"
	}
	return h + fmt.Sprintf("Content-Length: %d\r\n\r\n%s\r\n\r\n", len(block), block)
}

type got struct {
	Record
	block string
	end   int64 // InputOffset behind it
}

func readAll(in io.Reader, strict bool) ([]got, error) {
	r := NewReader(in)
	r.Strict = strict
	var all []got
	for {
		rec, err := r.Next()
		if err == io.EOF {
			return all, nil
		}
		if err != nil {
			return all, err
		}
		block, err := io.ReadAll(r)
		if err != nil {
			return all, err
		}
		all = append(all, got{*rec, string(block), r.InputOffset()})
	}
}

func blocks(all []got) []string {
	var b []string
	for _, g := range all {
		b = append(b, g.block)
	}
	return b
}

func TestReaderTypesAndVersions(t *testing.T) {
	var parts []string
	types := []string{"warcinfo", "response", "resource", "request", "metadata", "revisit", "conversion", "continuation", "something-else"}
	for i, version := range []string{"0.17", "0.18", "1.0", "1.1"} {
		for j, typ := range types {
			parts = append(parts, rec(version, typ, strings.Repeat("x\r\n", i*1000+j)))
		}
	}
	for name, in := range map[string]string{"plain": strings.Join(parts, ""), "gzip": gz(parts...)} {
		for pieces, r := range map[string]io.Reader{"whole": strings.NewReader(in), "one byte": iotest.OneByteReader(strings.NewReader(in)), "data+EOF": iotest.DataErrReader(strings.NewReader(in))} {
			all, err := readAll(r, true)
			if err != nil || len(all) != len(parts) {
				t.Fatalf("%s, %s: %d records, %v", name, pieces, len(all), err)
			}
			offset := int64(0)
			for i, g := range all {
				size := int64(len(parts[i]))
				if name == "gzip" {
					size = int64(len(gz(parts[i])))
				}
				if g.Type() != types[i%len(types)] || int64(len(g.block)) != g.Length || g.Offset != offset || g.end != offset+size {
					t.Errorf("%s, %s: record %d: %+v, want offset %d, length %d", name, pieces, i, g, offset, size)
				}
				offset += size
			}
		}
	}
}

func TestReaderAccessors(t *testing.T) {
	in := rec("1.0", "Response", "", "WARC-Target-URI: <http://example.org/>", "WARC-Record-ID: <urn:uuid:1>", "WARC-Date: 2026-01-02T03:04:05Z",
		"Folded: one\r\n  two\r\n\tthree", "wArC-Concurrent-tO: <a:1>", "WARC-Concurrent-To:<a:2>  ", "Empty:")
	for _, strict := range []bool{false, true} {
		all, err := readAll(strings.NewReader(in), strict)
		if err != nil || len(all) != 1 {
			t.Fatal(all, err)
		}
		r := all[0]
		date, err := r.Date()
		if err != nil || FormatDate(date, V1_0) != "2026-01-02T03:04:05Z" {
			t.Error(date, err)
		}
		if r.Type() != "response" || r.TargetURI() != "http://example.org/" || r.ID() != "<urn:uuid:1>" || r.Version != V1_0 {
			t.Errorf("%+v", r)
		}
		if got := r.Header.Get("folded"); got != "one two three" {
			t.Errorf("folded line: %q", got)
		}
		if got := r.Header.Values("WARC-Concurrent-To"); !slices.Equal(got, []string{"<a:1>", "<a:2>"}) {
			t.Errorf("repeated field: %q", got)
		}
	}
}

func TestReaderSkipsBlocks(t *testing.T) {
	parts := []string{rec("1.1", "a", strings.Repeat("x", 200_000)), rec("1.1", "b", "block b"), rec("1.1", "c", "")}
	for _, in := range []string{strings.Join(parts, ""), gz(parts...)} {
		r := NewReader(strings.NewReader(in))
		r.Strict = true
		if n, err := r.Read(make([]byte, 1)); n != 0 || err != io.EOF {
			t.Errorf("Read before Next: %d, %v", n, err)
		}
		r.Next()
		r.Read(make([]byte, 10))
		rec, err := r.Next()
		if err != nil || rec.Type() != "b" {
			t.Fatal(rec, err)
		}
		if rec, err = r.Next(); err != nil || rec.Type() != "c" {
			t.Fatal(rec, err)
		}
		for range 2 {
			if rec, err = r.Next(); err != io.EOF || rec != nil {
				t.Error(rec, err)
			}
		}
	}
}

// TestReaderTolerance shows what is read unless Strict, and the rule otherwise.
func TestReaderTolerance(t *testing.T) {
	a, b := rec("1.0", "resource", "A"), rec("1.0", "resource", "B")
	for _, c := range []struct {
		name, in string
		rule     string
		blocks   string
	}{
		{"LF only", strings.ReplaceAll(a, "\r\n", "\n") + b, RuleHeader, "A B"},
		{"no line ends between", strings.TrimSpace(a) + b, RuleEnd, "A B"},
		{"one line end between", strings.TrimSpace(a) + "\r\n" + b, RuleEnd, "A B"},
		{"too many line ends", a + "\r\n" + b, RuleVersion, "A B"},
		{"no line ends at the end", a + strings.TrimSpace(b), RuleEnd, "A B"},
		{"line without colon", rec("1.0", "resource", "A", "no colon") + b, RuleHeader, "A B"},
		{"space before colon", rec("1.0", "resource", "A", "X : y") + b, RuleHeader, "A B"},
		{"no name", rec("1.0", "resource", "A", ": y") + b, RuleHeader, "A B"},
		{"Latin-1", rec("1.0", "resource", "A", "X: \xe4") + b, RuleHeader, "A B"},
		{"NUL folded", rec("1.0", "resource", "A", "X: y\r\n \x00") + b, RuleHeader, "A B"},
		{"folded first line", "WARC/1.0\r\n folded\r\n" + strings.TrimPrefix(a, "WARC/1.0\r\n"), RuleHeader, "A"},
		{"version and space", strings.Replace(a, "1.0", "1.0 ", 1), RuleVersion, "A"},
		{"length twice", rec("1.0", "resource", "A", "Content-Length: 1") + b, RuleLength, "A B"},
		{"one member", gz(a + b), RuleMember, "A B"},
		{"line ends in a member of their own", gz(strings.TrimSpace(a), "\r\n\r\n", b), RuleEnd, "A B"},
		{"member ends in the block", gz(a[:len(a)-5], a[len(a)-5:]+b), RuleLength, "A B"},
		{"member ends in the header", gz(a[:20], a[20:], b), RuleHeader, "A B"},
		{"empty member", gz(a, "", b), RuleMember, "A B"},
	} {
		all, err := readAll(strings.NewReader(c.in), false)
		if got := strings.Join(blocks(all), " "); err != nil || got != c.blocks {
			t.Errorf("%s: %q, %v", c.name, got, err)
		}
		_, err = readAll(strings.NewReader(c.in), true)
		if e := (*Error)(nil); !errors.As(err, &e) || e.Rule != c.rule {
			t.Errorf("%s, strict: %v", c.name, err)
		}
	}
}

func TestReaderErrors(t *testing.T) {
	a := rec("1.1", "resource", "block")
	az := gz(a)
	at := strings.Index(az, "a name") + 20
	for _, c := range []struct {
		name, in string
		rule     string
		offset   int
	}{
		{"garbage", "garbage", RuleHeader, 0},
		{"garbage line", "garbage\r\n", RuleVersion, 0},
		{"ARC", "filedesc://x 0.0.0.0 20260101000000 text/plain 76\n1 0 x\n", RuleVersion, 0},
		{"WARC 0.9", "WARC/0.9 10 warcinfo\r\n\r\n", RuleVersion, 0},
		{"WARC 2.0", a + strings.Replace(a, "1.1", "2.0", 1), RuleVersion, len(a)},
		{"cut in the version", a + "WARC/", RuleHeader, len(a)},
		{"cut in the header", a + a[:20], RuleHeader, len(a)},
		{"cut in the block", a + a[:len(a)-6], RuleLength, len(a)},
		{"no length", "WARC/1.1\r\n\r\n\r\n\r\n", RuleLength, 0},
		{"negative length", strings.Replace(a, ": 5", ": -5", 1), RuleLength, 0},
		{"signed length", strings.Replace(a, ": 5", ": +5", 1), RuleLength, 0},
		{"empty length", strings.Replace(a, ": 5", ": ", 1), RuleLength, 0},
		{"hexadecimal length", strings.Replace(a, ": 5", ": 0x5", 1), RuleLength, 0},
		{"length 2^63", strings.Replace(a, ": 5", ": 9223372036854775808", 1), RuleLength, 0},
		{"length 2^63-1", strings.Replace(a, ": 5", ": 9223372036854775807", 1), RuleLength, 0},
		{"two lengths", rec("1.1", "resource", "block", "Content-Length: 4"), RuleLength, 0},
		{"long header", rec("1.1", "resource", "", "X: "+strings.Repeat("x", MaxHeader)), RuleHeader, 0},
		{"gzip: nothing but the magic", az[:2], RuleMember, 0},
		{"gzip: cut in the gzip head", az + az[:9], RuleMember, len(az)},
		{"gzip: cut in the middle", az + az[:at], RuleMember, len(az)},
		{"gzip: cut in the checksum", az + az[:len(az)-1], RuleMember, len(az)},
		{"gzip: member cut before it was compressed", az + gz(a[:len(a)-6], a), RuleLength, len(az)},
		{"gzip: wrong checksum", az + az[:len(az)-8] + "0000" + az[len(az)-4:], RuleMember, len(az)},
		{"gzip: wrong size", az + az[:len(az)-1] + "x" + az, RuleMember, len(az)},
		{"gzip: garbage at the end", az + "garbage and more", RuleMember, len(az)},
		{"gzip: no record in it", az + gz("garbage\r\n"), RuleVersion, len(az)},
	} {
		for _, strict := range []bool{false, true} {
			_, err := readAll(strings.NewReader(c.in), strict)
			e := (*Error)(nil)
			if !errors.As(err, &e) || e.Rule != c.rule || e.Offset != int64(c.offset) {
				t.Errorf("%s (strict %v): %v", c.name, strict, err)
			}
		}
	}
}

func TestReaderErrorIsSticky(t *testing.T) {
	r := NewReader(strings.NewReader("garbage\r\n" + rec("1.1", "resource", "A")))
	_, err := r.Next()
	_, err2 := r.Next()
	_, err3 := r.Read(make([]byte, 1))
	if err == nil || err != err2 || err != err3 {
		t.Error(err, err2, err3)
	}
}

func TestReaderEmpty(t *testing.T) {
	for _, strict := range []bool{false, true} {
		if all, err := readAll(strings.NewReader(""), strict); len(all) != 0 || err != nil {
			t.Error(all, err)
		}
	}
}

// TestReaderInputErrors looks for an error of the input at every place: it must
// come out, and as what it is.
func TestReaderInputErrors(t *testing.T) {
	parts := []string{rec("1.1", "a", "block"), rec("1.1", "b", "")}
	for _, in := range []string{strings.Join(parts, ""), gz(parts...)} {
		for _, boom := range []error{errors.New("boom"), io.ErrUnexpectedEOF} {
			for n := range len(in) + 1 {
				broken := io.MultiReader(strings.NewReader(in[:n]), iotest.ErrReader(boom))
				_, err := readAll(broken, true)
				if e := (*Error)(nil); !errors.Is(err, boom) || errors.As(err, &e) {
					t.Errorf("after %d of %d bytes: %v", n, len(in), err)
				}
			}
		}
	}
}

// zeros is n zero octets.
func zeros(n int64) io.Reader { return io.LimitReader(zeroReader{}, n) }

type zeroReader struct{}

func (zeroReader) Read(p []byte) (int, error) { clear(p); return len(p), nil }

func TestReaderBigBlock(t *testing.T) {
	const n = 1<<32 + 5
	in := io.MultiReader(strings.NewReader(fmt.Sprintf("WARC/1.1\r\nContent-Length: %d\r\n\r\n", int64(n))), zeros(n), strings.NewReader("\r\n\r\n"+rec("1.1", "b", "B")))
	r := NewReader(in)
	r.Strict = true
	a, err := r.Next()
	if err != nil || a.Length != n {
		t.Fatal(a, err)
	}
	b, err := r.Next()
	if err != nil || b.Type() != "b" || b.Offset < n {
		t.Fatal(b, err)
	}
}

// TestReaderBigReads reads past the buffers of the Reader.
func TestReaderBigReads(t *testing.T) {
	const n = 300_000
	in := fmt.Sprintf("WARC/1.1\r\nContent-Length: %d\r\n\r\n", n) + string(noise(n))
	for name, in := range map[string]string{"plain": in, "gzip": gz(in)} {
		r := NewReader(&hiccup{strings.NewReader(in), len(in), io.EOF})
		if _, err := r.Next(); err != nil {
			t.Fatal(err)
		}
		var all []byte
		buf := make([]byte, n)
		for {
			m, err := r.Read(buf)
			all = append(all, buf[:m]...)
			if err == io.EOF {
				break
			}
			if err != nil {
				t.Fatalf("%s: after %d octets: %v", name, len(all), err)
			}
		}
		if !bytes.Equal(all, noise(n)) {
			t.Errorf("%s: other octets", name)
		}
	}
}

// A hiccup gives an error together with octets, once.
type hiccup struct {
	io.Reader
	at  int
	err error
}

func (h *hiccup) Read(p []byte) (int, error) {
	n, err := h.Reader.Read(p)
	if h.at -= n; h.at <= 0 && h.err != nil {
		err, h.err = h.err, nil
	}
	return n, err
}

func TestReaderHiccup(t *testing.T) {
	boom := errors.New("boom")
	in := rec("1.1", "a", strings.Repeat("x", 500_000))
	r := NewReader(&hiccup{strings.NewReader(in), 200_000, boom})
	if _, err := r.Next(); err != nil {
		t.Fatal(err)
	}
	if n, err := io.CopyBuffer(struct{ io.Writer }{io.Discard}, r, make([]byte, 100_000)); !errors.Is(err, boom) {
		t.Error(n, err)
	}
}
