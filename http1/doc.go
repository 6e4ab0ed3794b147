// Package http1 reads HTTP/1.x messages (RFC 9112) as the bytes that they are.
//
// net/http turns a message into a map: order, spelling, duplicates and odd
// bytes of the fields are gone, and so is the framing of the body. An archive
// needs all of it. This package therefore parses in place and keeps every
// byte; it does no input or output.
//
// A message is a head and a body:
//
//	GET / HTTP/1.1 CRLF          Head.Line   (without its line end)
//	Host: example.org CRLF       Head.Fields (Raw with its line end)
//	CRLF                         the empty line ends Head.Raw
//	1a;ext CRLF … 0 CRLF CRLF    Body.Next walks over it
//
// There are two tempers. Requests are parsed strictly: what two programs could
// understand in two ways is refused with an [*Error], because a proxy that
// guesses can be used to smuggle requests (RFC 9112 §11.2). Responses are
// parsed as tolerantly as browsers do, because an archive has to hold what
// the web really sends; only what has no clear end or meaning is refused.
//
// [HeadLen] finds the end of a head in a growing buffer, [ParseRequest] and
// [ParseResponse] understand it, [NewBody] walks over what follows.
package http1
