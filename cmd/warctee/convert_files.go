package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/dustin/go-humanize/english"
	"github.com/warctee/warctee/arc"
	"github.com/warctee/warctee/container"
	"github.com/warctee/warctee/convert"
	"github.com/warctee/warctee/warc"
	"golang.org/x/sync/errgroup"
)

// A conversion is that of one file.
type conversion struct {
	in, out string
	form    convert.Form
	options convert.Options
}

// outputName returns the name of what becomes of a file.
func outputName(in string, c warc.Compression) string {
	stem := in
	for _, end := range append([]string{".arc", ".arc.gz"}, archiveSuffixes...) {
		if len(in) > len(end) && strings.EqualFold(in[len(in)-len(end):], end) {
			stem = in[:len(in)-len(end)]
		}
	}
	return stem + ".warc" + c.Suffix()
}

// A converter converts files. It is safe for concurrent use.
type converter struct {
	*convertFlags
	transform *convert.Transform
	shared    *warc.Dictionary // of --zstd-dictionary FILE; nil: none
	stderr    io.Writer
	progress  *progress

	mu      sync.Mutex
	files   int
	records int64
	added   int64
	size    int64
	counts  []convert.Count
	damaged int // files that were not converted
	found   int // complaints about the others
}

func (f *convertFlags) run(ctx context.Context, args []string, stderr io.Writer) error {
	start := time.Now()
	paths, size, err := archiveFiles(args, ".arc", ".arc.gz")
	if err != nil {
		return err
	}
	if err := refuseStdin(paths, "convert", "outputs are named after their inputs; write it to a file first"); err != nil {
		return err
	}
	if f.jobs < 1 {
		return usageError{fmt.Errorf("--jobs %d: at least one file at a time", f.jobs)}
	}
	t, err := f.transform()
	if err != nil {
		return err
	}
	c := &converter{convertFlags: f, transform: t, stderr: stderr}
	if f.dictionary != "off" && f.dictionary != "auto" {
		if c.shared, err = openDictionary(f.dictionary); err != nil {
			return fmt.Errorf("--zstd-dictionary: %w", err)
		}
	}
	plan, err := c.plan(paths)
	if err != nil {
		return err
	}
	if f.out != "" {
		if err := os.MkdirAll(f.out, 0o777); err != nil {
			return err
		}
	}
	c.progress = newProgress(f.quiet.notes(stderr), size, "converting")
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(f.jobs)
	for _, p := range plan {
		group.Go(func() error { return c.convert(ctx, p) }) // ends with the file, or when ctx is done
	}
	err = group.Wait()
	c.progress.done()
	if c.files > 0 {
		c.summary(time.Since(start))
	}
	switch {
	case err != nil:
		return err
	case c.damaged > 0:
		return fmt.Errorf("%s not converted: %w", english.Plural(c.damaged, "file was", "files were"), errFound)
	case c.found > 0:
		return fmt.Errorf("converted, with %s: %w", english.Plural(c.found, "complaint", ""), errFound)
	}
	return nil
}

// plan finds out what the files are and what becomes of them. Nothing is written.
func (c *converter) plan(paths []string) (plan []conversion, err error) {
	from := make(map[string]string)
	for _, path := range paths {
		p := conversion{in: path}
		if p.form, err = formOf(path); err != nil {
			if c.tell(path, err) {
				continue
			}
			return nil, err
		}
		if !p.form.ARC && c.compress.value == keep && c.version.value == keep && c.transform == nil {
			return nil, usageError{fmt.Errorf("%s is a WARC file: say with --compress, --warc-version or --with what it should become", path)}
		}
		compression := p.form.Compression
		if c.compress.value != keep {
			compression, _ = warc.ParseCompression(c.compress.value) // one of the choices
		} else if p.form.ARC {
			compression = warc.Gzip
		}
		switch {
		case c.dictionary != "off" && compression != warc.Zstd:
			return nil, usageError{fmt.Errorf("--zstd-dictionary %s is for --compress zstd", c.dictionary)}
		case c.lengths && compression != warc.Gzip:
			return nil, usageError{errors.New("--skip-lengths is for --compress gzip: zstd and plain files need none")}
		}
		p.out = outputName(path, compression)
		if c.out != "" {
			p.out = filepath.Join(c.out, filepath.Base(p.out))
		}
		if other, taken := from[p.out]; taken {
			return nil, usageError{fmt.Errorf("%s and %s would both become %s", other, path, p.out)}
		}
		from[p.out] = path
		p.options = convert.Options{
			Compression: compression, Dictionary: c.shared, SkipLengths: c.lengths, From: filepath.Base(path), To: filepath.Base(p.out), Software: "warctee/" + version,
			Transform: c.transform, TempDir: filepath.Dir(p.out),
		}
		if c.version.value != keep {
			p.options.Version = warc.Version(c.version.value)
		}
		plan = append(plan, p)
	}
	return plan, c.checkOutputs(plan, paths)
}

// checkOutputs reports whether the outputs can be made without one in the way.
func (c *converter) checkOutputs(plan []conversion, inputs []string) error {
	for _, p := range plan {
		info, err := os.Stat(p.out)
		if err != nil {
			continue // it will show when it is made
		}
		for _, in := range inputs {
			if other, err := os.Stat(in); err == nil && os.SameFile(info, other) {
				return usageError{fmt.Errorf("%s would become %s, which is converted itself: choose another directory with --out", p.in, p.out)}
			}
		}
		if !c.force {
			return errOutputExists(p.out)
		}
	}
	return nil
}

func formOf(path string) (convert.Form, error) {
	if err := wantFile(path, container.WARC, container.ARC); err != nil {
		return convert.Form{}, err
	}
	in, err := os.Open(path)
	if err != nil {
		return convert.Form{}, err
	}
	defer in.Close()
	return convert.FormOf(in, path)
}

// tell tells of a file that is damaged. It reports whether it is.
func (c *converter) tell(path string, err error) bool {
	var oldFormat *arc.Error
	var damage *warc.Error
	hint := ""
	switch {
	case errors.As(err, &damage):
		hint = "; 'warctee repair' saves the whole records"
	case isOtherForm(err): // which names the file
		c.mu.Lock()
		defer c.mu.Unlock()
		c.damaged++
		c.say("%v", err)
		return true
	case errors.As(err, &oldFormat), errors.Is(err, convert.ErrNoRecords), errors.Is(err, convert.ErrUnchangeable):
	default:
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.damaged++
	c.say("%s: %v%s", path, err, hint)
	return true
}

// say prints a line. The caller holds mu.
func (c *converter) say(format string, args ...any) {
	if c.progress != nil {
		c.progress.clear()
	}
	fmt.Fprintln(c.stderr, harmless(fmt.Sprintf(format, args...)))
}

// convert converts one file. An error is one of the program.
func (c *converter) convert(ctx context.Context, p conversion) error {
	p.options.Found = func(offset int64, what string) {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.found++
		c.say("%s: at offset %d: %s", p.in, offset, what)
	}
	result, err := c.write(ctx, p)
	switch {
	case err == nil:
	case ctx.Err() != nil:
		return errors.New("interrupted")
	case c.tell(p.in, err):
		return nil
	default:
		return fmt.Errorf("%s: %w", p.in, err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.files++
	c.records += result.Sum.Records
	c.added += result.Converted
	for _, n := range append(result.Changed, result.Skipped...) {
		c.count(n)
	}
	return nil
}

func (c *converter) count(n convert.Count) {
	for i := range c.counts {
		if c.counts[i].What == n.What {
			c.counts[i].N += n.N
			return
		}
	}
	c.counts = append(c.counts, n)
}

// write makes the output of a conversion, reads it again, and gives it its name
// when it is what it should be.
func (c *converter) write(ctx context.Context, p conversion) (result convert.Result, err error) {
	in, err := os.Open(p.in)
	if err != nil {
		return result, err
	}
	defer in.Close()
	if c.dictionary == "auto" {
		if p.options.Dictionary, err = convert.Train(ctx, p.form, in, p.options); err != nil {
			return result, err
		}
		if _, err := in.Seek(0, io.SeekStart); err != nil {
			return result, err
		}
	}
	out, err := createOutput(p.out, c.force)
	if err != nil {
		return result, err
	}
	defer out.discard()
	buffer := bufio.NewWriterSize(out, 256<<10)
	if result, err = convert.File(ctx, p.form, buffer, countingInput{in, c}, p.options); err != nil {
		return result, err
	}
	if err := buffer.Flush(); err != nil {
		return result, err
	}
	return result, prove(out, result.Sum)
}

// prove reads an output again, and gives it its name if it holds the records that
// it should.
func prove(out *output, sum convert.Sum) error {
	if _, err := out.Seek(0, io.SeekStart); err != nil {
		return err
	}
	if err := convert.Verify(out, sum); err != nil {
		return fmt.Errorf("%s is not kept: %w", out.path, err)
	}
	return out.commit()
}

// countingInput shows how far reading has come.
type countingInput struct {
	io.Reader
	c *converter
}

func (r countingInput) Read(p []byte) (int, error) {
	n, err := r.Reader.Read(p)
	r.c.progress.add(int64(n))
	r.c.mu.Lock()
	r.c.size += int64(n)
	r.c.mu.Unlock()
	return n, err
}

func (c *converter) summary(took time.Duration) {
	w := c.quiet.notes(c.stderr)
	fmt.Fprintf(w, "warctee: converted %s with %s, read again and found equal: %s\n",
		english.Plural(c.files, "file", ""), english.Plural(int(c.records), "record", ""), rate(c.size, took))
	if c.transform != nil {
		fmt.Fprintf(w, "  %d conversion records added\n", c.added)
	}
	for _, n := range c.counts {
		fmt.Fprintf(w, "  %d %s\n", n.N, n.What)
	}
}
