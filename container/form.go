package container

import (
	"bytes"
	"fmt"
	"io"
	"strings"

	"github.com/klauspost/compress/gzip"
	"github.com/warctee/warctee/arc"
)

// A Form is what a file is.
type Form string

// The forms that are recognised. A file that has none of them is Unknown: it may be a
// damaged WARC file.
const (
	Unknown Form = ""
	WARC    Form = "WARC"
	ARC     Form = "ARC"
	Zip     Form = "zip" // a WACZ is one
	LZ4     Form = "lz4"
	XZ      Form = "xz"
	Bzip2   Form = "bzip2"
)

// magics start files of a form.
var magics = []struct {
	start string
	form  Form
}{
	{"WARC/", WARC},
	{"\x28\xb5\x2f\xfd", WARC}, // RFC 8878 §3.1.1
	{"\x5d\x2a\x4d\x18", WARC}, // a dictionary (IIPC, Zstandard in WARC)
	{"filedesc:", ARC},         // whatever follows
	{"PK\x03\x04", Zip},        // APPNOTE.TXT §4.3.7
	{"PK\x05\x06", Zip},        // an empty one (§4.3.16)
	{"\x04\x22\x4d\x18", LZ4},  // LZ4 Frame Format
	{"\x02\x21\x4c\x18", LZ4},  // its legacy frame
	{"\xfd7zXZ\x00", XZ},       // The .xz File Format §2.1.1.1
	{"BZh", Bzip2},             //
}

// sniffed is how much of a file decides about its form, in octets.
const sniffed = 4 << 10

// FormOf returns the form of a file by its start. Gzip counts as what is in it. The
// error is one of reading.
func FormOf(r io.ReaderAt, size int64) (Form, error) {
	start := make([]byte, min(sniffed, size))
	n, err := r.ReadAt(start, 0)
	if err != nil && err != io.EOF {
		return Unknown, err
	}
	start = start[:n]
	if bytes.HasPrefix(start, []byte("\x1f\x8b")) {
		inner := make([]byte, len("filedesc:"))
		z, err := gzip.NewReader(bytes.NewReader(start))
		if err != nil {
			return Unknown, nil
		}
		n, _ := io.ReadFull(z, inner)
		start = inner[:n]
	}
	for _, m := range magics {
		if bytes.HasPrefix(start, []byte(m.start)) {
			return m.form, nil
		}
	}
	if rec, err := arc.NewReader(io.NewSectionReader(r, 0, size)).Next(); err == nil && rec.Damage == nil {
		return ARC, nil // without the record that describes it
	}
	return Unknown, nil
}

// A FormError says that a file is none that was wanted, and what can be done with it.
type FormError struct {
	Path string
	Form Form
}

func (e *FormError) Error() string {
	text := advice[e.Form]
	if e.Form == Zip && strings.Contains(e.Path, suffix) {
		text = packageAdvice
	}
	return fmt.Sprintf("%s: %s", e.Path, text)
}

const packageAdvice = "this is a WACZ, a package: 'warctee ls', 'check', 'show', 'cat', 'grep' and 'index' read the WARC files in it, and 'warctee pack --verify' verifies it; for the rest take them out with: unzip NAME.wacz 'archive/*'"

var advice = map[Form]string{
	ARC:   "this is an ARC file, the format before WARC: 'warctee index' reads it as it is; for the rest make a WARC file of it with 'warctee convert'",
	Zip:   "this is a zip file, and no WACZ by its name or content: take what is in it out with unzip",
	LZ4:   "this is compressed with lz4, which WARC files are not: decompress it with 'lz4 -d', and compress the result with 'warctee convert --compress zstd' if it should be small",
	XZ:    "this is compressed with xz, which WARC files are not: decompress it with 'xz -dk', and compress the result with 'warctee convert --compress zstd' if it should be small",
	Bzip2: "this is compressed with bzip2, which WARC files are not: decompress it with 'bzip2 -dk', and compress the result with 'warctee convert --compress zstd' if it should be small",
}

// Want returns a [*FormError] when the file that path names is certainly not of one of
// the forms.
func Want(path string, forms ...Form) error {
	f, err := Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	return f.want(forms)
}

func (f *File) want(forms []Form) error {
	form, err := FormOf(f, f.Size)
	if err != nil {
		return fmt.Errorf("%s: %w", f.Path, err)
	}
	for _, wanted := range forms {
		if form == wanted {
			return nil
		}
	}
	if form == Unknown { // a WARC file may be damaged at its start
		return nil
	}
	return &FormError{f.Path, form}
}
