package convert

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/warctee/warctee/warc"
)

// Options say what a file is made into.
type Options struct {
	Compression warc.Compression
	Dictionary  *warc.Dictionary // for zstd; nil: none
	SkipLengths bool             // for gzip: each member says how long it is, see warc.WriterOptions

	// Version is that of the output. Empty: records stay what they are, and those
	// of an ARC file become 1.1.
	Version warc.Version

	// From and To are the names of the two files, without directories. A
	// WARC-Filename that is From becomes To.
	From, To string

	Software  string     // for the warcinfo of what was an ARC file
	Transform *Transform // what makes conversion records; nil: none
	TempDir   string     // for long blocks; empty: that of the system

	// Found is called with what is wrong in the input, and does not keep it from
	// being converted: where, in bytes of the input, and a sentence without an
	// end. Nil: nobody wants to know.
	Found func(offset int64, what string)
}

func (o *Options) found(offset int64, what string) {
	if o.Found != nil {
		o.Found(offset, what)
	}
}

// A Result tells of a file that was converted.
type Result struct {
	Sum       Sum     // of the records in the output
	Read      int64   // records of the input
	Converted int64   // conversion records that were added
	Changed   []Count // what was changed
	Skipped   []Count // records of the media type that gave no conversion record
}

// A job is one conversion.
type job struct {
	Options
	ctx   context.Context
	out   *warc.Writer
	chain *chain
	spool spool
	done  Result
	kept  counts // Changed
	left  counts // Skipped
}

func newJob(ctx context.Context, out io.Writer, o Options) *job {
	return &job{
		Options: o, ctx: ctx, chain: newChain(), spool: spool{dir: o.TempDir},
		out: warc.NewWriter(out, warc.WriterOptions{Version: o.Version, Compression: o.Compression, Dictionary: o.Dictionary, SkipLengths: o.SkipLengths}),
	}
}

func (j *job) result() Result {
	j.spool.reset()
	j.done.Sum, j.done.Changed, j.done.Skipped = j.chain.sum(), j.kept, j.left
	return j.done
}

// WARC writes the records of a WARC file to out. After an error what was written
// is of no use. Damage of the input is a [*warc.Error].
func WARC(ctx context.Context, out io.Writer, in io.Reader, o Options) (Result, error) {
	j := newJob(ctx, out, o)
	err := j.records(warc.NewReader(in))
	return j.result(), err
}

func (j *job) records(in *warc.Reader) error {
	for {
		if err := j.ctx.Err(); err != nil {
			return err
		}
		rec, err := in.Next()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		j.done.Read++
		if err := j.record(rec, in); err != nil {
			var damage *warc.Error
			if errors.As(err, &damage) {
				return damage
			}
			return fmt.Errorf("record at offset %d, %s: %w", rec.Offset, cmp.Or(rec.ID(), "which has no id"), err)
		}
	}
}

// record writes a record, and a conversion record behind it.
func (j *job) record(rec *warc.Record, block io.Reader) error {
	header, block, err := j.change(rec, block)
	if err != nil {
		return err
	}
	length := rec.Length
	if b, ok := block.(*bytes.Reader); ok {
		length = b.Size()
	}
	if j.Transform == nil || !j.Transform.wants(rec) {
		return j.write(header, block, length)
	}
	defer j.spool.reset()
	if _, err := io.Copy(&j.spool, block); err != nil {
		return err
	}
	if err := j.write(header, j.spool.reader(), length); err != nil {
		return err
	}
	return j.transform(rec, header)
}

// write writes a record and adds it to the sum: what was read of the block, not
// what the writer made of it.
func (j *job) write(header []byte, block io.Reader, length int64) error {
	sum := sha256.New()
	if err := j.out.WriteRaw(header, io.TeeReader(block, sum), length); err != nil {
		return err
	}
	j.chain.add(header, sum.Sum(nil))
	return nil
}

// change returns the header and the block of a record as they are written. The
// block is a *bytes.Reader where it may have been changed.
func (j *job) change(rec *warc.Record, block io.Reader) ([]byte, io.Reader, error) {
	var changes []change
	version := j.Version
	if rec.Version == version {
		version = ""
	}
	if version != "" {
		j.kept.add(changedVersion)
		var odd []string
		changes, odd = fieldChanges(rec, version, &j.kept)
		for _, what := range odd {
			j.found(rec.Offset, what)
		}
	}
	if rec.Type() == warc.TypeWarcinfo {
		for i, f := range rec.Header {
			if strings.EqualFold(f.Name, "WARC-Filename") && f.Value == j.From && j.From != j.To {
				changes = append(changes, change{i, j.To})
				j.kept.add(changedName)
			}
		}
		if version != "" && rec.Length <= maxWarcinfo && strings.HasPrefix(strings.ToLower(rec.Header.Get("Content-Type")), "application/warc-fields") {
			text, err := io.ReadAll(block)
			if err != nil {
				return nil, nil, err
			}
			text, with, odd := changeInfo(rec, text, version)
			if odd != "" {
				j.found(rec.Offset, odd)
			}
			if len(with) > 0 {
				j.kept.add(changedInfo)
			}
			changes, block = append(changes, with...), bytes.NewReader(text)
		}
	}
	if version == "" && len(changes) == 0 {
		return rec.Raw, block, nil
	}
	header, err := changeHeader(rec, version, changes)
	return header, block, err
}
