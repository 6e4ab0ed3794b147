package recorder

import (
	"bytes"
	"io"
	"sync"

	"github.com/warctee/warctee/warc"
)

// A target is what a record depends on of the file that it goes to.
type target struct {
	warcinfoID string // "" for a warcinfo record
	dictionary *warc.Dictionary
}

// A comingFile is the file of a series that records are made for: the current
// one, or else the next one, whose id is drawn beforehand. A deflated block can
// get any header in front of it, but the checksum of a zstd frame is of all of
// the record. So it has to be known to which file a record will go, or most
// often: the few that are on their way when a file is full are compressed once
// more.
type comingFile struct {
	mu    sync.Mutex
	begun bool
	target
}

func (r *Recorder) comingFile(series string) *comingFile {
	if f, ok := r.coming.Load(series); ok {
		return f.(*comingFile)
	}
	next := &comingFile{target: r.newTarget()}
	f, _ := r.coming.LoadOrStore(series, next)
	return f.(*comingFile)
}

// target is that of the file to which the exchange will go, most likely.
func (x *exchange) target() target {
	f := x.r.comingFile(x.series)
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.target
}

// newTarget is that of a file which is begun now.
func (r *Recorder) newTarget() target { return target{warc.NewRecordID(), r.dictionary()} }

// beginCurrent returns the target of a new current file of a series. It is called
// by the writer.
func (r *Recorder) beginCurrent(series string) target {
	f := r.comingFile(series)
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.begun {
		f.target = r.newTarget()
	}
	f.begun = true
	return f.target
}

// dictionary returns that of the files which are begun now.
func (r *Recorder) dictionary() *warc.Dictionary {
	if d := r.training.dictionary(); d != nil {
		return d
	}
	return r.options.Dictionary
}

// A framed tells what is in a zstd frame with a whole record.
type framed struct {
	header     []byte
	dictionary *warc.Dictionary
}

// frame compresses the record to dst.
func (p *part) frame(o *Options, to target, dst io.Writer) (*framed, error) {
	header, err := p.appendHeader(o, to, nil)
	if err != nil {
		return nil, err
	}
	return &framed{header, to.dictionary}, warc.WriteFrame(dst, to.dictionary, header, p.block(), p.length)
}

// encodeFrame returns the record as a frame.
func (p *part) encodeFrame(o *Options, to target, header []byte) (*record, error) {
	if p.stored {
		frame, err := warc.StoredFrame(to.dictionary, header, p.head, p.bodyReader(), p.bodySize())
		return &record{block: frame}, err
	}
	length := p.length
	if p.packed != nil && p.framed.dictionary == to.dictionary && bytes.Equal(p.framed.header, header) {
		return &record{block: p.packed.reader()}, nil
	}
	header = bytes.Clone(header) // late may live longer than the buffer
	if p.packed == nil {
		block := p.block()
		return late(o.Logger, nil, func(w io.Writer) error {
			return warc.WriteFrame(w, to.dictionary, header, block, length)
		}), nil
	}
	packed := warc.NewReader(p.packed.reader()) // for another file
	packed.Dictionary = p.framed.dictionary
	return late(o.Logger, nil, func(w io.Writer) error {
		if _, err := packed.Next(); err != nil {
			return err
		}
		return warc.WriteFrame(w, to.dictionary, header, packed, length)
	}), nil
}
