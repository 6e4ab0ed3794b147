package mitm

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/http/httpguts"
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// frame makes a frame of HTTP/2.
func frame(kind http2.FrameType, flags http2.Flags, stream uint32, payload []byte) []byte {
	n := len(payload)
	b := binary.BigEndian.AppendUint32([]byte{byte(n >> 16), byte(n >> 8), byte(n), byte(kind), byte(flags)}, stream)
	return append(b, payload...)
}

// headerBlock encodes fields, NAME VALUE, for a decoder that has seen nothing.
func headerBlock(fields ...string) []byte {
	var b bytes.Buffer
	enc := hpack.NewEncoder(&b)
	for _, f := range fields {
		name, value, _ := strings.Cut(f, " ")
		enc.WriteField(hpack.HeaderField{Name: name, Value: value, Sensitive: true})
	}
	return b.Bytes()
}

func post(fields ...string) []byte {
	return headerBlock(append([]string{":method POST", ":scheme https", ":authority h", ":path /"}, fields...)...)
}

// A wire is the connection below a bareConn or a server: what a client says comes
// in steps, and what is written is kept.
type wire struct {
	mu      sync.Mutex
	changed sync.Cond
	in      []byte
	most    int // that one Read returns; 0: no bound
	closed  bool
	out     bytes.Buffer
}

func newWire() *wire {
	w := &wire{}
	w.changed.L = &w.mu
	return w
}

func (w *wire) say(b []byte) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.in = append(w.in, b...)
	w.changed.Broadcast()
}

func (w *wire) Read(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for len(w.in) == 0 && !w.closed {
		w.changed.Wait()
	}
	if len(w.in) == 0 {
		return 0, io.EOF
	}
	if w.most > 0 {
		p = p[:min(len(p), w.most)]
	}
	n := copy(p, w.in)
	w.in = w.in[n:]
	return n, nil
}

func (w *wire) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.out.Write(p)
}

func (w *wire) Close() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.closed = true
	w.changed.Broadcast()
	return nil
}

// take returns what was written since the last call.
func (w *wire) take() []byte {
	w.mu.Lock()
	defer w.mu.Unlock()
	defer w.out.Reset()
	return bytes.Clone(w.out.Bytes())
}

func (w *wire) LocalAddr() net.Addr              { return tunnelAddr{} }
func (w *wire) RemoteAddr() net.Addr             { return tunnelAddr{} }
func (w *wire) SetDeadline(time.Time) error      { return nil }
func (w *wire) SetReadDeadline(time.Time) error  { return nil }
func (w *wire) SetWriteDeadline(time.Time) error { return nil }

func bare(c net.Conn, heads *headShare) *bareConn {
	b := newBareConn(c, &Tunnel{}, heads, Limits{}.withDefaults().maxHeaderBytes())
	b.onRead = func() {}
	return b
}

// serveSteps lets a client say one step after the other, each when the server has
// nothing left to do, and returns the frames that answer each: in no order, since
// net/http has none for those of the connection.
func serveSteps(t *testing.T, steps [][]byte, most int, with bool) (answers [][]string) {
	synctest.Test(t, func(t *testing.T) {
		key := http.CanonicalHeaderKey(trailerKey)
		srv := NewServer(nil, Limits{}, nil, slog.New(slog.DiscardHandler))
		srv.Protocols.SetUnencryptedHTTP2(true)
		srv.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			delete(r.Header, key)
			body, err := io.ReadAll(r.Body)
			delete(r.Trailer, key)
			fmt.Fprintf(w, "%s %s %s %d %v %x %v %v\n", r.Method, r.RequestURI, r.Host, r.ContentLength, r.Header, body, err, r.Trailer)
		})
		w := newWire()
		w.most = most
		var c net.Conn = w
		if with {
			c = bare(w, nil)
		}
		l := &tunnelListener{conns: make(chan net.Conn, 1), done: make(chan struct{})}
		l.conns <- c
		go srv.Serve(l) // stopped by Close
		for _, step := range steps {
			w.say(step)
			synctest.Wait()
			answers = append(answers, sortedFrames(w.take()))
		}
		w.Close()
		time.Sleep(time.Minute) // for the GOAWAY of net/http
		srv.Close()
		synctest.Wait()
	})
	return answers
}

// An event is a frame, or a whole header block.
type event struct {
	kind    http2.FrameType
	stream  uint32
	ends    bool
	payload string // "": of a header block
	fields  []hpack.HeaderField
}

// eventsOf reads frames until net/http would refuse the connection.
func eventsOf(b []byte) (events []event) {
	fr := http2.NewFramer(io.Discard, bytes.NewReader(bytes.TrimPrefix(b, []byte(http2.ClientPreface))))
	fr.SetMaxReadFrameSize(maxFrame)
	var fields []hpack.HeaderField
	dec := hpack.NewDecoder(4096, func(f hpack.HeaderField) { fields = append(fields, f) })
	var e event
	part := func(b []byte, ended bool) bool {
		if _, err := dec.Write(b); err != nil {
			return false
		}
		if ended {
			e.fields, fields = fields, nil
			events = append(events, e)
			return dec.Close() == nil
		}
		return true
	}
	rest := b[len(http2.ClientPreface):]
	for {
		f, err := fr.ReadFrame()
		if _, ok := err.(http2.StreamError); err != nil && !ok || len(rest) < frameHead {
			return events
		}
		size := frameHead + int(rest[0])<<16 + int(rest[1])<<8 + int(rest[2])
		raw := rest[:size]
		rest = rest[size:]
		switch f := f.(type) {
		case *http2.HeadersFrame:
			e = event{kind: http2.FrameHeaders, stream: f.StreamID, ends: f.StreamEnded(), payload: fmt.Sprint(f.HasPriority(), f.Priority)}
			if !part(f.HeaderBlockFragment(), f.HeadersEnded()) {
				return events
			}
		case *http2.ContinuationFrame:
			if !part(f.HeaderBlockFragment(), f.HeadersEnded()) {
				return events
			}
		default:
			if http2.FrameType(raw[3]) == http2.FrameHeaders {
				return events // padding that is too long (RFC 9113 §6.2)
			}
			events = append(events, event{kind: http2.FrameType(raw[3]), stream: streamOf(raw), payload: string(raw)})
		}
	}
}

// withAdded are the events with the fields that a bareConn adds.
func withAdded(events []event) (with []event) {
	last := uint32(0)
	for _, e := range events {
		if e.kind == http2.FrameHeaders {
			opens := e.stream > last
			last = max(last, e.stream)
			size, more := 0, []hpack.HeaderField(nil)
			for _, f := range e.fields {
				if !opens && !f.IsPseudo() {
					size += len(f.Name) + len(f.Value) + 4
					more = append(more, hpack.HeaderField{Name: trailerKey, Value: f.Name + ": " + f.Value, Sensitive: true})
				}
			}
			switch {
			case opens && !e.ends:
				more = []hpack.HeaderField{{Name: "trailer", Value: trailerKey, Sensitive: true}}
			case size > maxTrailer:
				more = []hpack.HeaderField{{Name: trailerKey, Sensitive: true}}
			}
			e.fields = slices.Concat(e.fields, more)
		}
		with = append(with, e)
	}
	return with
}

// isForbiddenTrailer reports whether a header block may end a request, and has what
// net/http does not take there.
func isForbiddenTrailer(e event) bool {
	return slices.ContainsFunc(e.fields, func(f hpack.HeaderField) bool {
		return f.Name == trailerKey && !httpguts.ValidTrailerHeader(http.CanonicalHeaderKey(strings.SplitN(f.Value, ": ", 2)[0]))
	})
}

// throughBare is what net/http gets of what a client says.
func throughBare(t *testing.T, said []byte, most int) (got []byte, refused bool) {
	w := newWire()
	w.most = most
	w.say(said)
	w.Close()
	b := bare(w, nil)
	buf := make([]byte, 1000)
	for {
		n, err := b.Read(buf)
		got = append(got, buf[:n]...)
		if err == io.EOF {
			return got, b.state == passing
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// steps makes frames of what a fuzzer has: type, flags, stream, length, payload. A
// type of 128 and more has its payload 64 times.
func stepsOf(b []byte) (steps [][]byte) {
	steps = [][]byte{append([]byte(http2.ClientPreface), frame(http2.FrameSettings, 0, 0, nil)...)}
	for len(b) >= 4 && len(steps) < 40 {
		kind, flags, stream, n := b[0], b[1], b[2], min(int(b[3]), len(b)-4)
		payload := b[4 : 4+n]
		if kind >= 128 {
			payload = bytes.Repeat(payload, 64)
		}
		steps = append(steps, frame(http2.FrameType(kind&127), http2.Flags(flags), uint32(stream), payload))
		b = b[4+n:]
	}
	return steps
}

// script is the reverse of stepsOf.
func scriptOf(frames ...[]byte) (b []byte) {
	for _, f := range frames {
		b = append(b, f[3], f[4], f[8], byte(len(f)-frameHead))
		b = append(b, f[frameHead:]...)
	}
	return b
}

const (
	ends      = http2.FlagHeadersEndStream
	endsBlock = http2.FlagHeadersEndHeaders
	padded    = http2.FlagHeadersPadded
	priority  = http2.FlagHeadersPriority
)

// FuzzBareConn checks that net/http sees what the client has sent and the added
// fields, and that it answers the same as without them.
func FuzzBareConn(f *testing.F) {
	open, trailer := frame(1, endsBlock, 1, post()), headerBlock("x-end 1")
	data := frame(0, 0, 1, []byte("body"))
	for _, script := range [][][]byte{
		{frame(1, ends|endsBlock, 1, post())},
		{open, data, frame(0, http2.FlagDataEndStream, 1, nil)},
		{open, data, frame(1, ends|endsBlock, 1, trailer)},
		{frame(1, endsBlock, 1, post("trailer x-end")), data, frame(1, ends|endsBlock, 1, trailer)},
		{open, frame(1, ends|endsBlock, 1, headerBlock(":path /"))},
		{open, frame(1, ends|endsBlock, 1, headerBlock("expect /"))},
		{open, frame(1, endsBlock, 1, trailer), data},
		{open, frame(1, ends|endsBlock|padded|priority, 1, slices.Concat([]byte{2, 0, 0, 0, 0, 9}, trailer, []byte{0, 0}))},
		{frame(1, endsBlock|padded, 1, []byte{200, 1}), open},
		{frame(1, endsBlock|priority, 1, append([]byte{0, 0, 0, 1, 9}, post()...)), data},
		{frame(1, 0, 1, post()[:3]), frame(9, 0, 1, post()[3:8]), frame(9, 0, 1, nil), frame(9, endsBlock, 1, post()[8:])},
		{frame(1, endsBlock, 1, post("Upper case")), open, frame(1, ends|endsBlock, 1, trailer)},
		{frame(1, endsBlock, 1, post("Upper case")), frame(1, ends|endsBlock, 3, post())},
		{frame(1, endsBlock, 1, append([]byte{0x20, 0x3f, 0xe1, 0x1f}, post()...)), frame(4, 0, 0, []byte{0, 1, 0, 0, 0, 0})},
		{frame(1, endsBlock, 1, []byte{0x80})},
		{open, frame(3, 0, 1, []byte{0, 0, 0, 8}), frame(1, ends|endsBlock, 1, trailer)},
		{open, frame(7, 0, 0, make([]byte, 8)), frame(1, ends|endsBlock, 3, post()), frame(0x7f, 3, 0, []byte("x"))},
		{frame(1, 0, 1, post()), frame(0, 0, 1, nil)},
		{frame(1, endsBlock, 0, post()), open},
		{frame(1, endsBlock, 2, post()), open},
	} {
		f.Add(scriptOf(script...), byte(1))
		f.Add(scriptOf(script...), byte(0))
	}
	f.Fuzz(func(t *testing.T, script []byte, most byte) {
		steps := stepsOf(script)
		said := slices.Concat(steps...)
		got, refused := throughBare(t, said, int(most))
		want, events := withAdded(eventsOf(said)), eventsOf(got)
		if len(events) > len(want) || !refused && len(events) < len(want) {
			t.Fatalf("%q: %d events, want %d (refused: %v)", script, len(events), len(want), refused)
		}
		for i, e := range events {
			if fmt.Sprint(e) != fmt.Sprint(want[i]) {
				t.Fatalf("%q: event %d is %v, want %v", script, i, e, want[i])
			}
		}
		if slices.ContainsFunc(want, isForbiddenTrailer) {
			return // of those that are not announced net/http looks at none
		}
		if refused || bytes.Contains(got, []byte("\x09\x04")) && len(got) > maxFrame {
			return // stricter than net/http, or a frame of its own was needed
		}
		plain, with := serveSteps(t, steps, 0, false), serveSteps(t, steps, int(most), true)
		for i := range plain {
			if !slices.Equal(plain[i], with[i]) {
				t.Fatalf("%q: step %d is answered with %q, want %q", script, i, with[i], plain[i])
			}
		}
	})
}

// A field that net/http refuses costs a stream, not the connection, also where the
// bareConn adds fields.
func TestRefusedFieldEndsOneStream(t *testing.T) {
	steps := [][]byte{
		append([]byte(http2.ClientPreface), frame(http2.FrameSettings, 0, 0, nil)...),
		frame(1, endsBlock|padded, 1, append(append([]byte{3}, post("Upper case")...), 0, 0, 0)),
		frame(1, endsBlock, 3, post()),
		frame(1, endsBlock|ends, 3, headerBlock("Upper case")),
		frame(1, endsBlock|ends, 5, post()),
	}
	answers := serveSteps(t, steps, 0, true)
	var resets, goaways, replies int
	for _, f := range slices.Concat(answers...) {
		switch http2.FrameType(f[3]) {
		case http2.FrameRSTStream:
			resets++
		case http2.FrameGoAway:
			goaways++
		case http2.FrameHeaders:
			replies++
		}
	}
	if resets != 2 || goaways != 0 || replies != 1 {
		t.Errorf("%d streams were reset, %d connections ended, %d replies; want 2, 0, 1", resets, goaways, replies)
	}
}

func sortedFrames(b []byte) (frames []string) {
	for len(b) >= frameHead {
		n := min(len(b), frameHead+int(b[0])<<16+int(b[1])<<8+int(b[2]))
		frames = append(frames, string(b[:n]))
		b = b[n:]
	}
	slices.Sort(frames)
	return frames
}

// trailerSeen is what a handler sees of a trailer section of the fields, which
// come after a body: the error of the body, and the trailer.
func trailerSeen(t *testing.T, l Limits, frames ...[]byte) (trailer http.Header, bodyErr error, served bool) {
	synctest.Test(t, func(t *testing.T) {
		srv := NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, bodyErr = io.ReadAll(r.Body)
			trailer, served = r.Trailer, bodyErr == nil
		}), l, nil, slog.New(slog.DiscardHandler))
		srv.Protocols.SetUnencryptedHTTP2(true)
		w := newWire()
		w.say(slices.Concat([]byte(http2.ClientPreface), frame(http2.FrameSettings, 0, 0, nil), frame(1, endsBlock, 1, post()), slices.Concat(frames...)))
		b := newBareConn(w, &Tunnel{Authority: "h:443"}, nil, l.withDefaults().maxHeaderBytes())
		b.onRead = func() {}
		listener := &tunnelListener{conns: make(chan net.Conn, 1), done: make(chan struct{})}
		listener.conns <- b
		go srv.Serve(listener) // stopped by Close
		synctest.Wait()
		w.Close()
		time.Sleep(time.Minute) // for the GOAWAY of net/http
		srv.Close()
		synctest.Wait()
	})
	return trailer, bodyErr, served
}

// No trailer field vanishes while its request goes on: they are all there, or the
// request fails.
func TestTrailerWholeOrRefused(t *testing.T) {
	many := func(n int) (fields []string) {
		for i := range n {
			fields = append(fields, fmt.Sprintf("x%d", i))
		}
		return fields
	}
	if trailer, err, served := trailerSeen(t, Limits{}, frame(1, endsBlock|ends, 1, headerBlock(many(450)...))); !served || len(trailer) != 450 {
		t.Errorf("450 short fields: %d are there, error %v", len(trailer), err)
	}
	if _, err, served := trailerSeen(t, Limits{}, frame(1, endsBlock|ends, 1, headerBlock(many(800)...))); served || err == nil || !strings.Contains(err.Error(), "too large") {
		t.Errorf("800 fields: error %v", err)
	}
	// More than net/http looks at.
	big := frame(1, ends, 1, nil)
	for range 30 {
		big = append(big, frame(9, 0, 1, headerBlock("x "+strings.Repeat("~", 12_000)))...)
	}
	big = append(big, frame(9, endsBlock, 1, bytes.Repeat(headerBlock("x-y"), 1500))...)
	if _, err, served := trailerSeen(t, Limits{}, big); served {
		t.Errorf("a huge trailer section: error %v", err)
	}
	small := Limits{MaxURL: 20, MaxHead: 60}
	if trailer, err, served := trailerSeen(t, small, frame(1, endsBlock|ends, 1, headerBlock(many(12)...))); served && len(trailer) != 12 {
		t.Errorf("12 fields where few are allowed: %d are there, error %v", len(trailer), err)
	}
}

// What the decoders keep after a large header block counts as long as the
// connection lives.
func TestDecoderMemoryCounts(t *testing.T) {
	room := newHeads(Limits{MaxUnfinished: 16 << 20}.withDefaults())
	value := bytes.Repeat([]byte("~"), 300_000)
	block := append([]byte{0x10, 1, 'x', 0x7f}, binary.AppendUvarint(nil, uint64(len(value)-127))...)
	block = append(block, value...)
	var kept []*bareConn
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	for range 100 {
		w := newWire()
		w.say([]byte(http2.ClientPreface))
		kind, flags, rest := http2.FrameHeaders, http2.Flags(0), block
		for len(rest) > 0 {
			n := min(len(rest), 16_000)
			if n == len(rest) {
				flags |= endsBlock
			}
			w.say(frame(kind, flags, 1, rest[:n]))
			kind, rest = http2.FrameContinuation, rest[n:]
		}
		w.Close()
		b := bare(w, room.share(netip.MustParseAddr("192.0.2.1")))
		n, err := io.Copy(io.Discard, b)
		if err != nil {
			break
		}
		if n < 300_000 {
			t.Fatal("the block was refused")
		}
		kept = append(kept, b)
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	if len(kept) == 0 {
		t.Fatal("not one connection has room")
	}
	each := (int64(after.HeapAlloc) - int64(before.HeapAlloc)) / int64(len(kept))
	t.Logf("%d connections, each keeps %d bytes", len(kept), each)
	if len(kept) > 3 {
		t.Errorf("%d connections of one client have decoders that keep %d bytes each, with 4 MiB for it", len(kept), each)
	}
	runtime.KeepAlive(kept)
}

// BenchmarkBareConn reads requests over HTTP/2, as net/http does, with a bareConn
// and without.
func BenchmarkBareConn(b *testing.B) {
	fields := []string{"user-agent Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko)", "accept */*", "cookie a=0123456789; b=0123456789"}
	get := headerBlock(append([]string{":method GET", ":scheme https", ":authority www.example.org", ":path /some/path.html"}, fields...)...)
	const size = 96 << 10
	data := bytes.Repeat(frame(0, 0, 1, make([]byte, 16<<10)), size/(16<<10))
	for _, bm := range []struct{ name, message string }{
		{"get", string(frame(1, ends|endsBlock, 1, get))},
		{"post", string(slices.Concat(frame(1, endsBlock, 1, post(fields...)), data, frame(0, http2.FlagDataEndStream, 1, nil)))},
	} {
		for _, with := range []bool{false, true} {
			b.Run(fmt.Sprintf("%s/with=%v", bm.name, with), func(b *testing.B) {
				var c net.Conn = &endless{message: bm.message, rest: http2.ClientPreface}
				below := bare(c, nil)
				if with {
					c = below
				}
				io.ReadFull(c, make([]byte, len(http2.ClientPreface)))
				fr := http2.NewFramer(io.Discard, c)
				fr.SetReuseFrames()
				fr.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
				b.ReportAllocs()
				b.SetBytes(int64(len(bm.message)))
				for b.Loop() {
					below.last = 0 // each request opens a stream
					for ended := false; !ended; {
						f, err := fr.ReadFrame()
						if err != nil {
							b.Fatal(err)
						}
						ended = f.Header().Flags.Has(ends)
					}
				}
			})
		}
	}
}
