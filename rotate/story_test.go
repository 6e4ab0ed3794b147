package rotate

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// A story is what an owner does with a set: it appends, syncs now and then,
// and when something fails sets the file aside and appends again what was not
// durable.
type story struct {
	set      *Set
	files    map[string]*File
	unsynced map[string][]string
	good     map[string]int64 // length that is durable
	durable  []string         // what the owner was told to be durable
	whole    []string         // what is appended, durable or not
	refused  []string         // what could not be appended
	told     []error
}

const storyAppends = 11

func (s *story) run(o Options) {
	s.files, s.unsynced = make(map[string]*File), make(map[string][]string)
	s.good = make(map[string]int64)
	var err error
	if s.set, err = Open(o); err != nil {
		s.told = append(s.told, err)
		return
	}
	for i := range storyAppends {
		series := "a"
		if i%4 == 3 {
			series = "b"
		}
		s.append(series, fmt.Sprintf("%d %s", i, strings.Repeat("x", 20)))
		if i%3 == 2 {
			s.sync()
		}
		if i == 7 {
			s.sync()
			s.tell(s.set.Finish())
		}
	}
	s.sync()
	s.tell(s.set.Close())
	s.set.lock.Close() // as the end of the process does
}

func (s *story) tell(err error) {
	if err != nil {
		s.told = append(s.told, err)
	}
}

func (s *story) append(series, content string) {
	for range 4 {
		f, err := s.set.Current(series)
		if err == nil {
			if old := s.files[series]; old != f {
				s.settle(series)
				s.files[series], s.good[series] = f, f.Size()
			}
			if _, err = begun(f, nil); err != nil {
				s.tell(err)
				s.startOver(series)
				continue
			}
			if _, _, err = f.Append(strings.NewReader(frame(content)), strings.NewReader(frame(content+"'"))); err == nil {
				s.unsynced[series] = append(s.unsynced[series], content)
				s.whole = append(s.whole, content)
				return
			}
		}
		s.tell(err)
		s.startOver(series)
	}
	s.refused = append(s.refused, content)
}

// settle notes that a file is durable.
func (s *story) settle(series string) {
	s.durable = append(s.durable, s.unsynced[series]...)
	s.unsynced[series] = nil
	if f := s.files[series]; f != nil {
		s.good[series] = f.Size()
	}
}

func (s *story) sync() {
	for _, series := range []string{"a", "b"} {
		f := s.files[series]
		if f == nil {
			continue
		}
		if err := f.Sync(); err != nil {
			s.tell(err)
			s.startOver(series)
		} else {
			s.settle(series)
		}
	}
}

func (s *story) startOver(series string) {
	f := s.files[series]
	if f == nil {
		return
	}
	if f.Sync() == nil {
		s.settle(series)
	}
	again := s.unsynced[series]
	s.unsynced[series] = nil
	delete(s.files, series)
	err := f.SetAside(s.good[series])
	s.tell(err)
	if errors.Is(err, ErrLeft) { // they may come back
		s.refused = append(s.refused, again...)
		s.files[series] = f
		return
	}
	for _, content := range again {
		s.append(series, content)
	}
}

// read returns what is in the files of a directory with a final name, and in
// the others.
func readAll(t *testing.T, dir string) (final, others []string) {
	t.Helper()
	for _, name := range list(t, dir) {
		b, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		contents, good := frames(b)
		if strings.HasSuffix(name, OpenSuffix) || strings.Contains(name, ".bad-") || strings.Contains(name, ".tail") {
			others = append(others, contents...)
			continue
		}
		if int(good) != len(b) || len(contents) == 0 || !strings.HasPrefix(contents[0], "file ") {
			t.Errorf("%s is not made of whole appends: %d of %d bytes", name, good, len(b))
			continue
		}
		contents = contents[1:]
		for i, c := range contents {
			if i%2 == 1 && c != contents[i-1]+"'" || len(contents)%2 == 1 {
				t.Errorf("%s holds half of an append: %q", name, contents)
				break
			}
		}
		final = append(final, contents...)
	}
	return final, others
}

// recoverStory opens the directory without faults and checks what is in it.
func recoverStory(t *testing.T, dir string) []string {
	t.Helper()
	o := testOptions(dir)
	o.Verify = verifyPairs
	closeSet(t, open(t, o))
	final, _ := readAll(t, dir)
	for _, name := range list(t, dir) {
		if strings.HasSuffix(name, OpenSuffix) {
			t.Errorf("%s is left", name)
		}
	}
	return final
}

func storyOptions(dir string, f *faultFS) Options {
	o := testOptions(dir)
	o.FS = f
	o.MaxSize = 170 // three appends
	o.Verify = verifyPairs
	return o
}

// checkStory checks a directory after a story in whose course something
// failed, but the process lived.
func checkStory(t *testing.T, dir string, s *story) {
	t.Helper()
	final, others := readAll(t, dir)
	for _, c := range s.durable {
		if !slices.Contains(final, c) && !slices.Contains(others, c) {
			t.Errorf("%q was durable and is nowhere", c)
		}
		if !slices.Contains(final, c) && len(s.told) == 0 {
			t.Errorf("%q is not under a final name, and nobody was told", c)
		}
	}
	for _, c := range final {
		if n := count(final, c); n != 1 {
			t.Errorf("%q is there %d times", c, n)
		}
	}
	if len(s.told) == 0 && (len(s.refused) > 0 || len(s.durable) != storyAppends) {
		t.Errorf("%d refused, %d durable, and nobody was told", len(s.refused), len(s.durable))
	}
	recovered := recoverStory(t, dir)
	for _, c := range recovered {
		if n := count(recovered, c); n != 1 {
			t.Errorf("%q is there %d times after recovery", c, n)
		}
	}
	for _, c := range s.durable {
		if !slices.Contains(recovered, c) && !slices.Contains(others, c) {
			t.Errorf("%q is gone after recovery", c)
		}
	}
}

func count(all []string, c string) (n int) {
	for _, x := range all {
		if x == c {
			n++
		}
	}
	return n
}
