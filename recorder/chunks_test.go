package recorder

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
)

// A pieceWriter counts the writes.
type pieceWriter struct {
	octets, pieces int
}

func (w *pieceWriter) Write(p []byte) (int, error) {
	w.octets += len(p)
	w.pieces++
	return len(p), nil
}

// Chunks of one octet make neither the client nor the record take a step for
// each, and are cut where they should be.
func TestSmallChunks(t *testing.T) {
	const chunks = 50_000
	reply := "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
	body := strings.Repeat("1\r\nx\r\n", chunks) + "0\r\n\r\n"
	for _, limit := range []int64{0, 1, 3, 4, 6, 5_999, 6_001, int64(len(body)) - 1, int64(len(body))} {
		t.Run(fmt.Sprint(limit), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := openForTest(t, Options{MaxBody: limit, Dial: originConns(t, func(_ int, c net.Conn) {
					if _, err := http.ReadRequest(bufio.NewReader(c)); err != nil {
						t.Error(err)
					}
					io.WriteString(c, reply+body)
				})})
				req, err := http.NewRequest("GET", "http://origin/", nil)
				if err != nil {
					t.Fatal(err)
				}
				resp, err := r.RoundTrip(req)
				if err != nil {
					t.Fatal(err)
				}
				var got pieceWriter
				if _, err := resp.Body.(io.WriterTo).WriteTo(&got); err != nil {
					t.Error(err)
				}
				resp.Body.Close()
				closeForTest(t, r)
				if got.octets != chunks || got.pieces > len(body)/1000 {
					t.Errorf("the client gets %d octets in %d pieces", got.octets, got.pieces)
				}
				kept := body
				if limit > 0 {
					kept = body[:limit]
				}
				rec := theOne(t, archive(t, r), "response", "http://origin/")
				if b := block(t, rec); b != reply+kept {
					t.Errorf("the record has %d octets of body, want %d", len(b)-len(reply), len(kept))
				}
				if truncated := rec.Header.Get("WARC-Truncated"); (truncated == "length") != (len(kept) < len(body)) {
					t.Errorf("WARC-Truncated is %q", truncated)
				}
			})
		})
	}
}
