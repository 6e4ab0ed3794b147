package dedup

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"log/slog"
	"path/filepath"
	"testing"
)

// realEntry is an entry as recorders make them: digests come in no order.
func realEntry(i int) Entry {
	digest := sha256.Sum256(binary.BigEndian.AppendUint64(nil, uint64(i)))
	return Entry{
		Digest: "sha256:" + hex.EncodeToString(digest[:]),
		Capture: Capture{
			RecordID:  "<urn:uuid:7b1d3f5e-2a4c-4e6f-8091-a2b3c4d5e6f7>",
			TargetURI: "https://www.example.org/some/path/of/usual/length.html?q=1",
			Date:      "2026-01-02T03:04:05.678Z",
			File:      "warctee-20260102030405678-00000-host.warc.gz",
			Offset:    int64(i) * 1000,
			Length:    1000,
		},
	}
}

// benchmarkStores runs f on each store, with so many entries in it.
func benchmarkStores(b *testing.B, known int, f func(b *testing.B, x Index)) {
	open := map[string]func(b *testing.B) Index{
		"memory": func(*testing.B) Index { return NewMemory() },
		"bolt": func(b *testing.B) Index {
			x, err := OpenBolt(filepath.Join(b.TempDir(), "dedup.bolt"), slog.New(slog.DiscardHandler))
			if err != nil {
				b.Fatal(err)
			}
			return x
		},
	}
	for _, name := range []string{"memory", "bolt"} {
		b.Run(name, func(b *testing.B) {
			x := open[name](b)
			defer x.Close()
			entries := make([]Entry, known)
			for i := range entries {
				entries[i] = realEntry(i)
			}
			if err := x.Commit(entries); err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			f(b, x)
		})
	}
}

func BenchmarkLookup(b *testing.B) {
	const known = 10_000
	for _, hit := range []bool{true, false} {
		name, first := "hit", 0
		if !hit {
			name, first = "miss", known
		}
		b.Run(name, func(b *testing.B) {
			digests := make([]string, known)
			for i := range digests {
				digests[i] = realEntry(first + i).Digest
			}
			benchmarkStores(b, known, func(b *testing.B, x Index) {
				i := 0
				for b.Loop() {
					i = (i + 7919) % known
					if _, ok, err := x.Lookup(digests[i]); ok != hit || err != nil {
						b.Fatal(ok, err)
					}
				}
			})
		})
	}
}

// BenchmarkCommit commits 100 entries at a time, as a busy recorder does.
func BenchmarkCommit(b *testing.B) {
	const known = 10_000
	benchmarkStores(b, known, func(b *testing.B, x Index) {
		next := known
		entries := make([]Entry, 100)
		for b.Loop() {
			for i := range entries {
				entries[i] = realEntry(next)
				next++
			}
			if err := x.Commit(entries); err != nil {
				b.Fatal(err)
			}
		}
	})
}
