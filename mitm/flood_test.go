package mitm

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"os"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

var get = []hpack.HeaderField{{Name: ":method", Value: "GET"}, {Name: ":scheme", Value: "https"}, {Name: ":authority", Value: "h"}, {Name: ":path", Value: "/"}}

// TestFloods lets clients abuse HTTP/2. The server, which is that of net/http,
// has to end the connection or stay small, and nothing may be left of it.
func TestFloods(t *testing.T) {
	var handlers, most atomic.Int64
	p := newProxy(t, func(w http.ResponseWriter, r *http.Request) {
		for n := handlers.Add(1); n > most.Load(); {
			most.Store(n)
		}
		defer handlers.Add(-1)
		if r.URL.Path == "/" {
			<-r.Context().Done()
		}
	})
	for _, tt := range []struct {
		name  string
		ends  bool // the server has to end the connection
		flood func(f *flood) error
	}{
		{"rapid reset", false, func(f *flood) error {
			for i := range uint32(3000) {
				if err := f.request(2*i+1, true, get...); err != nil {
					return err
				}
				if err := f.WriteRSTStream(2*i+1, http2.ErrCodeCancel); err != nil {
					return err
				}
			}
			return nil
		}},
		{"streams", false, func(f *flood) error {
			for i := range uint32(3 * maxStreams) {
				if err := f.request(2*i+1, true, get...); err != nil {
					return err
				}
			}
			// Those beyond the limit are refused.
			if got := f.status(2*maxStreams + 1); got != "REFUSED_STREAM" {
				f.t.Errorf("got %s for one stream too many", got)
			}
			return nil
		}},
		{"CONTINUATION", true, func(f *flood) error {
			part := strings.Repeat("\x00\x01a\x01b", 1000) // a: b
			err := f.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: []byte(part)})
			for range 5000 {
				if err != nil {
					return err
				}
				err = f.WriteContinuation(1, false, []byte(part))
			}
			return err
		}},
		{"empty CONTINUATION", false, func(f *flood) error {
			err := f.WriteHeaders(http2.HeadersFrameParam{StreamID: 1})
			for range 50_000 {
				if err != nil {
					return err
				}
				err = f.WriteContinuation(1, false, nil)
			}
			return err
		}},
		{"SETTINGS", false, func(f *flood) error {
			for range 20_000 { // one answer for many
				if err := f.WriteSettings(); err != nil {
					return err
				}
			}
			return nil
		}},
		{"HPACK bomb", false, func(f *flood) error {
			// A field of 4000 bytes that costs a byte from the second time on.
			fields := append(get[:len(get):len(get)], hpack.HeaderField{Name: "bomb", Value: strings.Repeat("x", 3900)})
			for range 15_000 {
				fields = append(fields, fields[len(get)])
			}
			if err := f.request(1, true, fields...); err != nil {
				return err
			}
			if got := f.status(1); got == "200" {
				f.t.Errorf("got %s", got)
			}
			return nil
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			most.Store(0)
			before := runtime.NumGoroutine()
			c, err := p.tls("h:443", &tls.Config{ServerName: "h", NextProtos: []string{"h2"}})
			if err != nil {
				t.Fatal(err)
			}
			f := newFlood(t, c)
			if err := tt.flood(f); tt.ends && (err == nil || errors.Is(err, os.ErrDeadlineExceeded)) {
				t.Errorf("the connection goes on (%v)", err)
			} else if !tt.ends && err != nil {
				t.Error(err)
			}
			if n := most.Load(); n > maxStreams {
				t.Errorf("%d handlers at once, want at most %d", n, maxStreams)
			}
			c.Close()
			until(t, "the tunnel is closed", func() bool { return p.open() == 0 && handlers.Load() == 0 })
			until(t, fmt.Sprintf("goroutines are back to about %d", before), func() bool { return runtime.NumGoroutine() <= before+1 })
		})
	}
}

// TestSettings checks what a client over HTTP/2 is told of the limits.
func TestSettings(t *testing.T) {
	p := newProxyWithin(t, Limits{MaxURL: 1000, MaxHead: 3000}, tell)
	c, err := p.tls("h:443", &tls.Config{ServerName: "h", NextProtos: []string{"h2"}})
	if err != nil {
		t.Fatal(err)
	}
	frame, err := newFlood(t, c).ReadFrame()
	settings, ok := frame.(*http2.SettingsFrame)
	if !ok {
		t.Fatalf("got %v, %v", frame, err)
	}
	for id, most := range map[http2.SettingID]uint32{http2.SettingMaxConcurrentStreams: 100, http2.SettingInitialWindowSize: 256 << 10, http2.SettingMaxHeaderListSize: 3*4200 + 320} {
		if v, ok := settings.Value(id); !ok || v > most {
			t.Errorf("%v is %d (%v), want at most %d", id, v, ok, most)
		}
	}
}

// TestUnreadAnswers lets a client over HTTP/2 ask again and again for what it
// does not read.
func TestUnreadAnswers(t *testing.T) {
	ca := newAuthority()
	synctest.Test(t, func(t *testing.T) {
		c := bubble(t, &Interceptor{Handler: http.NotFoundHandler(), GetCertificate: ca.leaf}, "h:443")
		encrypted := tls.Client(c.Conn, &tls.Config{ServerName: "h", RootCAs: ca.roots, NextProtos: []string{"h2"}})
		if err := encrypted.Handshake(); err != nil {
			t.Fatal(err)
		}
		f := newFlood(t, newClient(t, encrypted))
		start, asked := time.Now(), 0
		for asked < 30_000 && f.WritePing(false, [8]byte{}) == nil {
			asked++
		}
		if asked == 30_000 || time.Since(start) > time.Second {
			t.Errorf("the connection goes on after %d frames and %v", asked, time.Since(start))
		}
	})
}
