package convert

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/warctee/warctee/arc"
	"github.com/warctee/warctee/archive"
	"github.com/warctee/warctee/http1"
	"github.com/warctee/warctee/warc"
)

// namespace is that of the record ids made here (RFC 9562 §5.5).
var namespace = uuid.NewSHA1(uuid.NameSpaceURL, []byte("https://github.com/warctee/warctee/convert"))

// newID returns the WARC-Record-ID that stands for these words, always the same.
func newID(words ...string) string {
	return "<" + uuid.NewSHA1(namespace, []byte(strings.Join(words, "\n"))).URN() + ">"
}

// An arcJob is the conversion of an ARC file.
type arcJob struct {
	*job
	in       *arc.Reader
	created  time.Time // of the file; zero: not known
	warcinfo string    // its id; "": none was written
	waiting  *source   // the description of the file, which has no date; nil: there is none
}

// ARC writes the records of an ARC file to out, as those of a WARC file. After an
// error what was written is of no use. Damage of the input is an [*arc.Error].
func ARC(ctx context.Context, out io.Writer, in io.Reader, o Options) (Result, error) {
	if o.Version == "" {
		o.Version = warc.V1_1
	}
	j := &arcJob{job: newJob(ctx, out, o), in: arc.NewReader(in)}
	err := j.records()
	if err == nil && j.done.Read == 0 {
		err = ErrNoRecords
	}
	return j.result(), err
}

func (j *arcJob) records() error {
	for {
		if err := j.ctx.Err(); err != nil {
			return err
		}
		rec, err := j.in.Next()
		if err == io.EOF && j.waiting != nil {
			return errors.New("it holds the description of the file alone, without a date that can be read")
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		j.done.Read++
		if err := j.record(rec); err != nil {
			var damage *arc.Error
			if errors.As(err, &damage) {
				return damage
			}
			return fmt.Errorf("record at offset %d, %.200s: %w", rec.Offset, rec.URL, err)
		}
	}
}

// A source is a record of an ARC file that was read.
type source struct {
	*arc.Record
	block  *spool
	excess int64
	digest string // of the block
	date   time.Time
	exact  bool // its date can be written as it is
	id     string
}

func (j *arcJob) record(rec *arc.Record) error {
	defer j.spool.reset()
	s := source{Record: rec, block: &j.spool}
	sum := sha256.New()
	if _, err := io.Copy(io.MultiWriter(s.block, sum), j.in); err != nil {
		return err
	}
	s.excess = j.in.Excess()
	if rec.Damage != nil {
		j.found(rec.Offset, fmt.Sprintf("%.200s: its line is damaged: %v; the block has %d octets, to where the next record starts", rec.URL, rec.Damage, s.block.size))
	} else if s.excess != 0 {
		j.found(rec.Offset, fmt.Sprintf("%.200s: the block has %d octets, and not %d as its line tells; all of them are kept", rec.URL, s.block.size, rec.Length))
	}
	s.digest = warc.SHA256.Format(sum.Sum(nil))
	s.id = newID(j.From, strconv.FormatInt(j.done.Read, 10), rec.Line, s.digest)
	var err error
	if s.date, err = rec.Time(); err != nil {
		if rec.Filedesc() && j.done.Read == 1 {
			return j.wait(&s)
		}
		if s.date = j.created; s.date.IsZero() {
			return fmt.Errorf("%w, and the file has no date that could stand for it", err)
		}
		j.found(rec.Offset, fmt.Sprintf("%.200s: %.40q is no date; the record gets that of the file", rec.URL, rec.Date))
	} else {
		s.exact = len(rec.Date) == 14 || len(rec.Date) == 17 && j.Version == warc.V1_1
	}
	if rec.Filedesc() {
		return j.filedesc(&s)
	}
	if err := j.describe(&s); err != nil {
		return err
	}
	return j.capture(&s)
}

// wait keeps the description of the file until the first capture gives it a date.
func (j *arcJob) wait(s *source) error {
	if s.block.size > maxWaiting {
		return fmt.Errorf("it describes the file in more than %d octets, and has no date that can be read", maxWaiting)
	}
	own, block := *s.Record, &spool{dir: s.block.dir}
	if _, err := io.Copy(block, s.block.reader()); err != nil {
		return err
	}
	s.Record, s.block, j.waiting = &own, block, s
	return nil
}

// maxWaiting bounds a description that waits for a date, in octets. It is held in memory.
const maxWaiting = 64 << 10

// describe writes what describes the file before its first capture, unless it was
// written.
func (j *arcJob) describe(first *source) error {
	switch s := j.waiting; {
	case j.warcinfo != "":
		return nil
	case s != nil:
		j.waiting, s.date = nil, first.date
		j.found(s.Offset, fmt.Sprintf("%.200s: %.40q is no date; the record gets that of the first capture", s.URL, s.Date))
		return j.filedesc(s)
	}
	return j.writeInfo(first)
}

// filedesc writes the record that describes the file: a warcinfo, and as it is.
func (j *arcJob) filedesc(s *source) error {
	j.created = s.date
	if err := j.writeInfo(s); err != nil {
		return err
	}
	return j.asItWas(s, j.warcinfo, io.MultiReader(strings.NewReader(s.Line+"\n"), s.block.reader()))
}

// writeInfo writes the warcinfo, with the date of s.
func (j *arcJob) writeInfo(s *source) error {
	block := fmt.Sprintf("software: %s\r\nformat: %s\r\nconformsTo: %s\r\nisFormatOf: %s\r\n", j.Software, format(j.Version), conformsTo(j.Version), fieldText(j.From))
	j.warcinfo = newID("warcinfo", s.id)
	h := warc.Header{
		{Name: "WARC-Type", Value: warc.TypeWarcinfo},
		{Name: "WARC-Record-ID", Value: j.warcinfo},
		{Name: "WARC-Date", Value: j.formatDate(s.date)},
		{Name: "WARC-Filename", Value: fieldText(j.To)},
		{Name: "WARC-Block-Digest", Value: digest(warc.SHA256, []byte(block)).String()},
		{Name: "Content-Type", Value: "application/warc-fields"},
	}
	return j.add(h, strings.NewReader(block), int64(len(block)))
}

// asItWas writes a metadata record about another, with what is in an ARC file.
func (j *arcJob) asItWas(s *source, about string, text io.Reader) error {
	block, err := io.ReadAll(io.LimitReader(text, maxInfo+1))
	if err != nil {
		return err
	}
	if len(block) > maxInfo {
		return fmt.Errorf("it describes the file in more than %d octets", maxInfo)
	}
	h := warc.Header{
		{Name: "WARC-Type", Value: warc.TypeMetadata},
		{Name: "WARC-Record-ID", Value: newID("metadata", s.id)},
		{Name: "WARC-Date", Value: j.formatDate(s.date)},
		{Name: "WARC-Target-URI", Value: targetURI(s.URL)},
		{Name: "WARC-Refers-To", Value: about},
		{Name: "WARC-Block-Digest", Value: digest(warc.SHA256, block).String()},
		{Name: "Content-Type", Value: "text/plain"},
		{Name: "WARC-Warcinfo-ID", Value: j.warcinfo},
	}
	return j.add(h, bytes.NewReader(block), int64(len(block)))
}

// maxInfo bounds the description of a file, in octets.
const maxInfo = 16 << 20

// capture writes what an origin sent, as a response or a resource, and the line
// of the record where these cannot hold all of it.
func (j *arcJob) capture(s *source) error {
	uri := targetURI(s.URL)
	h := warc.Header{
		{Name: "WARC-Type", Value: warc.TypeResource},
		{Name: "WARC-Record-ID", Value: s.id},
		{Name: "WARC-Date", Value: j.formatDate(s.date)},
		{Name: "WARC-Target-URI", Value: uri},
	}
	address, known := addressOf(s.IP)
	if address != "" {
		h.Add("WARC-IP-Address", address)
	}
	h.Add("WARC-Block-Digest", s.digest)
	var v view
	if isHTTP(s.URL, s.block) {
		h.Set("WARC-Type", warc.TypeResponse)
		var err error
		if v, err = j.viewHTTP(h, s); err != nil {
			return err
		}
	} else {
		v.payload = s.digest
		v.content, v.told = contentType(s.URL, s.Type)
	}
	if v.payload != "" {
		h.Add("WARC-Payload-Digest", v.payload)
	}
	h.Add("Content-Type", v.content)
	if s.excess < 0 && !v.whole {
		h.Add("WARC-Truncated", "unspecified")
	}
	h.Add("WARC-Warcinfo-ID", j.warcinfo)
	if err := j.add(h, s.block.reader(), s.block.size); err != nil {
		return err
	}
	if uri == s.URL && known && v.told && s.exact && s.excess == 0 && s.Damage == nil && s.Result == "" {
		return nil
	}
	return j.asItWas(s, s.id, strings.NewReader(s.Line+"\n"))
}

// A view is what a block is seen to be.
type view struct {
	content string // Content-Type
	payload string // its digest; "": it is not clear what it is
	told    bool   // the media type is the one that the line tells
	whole   bool   // the block says itself that all of it is there
}

// viewHTTP looks at a block that is an HTTP response.
func (j *arcJob) viewHTTP(h warc.Header, s *source) (view, error) {
	v := view{content: "application/http; msgtype=response"}
	rec := warc.Record{Version: j.Version, Length: s.block.size, Header: append(h[:len(h):len(h)], warc.Field{Name: "Content-Type", Value: v.content})}
	m, err := archive.ReadMessage(&rec, s.block.reader())
	if err == nil {
		v.told = m.MediaType() == http1.MediaType(s.Type) || m.MediaType() == "" && s.Type == "no-type"
		hash := sha256.New()
		_, err = io.Copy(hash, m.Payload())
		if err == nil || errors.Is(err, io.ErrUnexpectedEOF) { // the digest is that of what is there
			v.payload = warc.SHA256.Format(hash.Sum(nil))
			v.whole = err == nil && m.Response.Framing.Kind != http1.UntilClose && len(m.Flaws()) == 0
			return v, nil
		}
	}
	if bad := (*http1.Error)(nil); errors.As(err, &bad) {
		j.found(s.Offset, fmt.Sprintf("%.200s: %v; the response gets no WARC-Payload-Digest", s.URL, err))
		return v, nil
	}
	return v, err
}

// add writes a record that is made here.
func (j *arcJob) add(h warc.Header, block io.Reader, length int64) error {
	h.Add("Content-Length", strconv.FormatInt(length, 10))
	header, err := h.Encode(nil, j.Version)
	if err != nil {
		return err
	}
	return j.write(header, block, length)
}

// formatDate returns a WARC-Date that is no finer than what is known.
func (j *arcJob) formatDate(t time.Time) string {
	if t.Nanosecond() == 0 {
		return warc.FormatDate(t, warc.V1_0)
	}
	return warc.FormatDate(t, j.Version)
}

// addressOf returns the WARC-IP-Address of what an ARC file has, "" for none, and
// whether nothing is lost by that.
func addressOf(s string) (address string, known bool) {
	if s == "0" || s == "0.0.0.0" || s == "-" {
		return "", true
	}
	a, err := netip.ParseAddr(s)
	if err != nil || a.Zone() != "" {
		return "", false
	}
	return a.String(), true
}

// isHTTP reports whether the block is an HTTP response, also one that nobody
// understands (WARC 1.1 §6.3.2).
func isHTTP(url string, block *spool) bool {
	scheme, _, _ := strings.Cut(url, ":")
	if !strings.EqualFold(scheme, "http") && !strings.EqualFold(scheme, "https") {
		return false
	}
	start := make([]byte, len("HTTP/"))
	n, _ := io.ReadFull(block.reader(), start)
	return strings.EqualFold(string(start[:n]), "HTTP/")
}

var mediaTypes = regexp.MustCompile(`^[!#$%&'*+.^_|~0-9A-Za-z-]+/[!#$%&'*+.^_|~0-9A-Za-z-]+(?:\s*;[ -~]*)?$`)

// contentType returns the Content-Type of a resource, and whether it is what the
// line of the record tells. That of the dns scheme is text/dns (WARC 1.1 §6.4.4).
func contentType(url, told string) (content string, same bool) {
	scheme, _, _ := strings.Cut(url, ":")
	switch {
	case strings.EqualFold(scheme, "dns"):
		return "text/dns", told == "text/dns"
	case mediaTypes.MatchString(told):
		return told, true
	}
	return "application/octet-stream", told == "no-type"
}

// fieldText returns a file name as it can be in a field: UTF-8 without control
// characters.
func fieldText(name string) string {
	return strings.Map(func(c rune) rune {
		if c < ' ' || c >= 0x7f && c < 0xa0 || c == '\uFFFD' {
			return '_'
		}
		return c
	}, strings.TrimSpace(strings.ToValidUTF8(name, "_")))
}
