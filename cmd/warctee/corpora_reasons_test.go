package main

// Reasons why a verdict of ours is not that of a corpus, by suite and id. A
// reason that is not needed fails the test.

const (
	oldVersion   = "HTTP/0.9, RTSP and ICE are not forwarded"
	malformed    = "what is no valid field or request line is refused, also where it does no harm"
	codings      = "no browser sends another transfer-coding than chunked: 501"
	anyMethod    = "methods that nobody knows are forwarded"
	anyOctet     = "octets beyond ASCII in a target are forwarded as they are, as browsers send them in old pages"
	elsewhere    = "it is for another host or scheme than the tunnel: 421"
	bodyMissing  = "its body is not in the corpus"
	emptyHost    = "an empty Host field is filled in with the authority of the tunnel"
	asteriskForm = "the asterisk is for OPTIONS"
)

var explainedRequests = map[string]string{
	"http-desync-guardian/A non-essential header with a non-printable character (x01)":              malformed,
	"http-desync-guardian/CL and some others are non-compliant":                                     malformed,
	"http-desync-guardian/TE and some others are non-compliant":                                     malformed,
	"http-desync-guardian/No TE/CL headers, some others are non-compliant":                          malformed,
	"http-desync-guardian/Some-Header: \\x01value":                                                  malformed,
	"http-desync-guardian/Some-Header: value\\x01":                                                  malformed,
	"http-desync-guardian/Some-Header\\x01":                                                         malformed,
	"http-desync-guardian/\\x01Some-Header":                                                         malformed,
	"http-desync-guardian/Extra spaces in version":                                                  malformed,
	"http-desync-guardian/[space] in URI":                                                           malformed,
	"http-desync-guardian/Empty version, which means HTTP/0.9":                                      oldVersion,
	"http-desync-guardian/Non-RFC, but OK HTTP/0.9":                                                 oldVersion,
	"http-desync-guardian/Correct TE OK":                                                            codings,
	"http-desync-guardian/Different Transfer-Encoding headers":                                      codings,
	"http-desync-guardian/Different Transfer-Encoding headers combined":                             codings,
	"http-desync-guardian/Multiple transfer encoding headers in a single request OK":                codings,
	"http-desync-guardian/TE with custom parameters OK":                                             codings,
	"http-desync-guardian/Transfer-Encoding with a param: chunked;custom_param":                     codings,
	"http-desync-guardian/Transfer-Encoding: identity and chunked OK":                               codings,
	"http-desync-guardian/Large Size OK":                                                            bodyMissing,
	"llhttp/invalid.md: HTTP protocol and ANNOUNCE method":                                          anyMethod,
	"llhttp/invalid.md: Invalid method":                                                             anyMethod,
	"llhttp/method.md: ANNOUNCE request with RTSP":                                                  oldVersion,
	"llhttp/method.md: OPTIONS request with RTSP":                                                   oldVersion,
	"llhttp/method.md: SOURCE request with ICE":                                                     oldVersion,
	"llhttp/method.md: M-SEARCH request":                                                            asteriskForm,
	"llhttp/sample.md: No HTTP version":                                                             oldVersion,
	"llhttp/transfer-encoding.md: POST with `chunked` as last transfer-encoding":                    codings,
	"llhttp/transfer-encoding.md: POST with `chunked` as last transfer-encoding (multiple headers)": codings,
	"llhttp/uri.md: Disallow UTF-8 in URI path in strict mode":                                      anyOctet,
	"llhttp/uri.md: Host terminated by a query string":                                              elsewhere,
	"llhttp/uri.md: `host:port` and basic auth":                                                     elsewhere,
	"llhttp/uri.md: `host:port` terminated by a query string":                                       elsewhere,
	"llhttp/uri.md: `host:port` terminated by a space":                                              elsewhere,
	"http11probe/COMP-ABSOLUTE-FORM":                                                                elsewhere, // in TLS
	"http11probe/COMP-HOST-EMPTY-VALUE":                                                             emptyHost,
	"http11probe/COMP-UNKNOWN-METHOD":                                                               anyMethod,
	"http11probe/MAL-NON-ASCII-URL":                                                                 anyOctet,
	"http11probe/MAL-URL-OVERLONG-UTF8":                                                             anyOctet,
}

// Replies are taken as browsers take them.
const (
	asBrowsers      = "browsers take it, and there is one view of its end"
	otherCodings    = "transfer-codings other than chunked are not taken, nor chunked twice or not as the last one: 502"
	notHTTP         = "RTSP, ICE and HTTP/0.9 are not taken: 502, and what came is recorded"
	lineInFront     = "no line is expected before the status line: 502, and what came is recorded"
	headCut         = "a head that the close of the connection ends may lack something: 502, and what came is recorded"
	notALength      = "a length of more than 63 bits: 502, and what came is recorded"
	nextReply       = "what curl refuses is the reply after this one"
	contentCodings  = "content-codings are not looked at"
	manyLocations   = "which Location counts is for the client to decide"
	trailerWithNUL  = "the field is kept from the client, the record has it"
	otherCurlReason = "curl was told to refuse it"
)

var explainedReplies = map[string]string{
	"curl-replies/test1122": otherCodings,
	"curl-replies/test1123": otherCodings,
	"curl-replies/test1124": otherCodings,
	"curl-replies/test1125": otherCodings,
	"curl-replies/test1170": otherCodings,
	"curl-replies/test1171": otherCodings,
	"curl-replies/test1277": otherCodings,
	"curl-replies/test1482": otherCodings,
	"curl-replies/test1483": otherCodings,
	"curl-replies/test1617": otherCodings,
	"curl-replies/test319":  otherCodings,
	"curl-replies/test1479": nextReply,
	"curl-replies/test1591": headCut,
	"curl-replies/test1598": headCut,
	"curl-replies/test2106": trailerWithNUL,
	"curl-replies/test2107": otherCurlReason,
	"curl-replies/test221":  contentCodings,
	"curl-replies/test223":  contentCodings,
	"curl-replies/test315":  contentCodings,
	"curl-replies/test395":  notALength,
	"curl-replies/test398":  asBrowsers,
	"curl-replies/test471":  otherCurlReason,
	"curl-replies/test580":  manyLocations,
	"curl-replies/test772":  manyLocations,

	"llhttp/connection.md: HTTP 100 first, then 400":                                                    lineInFront,
	"llhttp/invalid.md: Extra space between HTTP version and status code":                               asBrowsers,
	"llhttp/invalid.md: Invalid space after start line":                                                 asBrowsers,
	"llhttp/invalid.md: Only LFs present":                                                               asBrowsers,
	"llhttp/invalid.md: Only LFs present and no body":                                                   asBrowsers,
	"llhttp/sample.md: HTTP version 0.9":                                                                notHTTP,
	"llhttp/sample.md: ICE response":                                                                    notHTTP,
	"llhttp/sample.md: RTSP response":                                                                   notHTTP,
	"llhttp/sample.md: No carriage ret":                                                                 asBrowsers,
	"llhttp/sample.md: Response starting with CRLF":                                                     lineInFront,
	"llhttp/sample.md: Spaces in header name":                                                           asBrowsers,
	"llhttp/transfer-encoding.md: No extension after semicolon":                                         asBrowsers,
	"llhttp/transfer-encoding.md: No semicolon before chunk extensions":                                 asBrowsers,
	"llhttp/transfer-encoding.md: Trailing space on chunked body":                                       asBrowsers,
	"llhttp/transfer-encoding.md: Unbalanced chunk extensions quoting":                                  asBrowsers,
	"llhttp/transfer-encoding.md: `chunked` before other transfer-encoding":                             otherCodings,
	"llhttp/transfer-encoding.md: multiple transfer-encoding where chunked is not the last one":         otherCodings,
	"llhttp/transfer-encoding.md: `chunkedchunked` transfer-encoding does not enable chunked enconding": otherCodings,
}
