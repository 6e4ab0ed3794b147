package proxy

import (
	"bufio"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"time"
)

// A clientWriter bounds how long a client may take nothing.
type clientWriter struct {
	http.ResponseWriter
	control       *http.ResponseController
	stall         time.Duration
	streamsEvents atomic.Bool
}

// Unwrap is for [http.ResponseController].
func (w *clientWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func (w *clientWriter) WriteHeader(code int) {
	contentType := w.Header().Get("Content-Type")
	if len(contentType) >= len("text/event-stream") && strings.EqualFold(contentType[:len("text/event-stream")], "text/event-stream") {
		w.streamsEvents.Store(true)
	}
	w.ResponseWriter.WriteHeader(code)
	if w.streamsEvents.Load() {
		w.Flush() // goproxy writes event streams in a way that hides Flush from the body
	}
}

func (w *clientWriter) Write(p []byte) (int, error) {
	w.control.SetWriteDeadline(time.Now().Add(w.stall))
	return w.ResponseWriter.Write(p)
}

// Hijack gives goproxy the connection of a CONNECT or a WebSocket.
func (w *clientWriter) Hijack() (net.Conn, *bufio.ReadWriter, error) { return w.control.Hijack() }

func (w *clientWriter) Flush() {
	w.control.SetWriteDeadline(time.Now().Add(w.stall))
	w.control.Flush()
}
