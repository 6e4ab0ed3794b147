// Package mitm turns what a client sends to a forward proxy into requests for
// an [http.Handler], without losing a byte of them, CONNECT tunnels included.
//
// net/http does the serving. It gets its connections from this package, which
// knows two kinds:
//
//	NewListener(l) ──────────► framing connection ─► NewServer ────────────► the proxy
//	                                                                    │ CONNECT
//	Interceptor.ServeTunnel ◄───────────────────────────────────────────┘
//	   ├─ TLS, HTTP/1.1 ──────► framing connection ─┐
//	   ├─ TLS, HTTP/2 ────────► bare connection ────┼─► inner http.Server ─► Interceptor.Handler
//	   ├─ plain HTTP/1 ───────► framing connection ─┘
//	   └─ anything else ──────► blind tunnel to the origin, not recorded
//
// A framing connection stands between the socket and net/http. It reads the
// head of each HTTP/1 request whole, keeps its bytes, and hands net/http a copy
// that it is sure to understand; the body passes through:
//
//	client   GET /%zz?ü HTTP/1.1 CRLF host: h CRLF CRLF
//	kept     the same; see RequestOf
//	net/http GET /%25zz?%C3%BC HTTP/1.1 CRLF host: h CRLF CRLF
//
// A head that has to be refused (see [http1.ParseRequest]) reaches net/http as
// a request too, which the server answers, so that the refusal comes after the
// answers to the requests before it.
//
// [Limits] bound all that a client can make the servers use.
//
// Behind a CONNECT, or a request that asks for an upgrade, nobody knows yet what
// the bytes mean. The connection keeps them until a handler hijacks it, which
// makes them the tunnel's, or returns, which makes them the next request.
package mitm
