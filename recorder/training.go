package recorder

import (
	"bytes"
	"io"
	"sync"
	"sync/atomic"

	"github.com/warctee/warctee/warc"
)

const (
	// trainRecords is how many records a dictionary is trained from.
	trainRecords = 1000
	// trainStart is how much of each is looked at: what is further away gains
	// little by a dictionary.
	trainStart = 4 << 10
	// trainMemory bounds all of that. The training takes some fifty times as
	// much, for a second.
	trainMemory = 1 << 20
	// trainSize is the size of the dictionary.
	trainSize = 32 << 10
)

// A training makes a dictionary of the first records. A nil *training does
// nothing.
type training struct {
	options *Options
	result  atomic.Pointer[warc.Dictionary]
	over    atomic.Bool // no more samples are wanted
	running sync.WaitGroup

	mu      sync.Mutex
	samples [][]byte
	size    int
}

func newTraining(o *Options) *training {
	if !o.TrainDictionary || o.Compression != warc.Zstd {
		return nil
	}
	return &training{options: o}
}

// dictionary returns nil until there is one.
func (t *training) dictionary() *warc.Dictionary {
	if t == nil {
		return nil
	}
	return t.result.Load()
}

// add takes a sample of a record.
func (t *training) add(p *part) {
	if t == nil || t.over.Load() {
		return
	}
	sample, err := p.appendHeader(t.options, target{warcinfoID: warc.NewRecordID()}, make([]byte, 0, trainStart))
	if err != nil {
		return
	}
	if room := trainStart - len(sample); room > 0 {
		block := p.block()
		if p.stored {
			block = bytes.NewReader(p.head)
		}
		start, _ := io.ReadAll(io.LimitReader(block, int64(room))) // who writes the record is told of an error
		sample = append(sample, start...)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.over.Load() {
		return
	}
	t.samples = append(t.samples, sample)
	t.size += len(sample)
	if len(t.samples) < trainRecords && t.size < trainMemory {
		return
	}
	t.over.Store(true)
	samples := t.samples
	t.samples = nil
	t.running.Go(func() { t.train(samples) }) // ends when it has trained; wait waits for it
}

// wait waits for the training, when it has begun.
func (t *training) wait() {
	if t != nil {
		t.running.Wait()
	}
}

func (t *training) train(samples [][]byte) {
	log := t.options.Logger
	d, err := warc.TrainDictionary(samples, trainSize)
	if err != nil {
		log.Warn("no dictionary could be trained: the files stay without", "error", err)
		return
	}
	t.result.Store(d)
	log.Info("a dictionary was trained: the next files start with it", "records", len(samples), "bytes", len(d.Bytes()))
}
