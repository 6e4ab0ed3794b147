package main

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/pflag"
	"github.com/warctee/warctee/recorder"
	"github.com/warctee/warctee/warc"
)

// compressFlags say how the files are compressed.
type compressFlags struct {
	compression *choiceFlag
	dictionary  string
	skipLengths bool
}

func (f *compressFlags) register(flags *pflag.FlagSet) {
	f.compression = choice("gzip", "zstd", "none")
	f.dictionary = "off"
	flags.Var(f.compression, "compress", "compression of the files")
	text(flags, &f.dictionary, "zstd-dictionary", "off|auto|FILE", "dictionary for --compress zstd, with which short records get shorter: trained from the first 1000 records and used from the next file on, or that of a file, which may be a .warc.zst")
	flags.BoolVar(&f.skipLengths, "skip-lengths", false, "write into each gzip member how long it is, so that listing need not decompress it")
}

func (f *compressFlags) check() error {
	switch {
	case f.dictionary == "":
		return usageError{errors.New("--zstd-dictionary is empty: say off, auto or a file")}
	case f.dictionary != "off" && f.compression.value != "zstd":
		return usageError{fmt.Errorf("--zstd-dictionary %s is for --compress zstd", f.dictionary)}
	case f.skipLengths && f.compression.value != "gzip":
		return usageError{errors.New("--skip-lengths is for --compress gzip: zstd and plain files need none")}
	}
	return nil
}

func (f *compressFlags) addTo(o *recorder.Options) (err error) {
	o.Compression, err = warc.ParseCompression(f.compression.value)
	if err != nil {
		return usageError{err}
	}
	o.SkipLengths = f.skipLengths
	switch f.dictionary {
	case "off":
	case "auto":
		o.TrainDictionary = true
	default:
		if o.Dictionary, err = openDictionary(f.dictionary); err != nil {
			return fmt.Errorf("--zstd-dictionary: %w", err)
		}
	}
	return nil
}

// openDictionary reads a dictionary, or that of a .warc.zst file.
func openDictionary(path string) (*warc.Dictionary, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	d, err := warc.ReadDictionary(f)
	if d == nil && err == nil {
		var b []byte
		if _, err = f.Seek(0, io.SeekStart); err == nil {
			b, err = io.ReadAll(io.LimitReader(f, warc.MaxDictionary+1))
		}
		if err == nil {
			d, err = warc.NewDictionary(b)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return d, nil
}
