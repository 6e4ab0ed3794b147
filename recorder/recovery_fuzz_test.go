package recorder

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/warctee/warctee/rotate"
	"github.com/warctee/warctee/warc"
)

// A damaged file is one that the next start finds: what it was, and where its
// appends end.
type damaged struct {
	original []byte
	bounds   []int             // offsets behind the warcinfo and behind each exchange
	records  map[string]int    // how often each record is in it: header and block
	blocks   map[string][]byte // by record id
}

// newDamaged makes a file of up to seven exchanges as the writer lays them
// out, some of them with a note or as a revisit, and records that stand alone.
func newDamaged(seed uint64, opts warc.WriterOptions) *damaged {
	rng := rand.New(rand.NewPCG(seed, 1))
	d := &damaged{records: make(map[string]int), blocks: make(map[string][]byte)}
	var file bytes.Buffer
	w := warc.NewWriter(&file, opts)
	serial := 0
	newID := func() string {
		serial++
		return fmt.Sprintf("<urn:uuid:00000000-0000-4000-8000-%012d>", serial)
	}
	add := func(kind, id string, others ...string) {
		block := make([]byte, rng.IntN(1<<rng.IntN(12)))
		if rng.IntN(2) == 0 {
			for i := range block {
				block[i] = byte(rng.Uint32())
			}
		}
		digest := warc.SHA256.New()
		digest.Write(block)
		h := warc.Header{{Name: "WARC-Type", Value: kind}, {Name: "WARC-Record-ID", Value: id}, {Name: "WARC-Date", Value: warc.FormatDate(time.Unix(int64(serial), 0), warc.V1_1)}}
		for _, other := range others {
			h.Add("WARC-Concurrent-To", other)
		}
		h.Add("WARC-Block-Digest", warc.SHA256.Format(digest.Sum(nil)))
		if err := w.WriteRecord(h, bytes.NewReader(block), int64(len(block))); err != nil {
			panic(err)
		}
		d.blocks[id] = block
	}
	end := func() { d.bounds = append(d.bounds, file.Len()) }
	add(warc.TypeWarcinfo, newID())
	end()
	for range rng.IntN(8) {
		request, response, note := newID(), newID(), newID()
		switch rng.IntN(4) {
		case 0:
			add(warc.TypeResource, request)
		case 1:
			add(warc.TypeRequest, request, response, note)
			add(warc.TypeResponse, response, request)
			add(warc.TypeMetadata, note, response)
		default:
			add(warc.TypeRequest, request, response)
			add(warc.TypeRevisit, response, request)
		}
		end()
	}
	d.original = file.Bytes()
	for _, r := range readBack(d.original) {
		d.records[r.key]++
	}
	return d
}

type readRecord struct {
	key   string // all of it
	id    string
	block []byte
	want  string // its block digest
}

// readBack reads up to the first damage.
func readBack(file []byte) (records []readRecord) {
	z := warc.NewReader(bytes.NewReader(file))
	z.Strict = true
	for {
		r, err := z.Next()
		if err != nil {
			return records
		}
		block, err := io.ReadAll(z)
		if err != nil {
			return records
		}
		records = append(records, readRecord{fmt.Sprintf("%q %x", r.Header, block), r.ID(), block, r.Header.Get("WARC-Block-Digest")})
	}
}

// damage does to a copy of the file what the octets of how say.
func (d *damaged) damage(how []byte) []byte {
	file := bytes.Clone(d.original)
	for ; len(how) >= 8; how = how[8:] {
		at := int(binary.LittleEndian.Uint16(how[1:])) % (len(file) + 1)
		n := int(binary.LittleEndian.Uint16(how[3:])) % 1024
		part := file[at:min(at+n, len(file))]
		switch how[0] % 6 {
		case 0: // the end is missing
			file = file[:at]
		case 1: // an octet is another
			if at < len(file) {
				file[at] ^= how[5] | 1
			}
		case 2: // a page was never written
			clear(part)
		case 3: // or has old octets in it
			copy(part, file[int(binary.LittleEndian.Uint16(how[5:]))%(len(file)+1):])
		case 4: // something is too much
			file = append(file, bytes.Repeat(how[5:8], n)...)
		case 5: // something is missing in the middle
			file = append(file[:at], file[at+len(part):]...)
		}
	}
	return file
}

// whole is the end of the last append that lies before all damage; same is how
// much does.
func (d *damaged) whole(file []byte) (bound, same int) {
	for same < min(len(file), len(d.original)) && file[same] == d.original[same] {
		same++
	}
	for _, b := range d.bounds {
		if b <= same {
			bound = b
		}
	}
	return bound, same
}

// FuzzRecovery: whatever happens to an unfinished file, the next start keeps all
// that is whole before the damage, invents nothing, and throws nothing away.
func FuzzRecovery(f *testing.F) {
	dictionary := testDictionary(f)
	forms := []warc.WriterOptions{{}, {Compression: warc.Plain}, {Compression: warc.Zstd}, {Compression: warc.Zstd, Dictionary: dictionary}, {SkipLengths: true}}
	for seed := range uint64(8) {
		f.Add(seed, uint8(seed), []byte{0, byte(seed * 50), 1, 0, 0, 0, 0, 0})
		f.Add(seed, uint8(seed+1), []byte{byte(seed), 200, byte(seed % 3), 40, 0, 1, 2, 3, 1, 100, 0, 0, 0, 9, 9, 9})
	}
	f.Add(uint64(9), uint8(0), []byte{})
	f.Fuzz(func(t *testing.T, seed uint64, form uint8, how []byte) {
		if len(how) > 64 {
			return
		}
		opts := forms[int(form)%len(forms)]
		d := newDamaged(seed, opts)
		file := d.damage(how)
		dir := quickDir(t)
		const name = "a.warc.gz"
		if err := os.WriteFile(filepath.Join(dir, name+".open"), file, 0o644); err != nil {
			t.Fatal(err)
		}
		recovered := openAndClose(t, dir)
		if len(recovered) != 1 {
			t.Fatalf("recovered %+v", recovered)
		}
		kept, tail := readIfAny(t, dir, recovered[0].Name), readIfAny(t, dir, recovered[0].Tail)
		if !bytes.Equal(append(bytes.Clone(kept), tail...), file) {
			t.Fatalf("of %d bytes %d were kept and %d set aside, or others", len(file), len(kept), len(tail))
		}
		if bound, same := d.whole(file); len(kept) < bound || len(kept) <= same && len(kept) != bound {
			t.Fatalf("%d bytes were kept, but %d are whole before the damage at %d", len(kept), bound, same)
		}
		d.checkKept(t, kept, opts.Compression == warc.Plain)
		if again := openAndClose(t, dir); len(again) != 0 {
			t.Fatalf("the second start recovers %+v", again)
		}
	})
}

// checkKept: each record is one of those that were written.
func (d *damaged) checkKept(t *testing.T, kept []byte, plain bool) {
	good, err := warc.Whole(bytes.NewReader(kept))
	if err != nil || good != int64(len(kept)) {
		t.Fatalf("of what was kept, %d bytes, %d are whole (%v)", len(kept), good, err)
	}
	for _, r := range readBack(kept) {
		if d.records[r.key] > 0 {
			continue
		}
		if !plain {
			t.Fatalf("kept is a record that nobody wrote: %.300q", r.key)
		}
		// Without checksums of gzip a header can be another one unnoticed,
		// not a block.
		digest := warc.SHA256.New()
		digest.Write(r.block)
		if r.want != "" && r.want != warc.SHA256.Format(digest.Sum(nil)) {
			if _, err := warc.ParseDigest(r.want); err == nil {
				t.Fatalf("kept is a block that does not agree with its digest: %.300q", r.key)
			}
		}
	}
}

// quickDir is a directory whose disk is memory, where there is one: many times as many
// tries.
func quickDir(t *testing.T) string {
	dir, err := os.MkdirTemp("/dev/shm", "warctee-")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

func openAndClose(t *testing.T, dir string) []rotate.Recovery {
	set, err := rotate.Open(rotate.Options{Dir: dir, Name: func(string, time.Time, int) string { return "new.warc.gz" }, Verify: warc.Whole, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	if err := set.Close(); err != nil {
		t.Fatal(err)
	}
	return set.Recovered()
}

func readIfAny(t *testing.T, dir, name string) []byte {
	if name == "" {
		return nil
	}
	b, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		t.Fatal(err)
	}
	return b
}
