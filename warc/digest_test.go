package warc

import (
	"errors"
	"strings"
	"testing"
)

// Sums of "abc", from FIPS 180-4's examples and RFC 1321.
var abcSums = map[Algorithm][]string{
	SHA1:   {"sha1:VGMT4NSHA2AWVOR6EVYXQUGCNSONBWE5", "sha-1:vgmt4nsha2awvor6evyxqugcnsonbwe5", "SHA1:a9993e364706816aba3e25717850c26c9cd0d89d"},
	SHA256: {"sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad", "SHA-256:XJ4BNP4PAHH6UQKBIDPF3LRCEOYAGYNDSYLXVHFUCD7WD4QACWWQ====", "sha256:xj4bnp4pahh6uqkbidpf3lrceoyagyndsylxvhfucd7wd4qacwwq"},
	SHA512: {"sha512:ddaf35a193617abacc417349ae20413112e6fa4e89a97ea20a9eeee64b55d39a2192992a274fc1a836ba3c23a3feebbd454d4423643ce80e2a9ac94fa54ca49f"},
	MD5:    {"md5:900150983cd24fb0d6963f7d28e17f72", "md5:SAAVBGB42JH3BVUWH56SRYL7OI======", "MD5:900150983CD24FB0D6963F7D28E17F72"},
}

func TestDigests(t *testing.T) {
	for a, forms := range abcSums {
		h := a.New()
		h.Write([]byte("abc"))
		sum := h.Sum(nil)
		if got := a.Format(sum); got != forms[0] {
			t.Errorf("%v: Format gives %q", a, got)
		}
		for _, form := range forms {
			d, err := ParseDigest(form)
			if err != nil || !d.Equal(Digest{a, sum}) || d.String() != forms[0] {
				t.Errorf("%q: %v, %v", form, d, err)
			}
			if a2, err := ParseAlgorithm(strings.Split(form, ":")[0]); err != nil || a2 != a {
				t.Errorf("%q: %v, %v", form, a2, err)
			}
		}
	}
}

func TestDigestDifferent(t *testing.T) {
	d, _ := ParseDigest(abcSums[SHA1][0])
	if d.Equal(Digest{SHA256, d.Sum}) || d.Equal(Digest{SHA1, make([]byte, 20)}) {
		t.Error("different digests are equal")
	}
}

func TestParseDigestRefuses(t *testing.T) {
	for _, s := range []string{"", "sha1", "sha1:", "sha1:VGMT", "sha1:g9993e364706816aba3e25717850c26c9cd0d89d", "sha1:1GMT4NSHA2AWVOR6EVYXQUGCNSONBWE5", "md5:" + strings.Repeat("a", 40)} {
		if d, err := ParseDigest(s); err == nil || errors.Is(err, ErrUnknownAlgorithm) {
			t.Errorf("%q: %v, %v", s, d, err)
		}
	}
	if _, err := ParseDigest("blake3:abc"); !errors.Is(err, ErrUnknownAlgorithm) {
		t.Error(err)
	}
}
