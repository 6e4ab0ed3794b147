package recorder

import (
	"math/rand/v2"
	"testing"

	"golang.org/x/net/idna"
)

// TestPlainHost: idna changes nothing of what is called plain.
func TestPlainHost(t *testing.T) {
	const alphabet = "aznx019.--xn--AÄ_%:"
	rng := rand.New(rand.NewPCG(1, 1))
	plain := 0
	for range 200_000 {
		host := make([]rune, rng.IntN(12))
		for i := range host {
			host[i] = []rune(alphabet)[rng.IntN(len([]rune(alphabet)))]
		}
		if h := string(host); isPlainHost(h) {
			plain++
			if ascii, err := idna.Lookup.ToASCII(h); err == nil && ascii != h {
				t.Errorf("%q becomes %q", h, ascii)
			}
		}
	}
	if plain < 1000 || isPlainHost("xn--bcher-kva.example") || isPlainHost("Example.org") || !isPlainHost("www.some-example.org") {
		t.Errorf("%d hosts are plain", plain)
	}
}

func TestSplitAuthority(t *testing.T) {
	for _, test := range []struct{ scheme, authority, host, port string }{
		{"http", "example.org", "example.org", "80"},
		{"https", "example.org", "example.org", "443"},
		{"https", "EXAMPLE.org:8443", "example.org", "8443"},
		{"http", "example.org:", "example.org", "80"},
		{"http", "[::1]", "::1", "80"},
		{"http", "[::1]:8080", "::1", "8080"},
		{"http", "::1", "::1", "80"},
		{"http", "bücher.example", "xn--bcher-kva.example", "80"},
		{"http", "a_b.example:81", "a_b.example", "81"},
	} {
		if host, port := splitAuthority(test.scheme, test.authority); host != test.host || port != test.port {
			t.Errorf("%s: %q, %q", test.authority, host, port)
		}
	}
}
