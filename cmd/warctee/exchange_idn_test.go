package main

import (
	"net"
	"testing"
)

// A host may be written in Unicode in the absolute-form; the origin and the
// archive get its ASCII form (RFC 5891 §4.4).
func TestUnicodeHost(t *testing.T) {
	for _, host := range []string{"ｌｏｃａｌｈｏｓｔ", "localhoſt"} {
		t.Run(host, func(t *testing.T) {
			t.Parallel()
			x := newScene(t, false, func(*recordFlags) {})
			_, port, _ := net.SplitHostPort(x.origin.authority)
			client := x.client()
			client.send("GET http://" + host + ":" + port + "/ü HTTP/1.1\r\nHost: x\r\n\r\n")
			o := x.origin.next()
			request := o.request()
			authority := "localhost:" + port
			x.same("the request", request, "GET /ü HTTP/1.1\r\nHost: "+authority+"\r\n\r\n")
			response := "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nhost"
			o.send(response)
			x.got(client.reply("GET"), 200, "host")
			x.want(wanted{uri: "http://localhost:" + port + "/%C3%BC", request: request, response: response})
			x.finish()
		})
	}
}
