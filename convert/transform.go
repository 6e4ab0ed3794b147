package convert

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/warctee/warctee/archive"
	"github.com/warctee/warctee/http1"
	"github.com/warctee/warctee/warc"
)

// A Transform makes conversion records (WARC 1.1 §6.8) of the payloads of a media
// type: of the responses and resources that are whole and not segmented.
type Transform struct {
	Command []string      // a program and its arguments: the decoded payload is its input, the result its output
	Type    string        // which media type, as the origin declared it: image/x-bmp, or image/*
	NewType string        // that of the result
	Date    time.Time     // of the conversion records
	Timeout time.Duration // for each payload; default 1 minute
	MaxSize int64         // of a result, in octets; default 1 GiB
}

const (
	defaultTimeout = time.Minute
	defaultMaxSize = 1 << 30

	// waitDelay is how long what a program has started may hold its output open
	// after it has ended or was killed.
	waitDelay = 5 * time.Second

	maxSaid = 1 << 10 // octets of what a program says that are told
)

// What is not transformed, as it is counted.
const (
	skippedTruncated = "records not converted: truncated"
	skippedPartial   = "records not converted: partial (206)"
	skippedSegment   = "records not converted: segmented"
	skippedEmpty     = "records not converted: without a payload"
	skippedHead      = "records not converted: with an HTTP head that nobody understands"
	skippedCoding    = "records not converted: with a payload that cannot be decoded"
	skippedFailed    = "records not converted: for which the command failed"
)

// wants reports whether a record is of a type that can be transformed.
func (t *Transform) wants(rec *warc.Record) bool {
	return rec.Type() == warc.TypeResponse || rec.Type() == warc.TypeResource
}

func (t *Transform) matches(media string) bool {
	want := strings.ToLower(t.Type)
	if group, ok := strings.CutSuffix(want, "/*"); ok {
		media, _, _ = strings.Cut(media, "/")
		return media == group
	}
	return media == want
}

// transform writes the conversion record of rec, whose block is in the spool. The
// header is the one that was written.
func (j *job) transform(rec *warc.Record, header []byte) error {
	skip := func(reason, what string) error {
		j.left.add(reason)
		if what != "" {
			j.found(rec.Offset, rec.ID()+": "+what)
		}
		return nil
	}
	m, err := archive.ReadMessage(rec, j.spool.reader())
	if bad := (*http1.Error)(nil); errors.As(err, &bad) {
		return skip(skippedHead, "")
	}
	if err != nil {
		return err
	}
	if !j.Transform.matches(m.MediaType()) {
		return nil
	}
	switch {
	case rec.Header.Get("WARC-Segment-Number") != "":
		return skip(skippedSegment, "")
	case rec.Header.Get("WARC-Truncated") != "":
		return skip(skippedTruncated, "")
	case m.Response != nil && m.Response.Status == 206:
		return skip(skippedPartial, "")
	}
	payload, err := m.Decoded()
	if err == io.EOF {
		return skip(skippedEmpty, "")
	}
	if err != nil {
		return skip(skippedCoding, err.Error())
	}
	start := bufio.NewReader(payload)
	if _, err := start.Peek(1); err == io.EOF {
		return skip(skippedEmpty, "")
	}
	in, result := &input{r: start}, &spool{dir: j.TempDir}
	defer result.reset()
	err = j.Transform.run(j.ctx, in, result)
	switch {
	case j.ctx.Err() != nil:
		return j.ctx.Err()
	case result.err != nil:
		return result.err
	case in.err != nil:
		return skip(skippedCoding, in.err.Error())
	case err != nil:
		return skip(skippedFailed, err.Error())
	}
	return j.conversion(rec, header, result)
}

// An input remembers the error of r, but for io.EOF.
type input struct {
	r   io.Reader
	err error
}

func (i *input) Read(p []byte) (int, error) {
	n, err := i.r.Read(p)
	if err != nil && err != io.EOF {
		i.err = err
	}
	return n, err
}

// run runs the command. An error is about this payload.
func (t *Transform) run(ctx context.Context, in io.Reader, result *spool) error {
	timeout, maxSize := t.Timeout, t.MaxSize
	if timeout == 0 {
		timeout = defaultTimeout
	}
	if maxSize == 0 {
		maxSize = defaultMaxSize
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	var said limited
	said.max = maxSaid
	out := &limited{w: result, max: maxSize, over: cancel}
	cmd := exec.CommandContext(ctx, t.Command[0], t.Command[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr, cmd.WaitDelay = in, out, &said, waitDelay
	err := cmd.Run()
	switch {
	case out.full:
		return fmt.Errorf("%s: the result has more than %d octets", t.Command[0], maxSize)
	case ctx.Err() == context.DeadlineExceeded:
		return fmt.Errorf("%s: no result within %v", t.Command[0], timeout)
	case err != nil:
		text := strings.TrimSpace(strings.Map(visible, said.kept.String()))
		return fmt.Errorf("%s: %w: %q", t.Command[0], err, text)
	case result.size == 0:
		return fmt.Errorf("%s: the result is empty", t.Command[0])
	}
	return nil
}

func visible(c rune) rune {
	if c < ' ' || c == 0x7f {
		return ' '
	}
	return c
}

// limited passes on so much to w, or keeps it when there is no w, and calls over
// when there is more.
type limited struct {
	w    io.Writer
	kept bytes.Buffer
	max  int64
	full bool
	over func()
}

func (l *limited) Write(p []byte) (int, error) {
	part := p[:min(int64(len(p)), l.max)]
	l.max -= int64(len(part))
	if len(part) < len(p) && !l.full {
		if l.full = true; l.over != nil {
			l.over()
		}
	}
	if l.w == nil {
		l.kept.Write(part)
		return len(p), nil
	}
	if _, err := l.w.Write(part); err != nil {
		return 0, err
	}
	return len(p), nil
}

// conversion writes a conversion record. It is of the version of the record that
// it refers to, and has its Warcinfo-ID.
func (j *job) conversion(rec *warc.Record, written []byte, result *spool) error {
	source, err := warc.NewReader(bytes.NewReader(written)).Next()
	if err != nil {
		return err
	}
	version := source.Version
	if version != warc.V1_0 && version != warc.V1_1 {
		version = warc.V1_0
	}
	sum := warc.SHA256.New()
	if _, err := io.Copy(sum, result.reader()); err != nil {
		return err
	}
	value := warc.SHA256.Format(sum.Sum(nil))
	date := warc.FormatDate(j.Transform.Date, version)
	h := warc.Header{
		{Name: "WARC-Type", Value: warc.TypeConversion},
		{Name: "WARC-Record-ID", Value: newID("conversion", source.ID(), date, strings.Join(j.Transform.Command, "\x00"), j.Transform.NewType, value)},
		{Name: "WARC-Date", Value: date},
		{Name: "WARC-Target-URI", Value: source.TargetURI()},
		{Name: "WARC-Refers-To", Value: source.ID()},
		{Name: "WARC-Block-Digest", Value: value},
		{Name: "WARC-Payload-Digest", Value: value},
		{Name: "Content-Type", Value: j.Transform.NewType},
	}
	if id := source.Header.Get("WARC-Warcinfo-ID"); id != "" {
		h.Add("WARC-Warcinfo-ID", id)
	}
	h.Add("Content-Length", strconv.FormatInt(result.size, 10))
	header, err := h.Encode(nil, version)
	if err != nil {
		j.left.add(skippedFailed)
		j.found(rec.Offset, fmt.Sprintf("%s: no conversion record can be made: %v", rec.ID(), err))
		return nil
	}
	j.done.Converted++
	return j.write(header, result.reader(), result.size)
}
