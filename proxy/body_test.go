package proxy

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// clientOver returns a client that speaks one protocol with the proxy.
func clientOver(protocol string, l *pipeListener) *http.Transport {
	client := &http.Transport{Protocols: new(http.Protocols), DialContext: func(context.Context, string, string) (net.Conn, error) { return l.dial(), nil }}
	client.Protocols.SetHTTP1(protocol == "HTTP/1.1")
	client.Protocols.SetUnencryptedHTTP2(protocol == "HTTP/2.0")
	return client
}

// overBothProtocols runs a test in virtual time.
func overBothProtocols(t *testing.T, run func(t *testing.T, protocol string)) {
	for _, protocol := range []string{"HTTP/1.1", "HTTP/2.0"} {
		t.Run(protocol, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { run(t, protocol) })
		})
	}
}

func exchange(t *testing.T, client *http.Transport, method string, body io.Reader) *http.Response {
	t.Helper()
	req, err := http.NewRequest(method, "http://origin/", body)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := client.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	return resp
}

// The reply has overtaken the upload, and the transport asks for more of the
// body when the handler has returned. The next exchange on the connection knows
// nothing of that.
func TestBodyIsReadAfterItsHandler(t *testing.T) {
	overBothProtocols(t, func(t *testing.T, protocol string) {
		var upload io.ReadCloser
		events, event := io.Pipe()
		l := serve(t, func(r *http.Request) (*http.Response, error) {
			if r.Method == "POST" {
				upload = r.Body
				return &http.Response{StatusCode: 200, Header: http.Header{}, Body: http.NoBody}, nil
			}
			context.AfterFunc(r.Context(), func() { events.CloseWithError(context.Cause(r.Context())) })
			return &http.Response{StatusCode: 200, Header: http.Header{"Content-Type": {"text/event-stream"}}, Body: events, ContentLength: -1}, nil
		})
		client := clientOver(protocol, l)
		defer client.CloseIdleConnections()
		resp := exchange(t, client, "POST", strings.NewReader("an upload"))
		io.Copy(io.Discard, resp.Body)
		synctest.Wait() // the handler has returned
		stream := exchange(t, client, "GET", nil)
		defer stream.Body.Close()

		if n, err := upload.Read(make([]byte, 10)); n > 0 || err == nil {
			t.Errorf("the body of an exchange that has ended: %d octets, error %v", n, err)
		}
		time.Sleep(2 * time.Minute)     // the client of an upload may be silent for one
		go event.Write([]byte("event")) // ended by the reader, or with the stream
		got := make([]byte, 5)
		if _, err := io.ReadFull(stream.Body, got); err != nil || string(got) != "event" {
			t.Errorf("the event stream gave %q, %v", got, err)
		}
		event.Close()
	})
}

// A client that is not asked for more of its upload is not silent.
func TestUnhurriedUpload(t *testing.T) {
	overBothProtocols(t, func(t *testing.T, protocol string) {
		l := serve(t, func(r *http.Request) (*http.Response, error) {
			first := make([]byte, 1)
			if _, err := io.ReadFull(r.Body, first); err != nil {
				return nil, err
			}
			time.Sleep(5 * time.Minute) // the origin takes no more
			rest, err := io.ReadAll(r.Body)
			if err != nil {
				return nil, err
			}
			return &http.Response{StatusCode: 200, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(string(first) + string(rest))), ContentLength: -1}, nil
		})
		client := clientOver(protocol, l)
		defer client.CloseIdleConnections()
		read, write := io.Pipe()
		go func() { // ended by the reader
			write.Write([]byte("an "))
			time.Sleep(5*time.Minute + 30*time.Second)
			write.Write([]byte("upload"))
			write.Close()
		}()
		resp := exchange(t, client, "POST", read)
		defer resp.Body.Close()
		if got, err := io.ReadAll(resp.Body); resp.StatusCode != 200 || string(got) != "an upload" || err != nil {
			t.Errorf("status %d, %q, %v", resp.StatusCode, got, err)
		}
	})
}

// A pipeWriter has the deadline of a connection.
type pipeWriter struct {
	http.ResponseWriter
	net.Conn
}

func (w pipeWriter) Write(p []byte) (int, error) { return w.ResponseWriter.Write(p) }

// Whenever a body is closed, the Read under way ends.
func TestCloseEndsRead(t *testing.T) {
	for range 2000 {
		client, server := net.Pipe()
		w := pipeWriter{httptest.NewRecorder(), server}
		b := &clientBody{ReadCloser: server, control: http.NewResponseController(w), silence: time.Hour}
		var both sync.WaitGroup
		both.Go(func() {
			if n, err := b.Read(make([]byte, 1)); n > 0 || err == nil {
				t.Errorf("read %d octets, error %v", n, err)
			}
		})
		both.Go(func() { b.Close() })
		both.Wait()
		client.Close()
		server.Close()
	}
}
