package repair

import (
	"bytes"
	"fmt"
	"slices"
	"testing"
)

func TestLinks(t *testing.T) {
	request := recordText("<q>", []byte("q"), true, "WARC-Concurrent-To", "<p>")
	response := recordText("<p>", []byte("p"), true, "WARC-Concurrent-To", "<q>")
	revisit := recordText("<r>", []byte("r"), true, "WARC-Refers-To", "<p>", "WARC-Concurrent-To", "<elsewhere>")
	bad := bytes.Replace(response, []byte("\r\n\r\np"), []byte("\r\n\r\nx"), 1)
	for _, test := range []struct {
		name string
		file []byte
		want []Link
	}{
		{"nothing lost", join(request, response, revisit), nil},
		{"response lost", join(request, bad, revisit), []Link{{"<r>", "WARC-Refers-To", "<p>"}, {"<q>", "WARC-Concurrent-To", "<p>"}, {"<r>", "WARC-Concurrent-To", "<elsewhere>"}}},
		{"lost before", join(bad, request), []Link{{"<q>", "WARC-Concurrent-To", "<p>"}}},
		{"without a name", join(request, response[100:]), []Link{{"<q>", "WARC-Concurrent-To", "<p>"}}},
		{"there twice", join(request, bad, response, revisit), []Link{{"<r>", "WARC-Concurrent-To", "<elsewhere>"}}},
	} {
		if res := repaired(t, test.file); !slices.Equal(res.links, test.want) {
			t.Errorf("%s: %+v, want %+v", test.name, res.links, test.want)
		}
	}
	// Far from what is lost a link to another file is no news.
	file := join(request, bad)
	for i := range 3 * linkWindow {
		file = append(file, recordText(fmt.Sprintf("<%d>", i), nil, false)...)
	}
	file = append(file, revisit...)
	file = append(file, recordText("<late>", nil, false, "WARC-Concurrent-To", "<p>")...)
	for i := range 2 * linkWindow {
		file = append(file, recordText(fmt.Sprintf("<x%d>", i), nil, false)...)
	}
	if res := repaired(t, file); len(res.links) != 3 {
		t.Errorf("%+v", res.links)
	}
}
