package main

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/dustin/go-humanize"
	"github.com/spf13/pflag"
	"github.com/warctee/warctee/recorder"
	"github.com/warctee/warctee/rotate"
)

// storageFlags say what happens when the disk gets full or fails, and who may
// read the files.
type storageFlags struct {
	minFree   freeFlag
	onFailure *choiceFlag
	fileMode  modeFlag
}

func (f *storageFlags) register(flags *pflag.FlagSet) {
	f.onFailure = choice("pause", "stop")
	f.fileMode = 0o644
	flags.Var(&f.minFree, "min-free", "space that has to stay free on the disk of --dir, such as 10GB or 5%; with less, requests get 503. 0 for none (default: 1GB, or 1% where that is less)")
	flags.Var(f.onFailure, "on-failure", "what to do when the archive cannot be written to, or the disk is nearly full: pause until that has passed, or stop for good")
	flags.Var(&f.fileMode, "file-mode", "permissions of the WARC files, less the umask")
}

// check refuses what could never be: to keep more free than there is.
func (f *storageFlags) check(dir string) error {
	if f.minFree.bytes <= 0 {
		return nil
	}
	for at := dir; ; {
		_, total, err := rotate.Free(at)
		if err == nil && total > 0 && uint64(f.minFree.bytes) >= total {
			return usageError{fmt.Errorf("--min-free %s: the file system of %s has %s altogether, so that nothing would ever be recorded", f.minFree.text, dir, humanize.Bytes(total))}
		}
		parent := filepath.Dir(at)
		if !errors.Is(err, fs.ErrNotExist) || parent == at {
			return nil
		}
		at = parent // it is about to be made there
	}
}

// addTo puts the values into the options of a recorder.
func (f *storageFlags) addTo(o *recorder.Options) {
	o.MinFree, o.MinFreePercent = f.minFree.bytes, f.minFree.percent
	o.StopForGood = f.onFailure.value == "stop"
	o.FileMode = fs.FileMode(f.fileMode)
}

// A freeFlag is a size, or a part of the disk: 10GB, 5%. The zero value is the
// default.
type freeFlag struct {
	bytes   int64   // negative: none
	percent float64 // used unless it is 0
	text    string
}

func (f *freeFlag) Set(text string) error {
	var set freeFlag
	var size sizeFlag
	if number, ok := strings.CutSuffix(text, "%"); ok {
		percent, err := strconv.ParseFloat(number, 64)
		if err != nil || !(percent >= 0 && percent < 100) {
			return fmt.Errorf("%q is not a part of the disk such as 5%%", text)
		}
		set.percent = percent
	} else if err := size.Set(text); err != nil {
		return fmt.Errorf("%q is neither a size such as 10GB nor a part of the disk such as 5%%", text)
	}
	set.bytes = int64(size)
	if set.bytes == 0 && set.percent == 0 {
		set.bytes = -1
	}
	set.text = text
	*f = set
	return nil
}

func (f *freeFlag) Type() string   { return "SIZE|PERCENT" }
func (f *freeFlag) String() string { return f.text }

// A modeFlag is the permissions of a file, in octal.
type modeFlag fs.FileMode

func (m *modeFlag) Set(text string) error {
	n, err := strconv.ParseUint(text, 8, 32)
	switch {
	case err == nil && n&0o111 != 0 && n&^0o777 == 0:
		return fmt.Errorf("%s would let the WARC files be executed; without that it is %04o", text, n&^0o111)
	case err != nil || n&^0o666 != 0:
		return fmt.Errorf("%q are not the permissions of a file, in octal, such as 0640", text)
	case n&0o600 != 0o600:
		return fmt.Errorf("with the permissions %s warctee could not read and write its own files", text)
	}
	*m = modeFlag(n)
	return nil
}

func (m *modeFlag) Type() string   { return "MODE" }
func (m *modeFlag) String() string { return fmt.Sprintf("%04o", uint32(*m)) }
