package check_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
	"github.com/warctee/warctee/warc"
	"github.com/warctee/warctee/warc/check"
)

// pieces are five records in that compression, each by itself; the first has what
// the file starts with.
func pieces(t *testing.T, opts warc.WriterOptions) [][]byte {
	t.Helper()
	var out bytes.Buffer
	w := warc.NewWriter(&out, opts)
	var all [][]byte
	r := rand.New(rand.NewPCG(1, 2))
	for i := range 5 {
		block := make([]byte, 3000)
		for i := range block {
			block[i] = "WARC/1.1\r\n \x1f\x8b\x08\x28\xb5\x2f\xfd"[r.IntN(18)]
		}
		h := warc.Header{{Name: "WARC-Type", Value: "resource"}, {Name: "WARC-Record-ID", Value: id(fmt.Sprint("f", i))}, {Name: "WARC-Date", Value: "2026-01-02T03:04:05Z"},
			{Name: "WARC-Target-URI", Value: "http://example.org/"}, {Name: "Content-Type", Value: "text/plain"}}
		if i > 0 {
			h.Add("WARC-Concurrent-To", id(fmt.Sprint("f", i-1)))
		}
		sum := warc.SHA1.New()
		sum.Write(block)
		h.Add("WARC-Block-Digest", warc.SHA1.Format(sum.Sum(nil)))
		start := out.Len()
		if err := w.WriteRecord(h, bytes.NewReader(block), int64(len(block))); err != nil {
			t.Fatal(err)
		}
		all = append(all, bytes.Clone(out.Bytes()[start:]))
	}
	return all
}

var forms = []struct {
	name string
	opts warc.WriterOptions
}{
	{"a.warc", warc.WriterOptions{Compression: warc.Plain}}, {"a.warc.gz", warc.WriterOptions{}},
	{"a.warc.gz", warc.WriterOptions{SkipLengths: true}}, {"a.warc.zst", warc.WriterOptions{Compression: warc.Zstd}},
}

// withDictionary adds a form, of zstd with a dictionary.
func withDictionary(t *testing.T) (all []struct {
	name string
	opts warc.WriterOptions
}) {
	t.Helper()
	var samples [][]byte
	for i := range 200 {
		samples = append(samples, []byte(record("1.1", fmt.Sprint("block ", i, strings.Repeat(" and more", i%7)), lines("resource", fmt.Sprint(i), target)...)))
	}
	d, err := warc.TrainDictionary(samples, 4<<10)
	if err != nil {
		t.Fatal(err)
	}
	all = slices.Clone(forms)
	return append(all, struct {
		name string
		opts warc.WriterOptions
	}{"a.warc.zst", warc.WriterOptions{Compression: warc.Zstd, Dictionary: d}})
}

func writeFile(t *testing.T, name string, b []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestDamage destroys the third of five records: the others are checked, and the
// fourth still finds the one that it names, where its header could be read.
func TestDamage(t *testing.T) {
	for _, form := range withDictionary(t) {
		whole := pieces(t, form.opts)
		wantWarnings(t, form.name, "warcinfo", writeFile(t, form.name, bytes.Join(whole, nil)))
		offset := int64(len(whole[0]) + len(whole[1]))
		for name, change := range map[string]func([]byte) []byte{
			"zeroed":       func(b []byte) []byte { return make([]byte, len(b)) },
			"start zeroed": func(b []byte) []byte { clear(b[:8]); return b },
			"cut":          func(b []byte) []byte { return b[:len(b)/2] },
			"in the block": func(b []byte) []byte { clear(b[len(b)-40 : len(b)-10]); return b },
		} {
			broken := slices.Clone(whole)
			broken[2] = change(bytes.Clone(whole[2]))
			findings, result := run(t, check.Options{}, writeFile(t, form.name, bytes.Join(broken, nil)))
			if name == "in the block" && form.opts.Compression == warc.Plain { // which nothing but the digest tells
				expect(t, form.name, findings, id("f2"), "block-digest", "warcinfo")
				continue
			}
			got := result.Files[0]
			if got.Records != 4 || got.Errors != 1 || got.Skipped != int64(len(broken[2])) {
				t.Errorf("%s, %s: %+v, %v", form.name, name, got, findings)
			}
			i := slices.IndexFunc(findings, func(f check.Finding) bool { return f.Severity == check.Error })
			next := fmt.Sprintf("the check goes on at offset %d", offset+int64(len(broken[2])))
			if i < 0 || findings[i].Offset != offset || !strings.Contains(findings[i].Message, next) {
				t.Errorf("%s, %s: %v, want %q", form.name, name, findings, next)
			}
			known := name == "in the block" && form.opts.Compression == warc.Gzip || name == "cut" && form.opts.Compression == warc.Plain
			missing := slices.ContainsFunc(findings, func(f check.Finding) bool { return f.Rule == check.RuleConcurrentNone })
			if known && missing {
				t.Errorf("%s, %s: %v", form.name, name, findings)
			}
		}
	}
}

// TestCut cuts a file everywhere in its last two records.
func TestCut(t *testing.T) {
	for _, form := range forms {
		whole := pieces(t, form.opts)
		file := bytes.Join(whole, nil)
		last := len(file) - len(whole[4])
		for _, size := range []int{last + 1, last + 2, last + 3, last + 4, last + 12, last + 100, last + 300, last + len(whole[4])/2, len(file) - 9, len(file) - 5} {
			findings, result := run(t, check.Options{}, writeFile(t, form.name, file[:size]))
			if result.All.Records != 4 || result.All.Errors != 1 || findings[len(findings)-1].Rule != check.RuleCut || findings[len(findings)-1].Offset != int64(last) {
				t.Errorf("%s, %d of %d bytes, the last record is at %d: %+v, %v", form.name, size, len(file), last, result.All, findings)
			}
		}
		if _, result := run(t, check.Options{}, writeFile(t, form.name, file[:last])); result.All.Errors != 0 || result.All.Records != 4 {
			t.Errorf("%s: cut between two records: %+v", form.name, result.All)
		}
	}
}

// TestManyFaults: a file whose records all have the same flaw is checked to its
// end.
func TestManyFaults(t *testing.T) {
	const n = 3000
	for name, flaw := range map[string]func(string) string{
		check.RuleNotChecked: nil,
		warc.RuleHeader:      func(s string) string { return strings.Replace(s, "\r\nWARC-Date", "\nWARC-Date", 1) },
		warc.RuleEnd:         func(s string) string { return strings.TrimSuffix(s, "\r\n") },
		warc.RuleVersion:     func(s string) string { return s + "\r\n" },
	} {
		var file strings.Builder
		for i := range n {
			if flaw == nil { // a length up to the end, in each
				file.WriteString("WARC/1.1\r\nContent-Length: 10000000\r\n\r\n")
				continue
			}
			file.WriteString(flaw(record("1.1", "block", lines("resource", fmt.Sprint("x", i), target, "Content-Type: text/plain")...)))
		}
		o := check.Options{MaxFindings: 10}
		if flaw == nil {
			file.WriteString(strings.Repeat(file.String(), 8)) // far more than is forgiven
		}
		findings, result := run(t, o, writeFile(t, "a.warc", []byte(file.String())))
		i := slices.IndexFunc(result.All.Rules, func(c check.Count) bool { return c.Rule == name })
		if i < 0 {
			t.Errorf("%s: %+v", name, result.All)
			continue
		}
		if c := result.All.Rules[i]; flaw != nil && (c.Findings < n-1 || c.Hidden != c.Findings-10 || result.All.Records != n || len(result.All.Rules) != 2) {
			t.Errorf("%s: %+v, %v", name, result.All, findings)
		}
	}
}

// TestManyRecords has more facts than are sorted in memory.
func TestManyRecords(t *testing.T) {
	const n = 21_000
	var file strings.Builder
	file.WriteString(first)
	for i := range n {
		number := i
		if i == n-1 {
			number = 0 // once more
		}
		file.WriteString(record("1.1", "", lines("resource", fmt.Sprintf("y%d", number), target, "WARC-Concurrent-To: "+id(fmt.Sprintf("y%d", max(i-1, 0)+i/5000*100_000)))...))
	}
	path := writeFile(t, "a.warc", []byte(file.String()))
	temp := t.TempDir()
	findings, result := run(t, check.Options{TempDir: temp, MaxFindings: 20}, path)
	want := map[string]int64{check.RuleUniqueID: 1, check.RuleConcurrentTo: 1, check.RuleConcurrentNone: n - 5000}
	for _, c := range result.All.Rules {
		if c.Findings != want[c.Rule] || c.Hidden != max(c.Findings-20, 0) {
			t.Errorf("%+v, want %d", c, want[c.Rule])
		}
	}
	if len(result.All.Rules) != len(want) || len(findings) != 22 {
		t.Errorf("%d findings, %+v", len(findings), result.All)
	}
	if !slices.IsSortedFunc(findings, func(a, b check.Finding) int { return int(a.Offset - b.Offset) }) {
		t.Error("the findings are not in order")
	}
	if left, err := os.ReadDir(temp); err != nil || len(left) != 0 {
		t.Errorf("left in the temporary directory: %v, %v", left, err)
	}
	if _, err := check.Run(t.Context(), []string{path}, check.Options{TempDir: path}, func(check.Finding) {}); err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("a temporary directory that is none: %v", err)
	}
}

// TestJobs: whoever comes first, the findings are the same; progress adds up, and
// a file that cannot be read does not keep the others from being checked.
func TestJobs(t *testing.T) {
	ar := good(warc.WriterOptions{Compression: warc.Plain}, warc.SHA256) // one file takes several reads
	ar.get("12").h.Set("WARC-Date", "never")
	ar.get("92").h.Set("WARC-Concurrent-To", id("ff"))
	ar.get("b1").h.Set("WARC-Block-Digest", "sha1:"+sha1Of("other"))
	paths := ar.write(t)
	var size int64
	for _, path := range paths {
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		size += info.Size()
	}
	var want []check.Finding
	for jobs := range 5 {
		read := make(chan int64, 10_000)
		findings, result := run(t, check.Options{Jobs: jobs, Progress: func(n int64) { read <- n }}, paths...)
		if jobs == 0 {
			want = findings
		}
		if len(findings) < 4 || !reflect.DeepEqual(findings, want) {
			t.Errorf("%d jobs: %v, want %v", jobs, findings, want)
		}
		close(read)
		sum := int64(0)
		for n := range read {
			sum += n
		}
		if sum != size || result.All.Bytes != size {
			t.Errorf("progress of %d, %d of %d bytes", sum, result.All.Bytes, size)
		}
	}
	none := filepath.Join(t.TempDir(), "none.warc")
	var findings []check.Finding
	result, err := check.Run(t.Context(), slices.Insert(paths, 1, none), check.Options{}, func(f check.Finding) { findings = append(findings, f) })
	if !errors.Is(err, os.ErrNotExist) || !reflect.DeepEqual(findings, want) || len(result.Files) != 5 {
		t.Errorf("with a file that is missing: %v, %v", err, findings)
	}
}

func TestCancel(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	paths := good(warc.WriterOptions{}, warc.SHA256).write(t)
	cancel()
	if _, err := check.Run(ctx, paths, check.Options{}, func(f check.Finding) { t.Error(f) }); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

func TestOptions(t *testing.T) {
	ar := good(warc.WriterOptions{}, warc.SHA256)
	e := ar.get("12")
	_, e.payload, _ = strings.Cut(e.block, "\r\n\r\n") // with its chunk framing
	for _, n := range []string{"52", "72"} {
		ar.get(n).payload = e.payload
	}
	paths := ar.write(t)
	findings, _ := run(t, check.Options{}, paths...)
	expect(t, "framing in a payload digest", findings, id("12"), "payload-digest", "")
	if len(findings) > 0 && !strings.Contains(findings[0].Message, "--digest-compat raw") {
		t.Errorf("%v does not name the flag", findings[0])
	}
	findings, _ = run(t, check.Options{RawDigests: true}, paths...)
	expect(t, "framing in a payload digest, accepted", findings, id("12"), "", "")

	for _, n := range []string{"c", "d"} { // the other segments, and what is referred to
		for complete, want := range map[bool]check.Severity{false: check.Warning, true: check.Error} {
			paths := good(warc.WriterOptions{}, warc.SHA256).write(t)
			paths = slices.DeleteFunc(paths, func(p string) bool {
				return strings.HasPrefix(filepath.Base(p), n+".") || strings.HasPrefix(filepath.Base(p), "a.")
			})
			findings, _ := run(t, check.Options{Complete: complete}, paths...)
			if len(findings) != 2 { // one of a revisit, one of a segment
				t.Errorf("without a and %s: %v", n, findings)
			}
			for _, f := range findings {
				if f.Severity != want {
					t.Errorf("complete: %v: %v", complete, f)
				}
			}
		}
	}
}

// TestFound has what only the profile standard looks at, or other writers do.
func TestFound(t *testing.T) {
	request := func(block string, more ...string) string {
		return record("1.1", block, lines("request", "2", append([]string{target, "Content-Type: application/http; msgtype=request"}, more...)...)...)
	}
	const post = "POST / HTTP/1.1\r\nContent-Length: 1\r\n\r\nx" // without Host
	var types strings.Builder
	for i := range 200 {
		types.WriteString(record("1.1", "", lines(fmt.Sprint("type", i), fmt.Sprint("t", i))...))
	}
	for _, c := range []struct{ name, file, rules string }{
		{"body of a HEAD, only the request names the response", first + response("HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx") + request("HEAD / HTTP/1.1\r\nHost: x\r\n\r\n", "WARC-Concurrent-To: "+id("12")), "http-body"},
		{"no body to a GET, likewise", first + response("HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n") + request("GET / HTTP/1.1\r\nHost: x\r\n\r\n", "WARC-Concurrent-To: "+id("12")), "truncated"},
		{"no body to a request of which nothing is known", first + response("HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n", "WARC-Concurrent-To: "+id("2")) + request("junk"), "http-head"},
		{"malformed request", first + request(post, payloadDigest("x")), "http-head"},
		{"malformed request, whose payload has another digest", first + request(post, payloadDigest("y")), "http-head payload-digest"},
		{"a lower-case method in HTTP/2", first + request("get / HTTP/2\r\nContent-Length: 1\r\n\r\nx", payloadDigest("y")), "http-head http-version payload-digest"},
		{"interim responses without end", first + response(strings.Repeat("HTTP/1.1 100 Continue\r\n\r\n", 30)), "http-head interim"},
		{"1.0 with a fraction of a second", strings.Replace(strings.ReplaceAll(first, "WARC/1.1", "WARC/1.0"), "05Z", "05.1Z", 1), "date"},
		{"0.18 with a date of 1.1", strings.Replace(strings.ReplaceAll(first, "WARC/1.1", "WARC/0.18"), "-02T03:04:05Z", "-02", 1), "date"},
		{"many types", first + types.String(), ""},
		{"a warcinfo of a file before", first + record("1.1", "", lines("metadata", "1", "WARC-Warcinfo-ID: "+id("1"))...), "warcinfo-id"},
	} {
		findings, result := run(t, check.Options{}, writeFile(t, "a.warc", []byte(c.file)))
		var got []string
		for _, f := range findings {
			got = append(got, f.Rule)
		}
		slices.Sort(got)
		if strings.Join(got, " ") != c.rules || len(result.All.Types) > 70 {
			t.Errorf("%s: broken rules %q, want %q: %v, %d types", c.name, got, c.rules, findings, len(result.All.Types))
		}
	}
}

// TestClauses: a finding cites the text of its record's version.
func TestClauses(t *testing.T) {
	for version, want := range map[string]string{"1.1": "WARC 1.1 §5.10 WARC 1.1 §5.14", "1.0": "WARC 1.0 §5.10 WARC 1.0 §5.12", "0.18": "WARC 0.18 §5.10 WARC 0.18 §5.12"} {
		file := record(version, "", lines("resource", "1", "WARC-IP-Address: x", "WARC-Target-URI: x")...)
		findings, _ := run(t, check.Options{}, writeFile(t, "a.warc", []byte(file)))
		var got []string
		for _, f := range findings {
			if f.Severity == check.Error {
				got = append(got, f.Clause)
			}
		}
		slices.Sort(got)
		if strings.Join(got, " ") != want {
			t.Errorf("%s: clauses %q, want %s", version, got, want)
		}
	}
}

// TestFrameHeads: the frames of writers that compress records as they come, GNU
// Wget of ArchiveTeam and gowarc, have no content size.
func TestFrameHeads(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.warc.zst")
	var file bytes.Buffer
	for _, r := range []string{first, response("HTTP/1.1 200 OK\r\n\r\nx", payloadDigest("x"))} {
		z, err := zstd.NewWriter(&file, zstd.WithSingleSegment(false))
		if err != nil {
			t.Fatal(err)
		}
		io.WriteString(z, r[:len(r)/2])
		z.Flush()
		io.WriteString(z, r[len(r)/2:])
		z.Close()
	}
	if err := os.WriteFile(path, file.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	wantWarnings(t, "frames", "frame-head frame-head", path)
	findings, _ := run(t, check.Options{Profile: check.Warctee}, path)
	if !slices.ContainsFunc(findings, func(f check.Finding) bool { return f.Rule == check.RuleFrameHead && f.Severity == check.Error }) {
		t.Errorf("%v", findings)
	}
}
