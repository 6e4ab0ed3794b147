package cdx

import (
	"bytes"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
)

// Lines that are not sorted in memory are where they belong, also when they differ
// only in what is not in memory, and nothing is left of the file that has them.
func TestIndexLong(t *testing.T) {
	var records []testRecord
	for n := range 300 {
		target := "http://example.org/" + strings.Repeat("x", []int{0, 10, 30_000, 900 + n}[n%4])
		if n%3 == 0 {
			target += fmt.Sprint(n * 7 % 300)
		}
		records = append(records, testRecord{"response", target, isResponse, page})
	}
	dir := t.TempDir()
	a, b := write(t, "a.warc.gz", records), write(t, "b.warc.gz", records[100:])
	_, lines := index(t, Options{TempDir: dir, Jobs: 2}, a, b)
	if len(lines) != 500 || !slices.IsSorted(lines) {
		t.Errorf("%d lines, sorted: %v", len(lines), slices.IsSorted(lines))
	}
	short, around := 0, 0
	for _, line := range lines {
		if len(line) <= keptOctets {
			short++
		}
		if len(line) > keptOctets-100 && len(line) < keptOctets+100 {
			around++
		}
	}
	if short == 0 || short > 400 || around < 10 {
		t.Errorf("%d short lines, %d of nearly that length: this tests nothing", short, around)
	}
	if _, other := index(t, Options{TempDir: dir, Jobs: 1}, b, a); !slices.Equal(other, lines) {
		t.Error("the order of the files makes another index")
	}
	if left, _ := os.ReadDir(dir); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

// What is sorted in memory is never long.
func TestLongLines(t *testing.T) {
	l := longLines{dir: t.TempDir()}
	for _, size := range []int{1, keptOctets - 1, keptOctets, keptOctets + 1, MaxLine} {
		line := append(bytes.Repeat([]byte("x"), size-1), '\n')
		kept, err := l.keep(line)
		if err != nil || len(kept) > keptOctets+40 {
			t.Errorf("%d octets are kept as %d, %v", size, len(kept), err)
		}
		if whole, err := l.whole(kept); err != nil || whole != string(line) {
			t.Errorf("%d octets come back as %d, %v", size, len(whole), err)
		}
	}
	a, _ := l.keep([]byte(strings.Repeat("x", keptOctets) + "b\n"))
	b, _ := l.keep([]byte(strings.Repeat("x", keptOctets) + "a\n"))
	if l.compare(a, b) <= 0 || l.compare(b, a) >= 0 || l.compare(a, a) != 0 {
		t.Error("the rest of lines that begin alike is not compared")
	}
	l.f.Close()
	l.compare(a, b)
	if err := l.close(); err == nil {
		t.Error("lines that cannot be read are no error")
	}
}
