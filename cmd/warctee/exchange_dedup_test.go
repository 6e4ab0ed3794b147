package main

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

const (
	payload         = "the same octets every time"
	samePayload     = "HTTP/1.1 200 OK\r\nX-Form: length\r\nContent-Length: 26\r\n\r\n" + payload
	samePayloadAsIs = "HTTP/1.1 200 Fine\r\nTransfer-Encoding: chunked\r\n\r\n8\r\nthe same\r\n12;x=y\r\n octets every time\r\n0\r\n\r\n"
)

// fetch makes an exchange whose reply is given, and waits until it is in the
// archive: the next one may then be a revisit of it.
func (x *scene) fetch(target, response string) wanted {
	x.Helper()
	c := x.client()
	o, request := x.get(c, target)
	o.send(response)
	if r := c.reply("GET"); !r.whole {
		x.Errorf("the client got a part: %q", r.body)
	}
	x.settled()
	return wanted{uri: x.uri(target), request: request, response: response}
}

func TestDedup(t *testing.T) {
	t.Parallel()
	for _, store := range []string{"", "memory:"} {
		t.Run("one payload/"+store, func(t *testing.T) {
			overBothWith(t, func(f *recordFlags) { f.dedup = store }, func(x *scene) {
				original := x.fetch("/original", samePayload)
				x.want(original)
				for _, again := range []wanted{
					x.fetch("/original", samePayload),
					x.fetch("/another?url", samePayload),
					x.fetch("/chunked", samePayloadAsIs),
				} {
					again.revisitOf = &original
					x.want(again)
				}
			})
		})
	}
	t.Run("off", func(t *testing.T) {
		overBothWith(t, func(f *recordFlags) { f.dedup = "off" }, func(x *scene) {
			for range 3 {
				x.want(x.fetch("/", samePayload))
			}
		})
	})
	// A part, or nothing, stands for nothing else.
	for name, response := range map[string]string{
		"empty": "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
		"206":   "HTTP/1.1 206 Partial Content\r\nContent-Range: bytes 0-25/100\r\nContent-Length: 26\r\n\r\n" + payload,
		"304":   "HTTP/1.1 304 Not Modified\r\n\r\n",
		"204":   "HTTP/1.1 204 No Content\r\n\r\n",
	} {
		t.Run("never/"+name, func(t *testing.T) {
			overBoth(t, func(x *scene) {
				for range 2 {
					x.want(x.fetch("/", response))
				}
				x.want(x.fetch("/", samePayload))
				x.want(x.fetch("/", response))
			})
		})
	}
	t.Run("truncated", func(t *testing.T) {
		overBoth(t, func(x *scene) {
			c := x.client()
			o, request := x.get(c, "/")
			response := "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n" + payload
			o.send(response)
			o.Close()
			x.gotCut(c.reply("GET"), payload)
			x.want(wanted{uri: x.uri("/"), request: request, response: response, truncated: "disconnect"})
			x.want(x.fetch("/", samePayload)) // no revisit of it
			c = x.client()
			o, request = x.get(c, "/")
			o.send(response)
			o.Close()
			x.gotCut(c.reply("GET"), payload)
			x.want(wanted{uri: x.uri("/"), request: request, response: response, truncated: "disconnect"})
		})
	})
}

// Of captures that are under way at once one is stored.
func TestDedupInFlight(t *testing.T) {
	overBoth(t, func(x *scene) {
		const n = 16
		var clients, origins []*peer
		var requests []string
		for range n {
			c := x.client()
			o, request := x.get(c, "/same")
			clients, origins, requests = append(clients, c), append(origins, o), append(requests, request)
		}
		for _, o := range origins {
			o.send(samePayload)
		}
		original := wanted{uri: x.uri("/same"), request: requests[0], response: samePayload}
		for i, c := range clients {
			x.got(c.reply("GET"), 200, payload)
			w := original
			if i > 0 {
				w.revisitOf = &original
			}
			x.want(w)
		}
	})
}

// The index is there for the next run, and is believed as long as the files
// are there.
func TestDedupOverRuns(t *testing.T) {
	overBothWith(t, func(f *recordFlags) { f.dedup = "" }, func(x *scene) {
		original := x.fetch("/original", samePayload)
		x.want(original)
		x.stop()

		x.start()
		again := x.fetch("/again", samePayload)
		again.revisitOf = &original
		x.want(again)
		x.stop()
		x.checkArchive()

		for _, file := range x.files() {
			if err := os.Remove(file); err != nil {
				x.Fatal(err)
			}
		}
		x.wants = nil
		x.start()
		original = x.fetch("/stored", samePayload)
		x.want(original)
		again = x.fetch("/revisited", samePayload)
		again.revisitOf = &original
		x.want(again)
	})
}

// A file that is shorter than it was is not believed either.
func TestDedupOfCutFile(t *testing.T) {
	overBothWith(t, func(f *recordFlags) { f.dedup = "" }, func(x *scene) {
		x.fetch("/original", samePayload)
		x.stop()
		for _, file := range x.files() {
			if err := os.WriteFile(file, nil, 0o644); err != nil {
				x.Fatal(err)
			}
		}
		x.start()
		x.want(x.fetch("/stored", samePayload))
		x.stop()
		for _, file := range x.files() {
			if info, err := os.Stat(file); err == nil && info.Size() == 0 {
				os.Remove(file)
			}
		}
		x.start()
	})
}

// A revisit may refer to a file that was finished before.
func TestDedupAcrossFiles(t *testing.T) {
	overBothWith(t, func(f *recordFlags) { f.maxSize = 1 }, func(x *scene) {
		original := x.fetch("/0", samePayload)
		x.want(original)
		for i := range 3 {
			again := x.fetch(fmt.Sprintf("/%d", i+1), samePayload)
			again.revisitOf = &original
			x.want(again)
		}
		x.stop()
		if n := len(x.files()); n != 4 {
			x.Errorf("there are %d files, want 4", n)
		}
		x.start()
	})
}

// files are those of the archive.
func (x *scene) files() []string {
	x.Helper()
	files, err := filepath.Glob(filepath.Join(x.flags.dir, "*.warc.gz"))
	if err != nil {
		x.Fatal(err)
	}
	return files
}
