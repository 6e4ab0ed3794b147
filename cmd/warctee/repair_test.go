package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/warctee/warctee/warc"
	"github.com/warctee/warctee/warc/warctest"
)

// What is repaired is a good archive: with gaps of zeros, garbage, a cut, and
// members that are not one record each.
func TestRepairedIsGood(t *testing.T) {
	var members [][]byte
	var warcinfo string
	for i := range 20 {
		h := warc.Header{{Name: "WARC-Type", Value: "resource"}, {Name: "WARC-Record-ID", Value: warc.NewRecordID()}, {Name: "WARC-Date", Value: "2026-01-02T03:04:05Z"}}
		block := fmt.Sprintf("this is block %d", i)
		if i == 0 {
			h[0].Value, block, warcinfo = "warcinfo", "software: test\r\n", h[1].Value
			h.Add("WARC-Filename", "a.warc.gz")
			h.Add("Content-Type", "application/warc-fields")
		} else {
			h.Add("WARC-Target-URI", fmt.Sprintf("http://origin.example/%d", i))
			h.Add("WARC-Warcinfo-ID", warcinfo)
			h.Add("Content-Type", "text/plain")
		}
		sum := warc.SHA256.New()
		sum.Write([]byte(block))
		h.Add("WARC-Block-Digest", warc.SHA256.Format(sum.Sum(nil)))
		var b bytes.Buffer
		if err := warc.NewWriter(&b, warc.WriterOptions{}).WriteRecord(h, strings.NewReader(block), int64(len(block))); err != nil {
			t.Fatal(err)
		}
		members = append(members, b.Bytes())
	}
	good := bytes.Join(members, nil)
	bad := append(bytes.Join(members[:5], nil), make([]byte, 5000)...)
	bad = append(bad, members[5][20:]...)
	bad = append(bad, bytes.Join(members[6:19], []byte("garbage"))...)
	bad = append(bad, members[19][:30]...)

	dir := t.TempDir()
	in, out := filepath.Join(dir, "a.warc.gz"), filepath.Join(dir, "repaired", "a.warc.gz")
	if err := os.Mkdir(filepath.Dir(out), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(in, bad, 0o600); err != nil {
		t.Fatal(err)
	}
	code, stdout, stderr := inProcess(t, "repair", "--out", out, in)
	if code != exitFound || !strings.Contains(stdout, "18 records kept and 0 rewritten in "+out) {
		t.Errorf("exit code %d, %s%s", code, stdout, stderr)
	}
	if records := warctest.Check(t, filepath.Dir(out)); len(records) != 18 {
		t.Errorf("%d records", len(records))
	}
	if now, err := os.ReadFile(in); err != nil || !bytes.Equal(now, bad) {
		t.Errorf("the input was changed: %v", err)
	}
	saved, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	lost, err := os.ReadFile(out + ".lost")
	if err != nil || len(saved)+len(lost) != len(bad) {
		t.Errorf("%d bytes saved and %d lost of %d: %v", len(saved), len(lost), len(bad), err)
	}

	// A file that is whole is left alone, and so is what is there.
	if err := os.WriteFile(in, good, 0o600); err != nil {
		t.Fatal(err)
	}
	if code, stdout, _ := inProcess(t, "repair", "--out", out, in); code != exitOK || !strings.Contains(stdout, "whole, 20 records") {
		t.Errorf("exit code %d, %s", code, stdout)
	}
	if now, err := os.ReadFile(out); err != nil || !bytes.Equal(now, saved) {
		t.Errorf("what was there was changed: %v", err)
	}
	entries, err := os.ReadDir(filepath.Dir(out))
	if err != nil || len(entries) != 2 {
		t.Errorf("%v, %v: something is left over", entries, err)
	}
}

// No file is replaced that is an input, or what another became.
func TestRepairReplacesNothing(t *testing.T) {
	dir := t.TempDir()
	in := filepath.Join(dir, "a.warc")
	const bad = "WARC/1.1\r\nWARC-Type: x\r\nContent-Length: 1\r\n\r\nx\r\n\r\ngarbage"
	other := filepath.Join(dir, "other", "a.warc")
	if err := os.Mkdir(filepath.Dir(other), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{in, other} {
		if err := os.WriteFile(path, []byte(bad), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if code, _, stderr := inProcess(t, "repair", "--force", "--out", in, in); code != exitError || !strings.Contains(stderr, "is the damaged file itself") {
		t.Errorf("exit code %d, %s", code, stderr)
	}
	if code, _, stderr := inProcess(t, "repair", "--force", "--out", dir, in, other); code != exitError || !strings.Contains(stderr, "was just made from another file") {
		t.Errorf("exit code %d, %s", code, stderr)
	}
	if now, err := os.ReadFile(in); err != nil || string(now) != bad {
		t.Errorf("%q, %v", now, err)
	}
}

// Nothing remains of a repair that fails.
func TestRepairFails(t *testing.T) {
	dir := t.TempDir()
	in := filepath.Join(dir, "a.warc")
	if err := os.WriteFile(in, []byte("WARC/1.1\r\nWARC-Type: x\r\nContent-Length: 1\r\n\r\nx\r\n\r\ngarbage"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "a.repaired.warc.lost"), []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	code, _, stderr := inProcess(t, "repair", in)
	if code != exitError || !strings.Contains(stderr, "a.repaired.warc.lost exists") {
		t.Errorf("exit code %d, %s", code, stderr)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 2 {
		t.Errorf("%v, %v: something is left over", entries, err)
	}
	code, stdout, _ := inProcess(t, "repair", "--force", in)
	if lost, err := os.ReadFile(filepath.Join(dir, "a.repaired.warc.lost")); code != exitFound || err != nil || string(lost) != "garbage" {
		t.Errorf("exit code %d, %q, %v, %s", code, lost, err, stdout)
	}
}
