package cdx

import (
	"bufio"
	"encoding/json"
	"os"
	"strings"
	"testing"
	"unicode/utf8"
)

// A requestCase is a line of testdata/requests.jsonl. What is appended is what
// MethodQueryCanonicalizer of webrecorder/pywb 2.10.0b1 appends under Python 3.11;
// among the requests are those of the tests of pywb and of
// webrecorder/cdxj-indexer, and the examples of the IIPC's "CDX for non-GET
// requests".
type requestCase struct {
	Method, Type, URL string
	Body              string
	Octets            []byte // a body that is not UTF-8
	Appended, Query   string
}

func requestCases(t testing.TB) (cases []requestCase) {
	f, err := os.Open("testdata/requests.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		var c requestCase
		if err := json.Unmarshal(lines.Bytes(), &c); err != nil {
			t.Fatal(err)
		}
		if c.Octets == nil {
			c.Octets = []byte(c.Body)
		}
		cases = append(cases, c)
	}
	return cases
}

func TestRequest(t *testing.T) {
	cases := requestCases(t)
	if len(cases) < 60 {
		t.Errorf("there are %d cases", len(cases))
	}
	for _, c := range cases {
		r := Request{c.Method, c.Type, c.Octets}
		if appended, query := r.appendTo(c.URL); appended != c.Appended || query != c.Query {
			t.Errorf("%s %s of %q\n     gives %q, query %q\nwant %q, query %q", c.Method, c.Type, c.Octets, appended, query, c.Appended, c.Query)
		}
	}
}

// pywb cuts a query to 4096 characters.
func TestRequestLong(t *testing.T) {
	many := strings.Repeat(`"0123456789",`, MaxRequestBody/10)
	for _, c := range []struct{ kind, body, start, end string }{
		{"application/x-www-form-urlencoded", "a=" + strings.Repeat("%C3%BC", 5000), "a=ü", "üü"},
		{"application/json", `{"a":"` + strings.Repeat("ü", 5000) + `"}`, "a=%C3%BC", "%BC%C"},
		{"application/json", `{"a":[` + many[:500_000-500_000%13] + `"z"]}`, "a=0123456789&a.2_=0123456789", ""},
		{"text/html", strings.Repeat("\x00", 5000), "__wb_post_data=AAAA", "AA"},
		{"multipart/form-data; boundary=b", "--b\r\nContent-Disposition: form-data; name=\"n\"\r\n\r\n" + strings.Repeat("x", 5000) + "\r\n--b--\r\n", "n=xx", "xx"},
	} {
		query := (&Request{"POST", c.kind, []byte(c.body)}).query("POST")
		if n := utf8.RuneCountInString(query); n != maxQuery || !strings.HasPrefix(query, c.start) || !strings.HasSuffix(query, c.end) {
			t.Errorf("%s: %d characters, %.30q … %q", c.kind, n, query, query[len(query)-10:])
		}
	}
	// Beyond our own bounds a body is one that cannot be understood.
	for _, body := range []string{`{"a":[` + many + `"z"]}`, strings.Repeat(`{"a":`, 1000) + "1" + strings.Repeat("}", 1000)} {
		if query := (&Request{"POST", "application/json", []byte(body)}).query("POST"); query != "" {
			t.Errorf("%.20q…: %.30q", body, query)
		}
	}
}

func FuzzRequest(f *testing.F) {
	for _, c := range requestCases(f) {
		f.Add(c.Method, c.Type, c.Octets)
	}
	f.Fuzz(func(t *testing.T, method, kind string, body []byte) {
		before := string(body)
		r := Request{method, kind, body}
		const url = "http://example.org/?a=b"
		appended, query := r.appendTo(url)
		if string(body) != before {
			t.Error("the body is changed")
		}
		if !strings.HasPrefix(appended, url) || !strings.HasSuffix(appended, query) || utf8.RuneCountInString(query) > maxQuery {
			t.Errorf("%q, %q", appended, query)
		}
		if again, _ := r.appendTo(url); again != appended {
			t.Errorf("%q, then %q", appended, again)
		}
	})
}
