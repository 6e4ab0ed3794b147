// Package recorder performs HTTP exchanges with origins and records them in
// WARC files, byte for byte as they crossed the wire.
//
// A [Recorder] is an [http.RoundTripper]. A proxy gives it what its clients
// ask for; a Go program can use it in an [http.Client] and needs no proxy:
//
//	rec, err := recorder.Open(recorder.Options{Dir: "warcs"})
//	client := &http.Client{Transport: rec}
//	…
//	err = rec.Close(ctx)
//
// The way of an exchange, and the file where each step is:
//
//	RoundTrip                           roundtrip.go
//	  waits for a slot                  admission.go
//	  makes the head for the origin     head.go, uri.go
//	  takes or dials a connection       pool.go
//	  sends head and body               upload.go
//	goroutine of the connection         conn.go
//	  reads the reply's head, then its body into the spool (spool.go), which
//	  the client follows                body.go
//	finish, in its own goroutine        finish.go
//	  digests, dedup look-up (originals.go), records (records.go), compression
//	the writer goroutine                writer.go
//	  verdict, append, sync, index      committer.go
//	  what does not fit a file          segments.go, chain.go
//	  when the disk fails or is full    pause.go, standstill.go, space.go
//
// Bytes go to the client as they arrive and do not wait for the disk. What has
// ended is appended to a file within the time that compression takes, and is
// durable at most Options.SyncInterval later.
package recorder

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"math"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dustin/go-humanize/english"
	"github.com/warctee/warctee/dedup"
	"github.com/warctee/warctee/http1"
	"github.com/warctee/warctee/rotate"
	"github.com/warctee/warctee/warc"
)

// Options of a Recorder. Only Dir has to be set.
type Options struct {
	// Dir is the directory of the archive. It is made when missing.
	Dir string
	// Prefix starts the names of the files; default "warctee".
	Prefix string
	// MaxSize is the size in bytes at which a file is finished; default 1e9.
	MaxSize int64
	// Oversize tells what becomes of what does not fit a file of MaxSize;
	// default OversizeWhole.
	Oversize Oversize
	// MaxAge is the age at which a file is finished; 0 means any.
	MaxAge time.Duration

	// Version of the records; default 1.1.
	Version warc.Version
	// Digest algorithm; default SHA-256.
	Digest warc.Algorithm
	// Compression of the files; default gzip.
	Compression warc.Compression
	// Dictionary is for zstd: every file starts with it; nil means none. With
	// TrainDictionary the first 1000 records make one, for the files that are
	// begun after that.
	Dictionary      *warc.Dictionary
	TrainDictionary bool
	// SkipLengths is that of [warc.WriterOptions], for gzip.
	SkipLengths bool
	// Software and Warcinfo go into the warcinfo record that starts each
	// file: the name and version of the program, and further fields.
	Software string
	Warcinfo []warc.Field
	// OpenIndex opens the index that remembers payloads, so that equal ones
	// become revisit records; nil means that every response is stored. It is
	// called when Dir is locked for this process; Close closes the index.
	OpenIndex func() (dedup.Index, error)

	// MaxBody bounds the octets of a body, as on the wire, that are recorded
	// in each direction; the rest is passed on. Default 16 GiB.
	MaxBody int64
	// MaxInFlight bounds the exchanges under way; default 256. Those that
	// last longer than 10 s count towards MaxLong instead; default 4096. One
	// origin gets at most three quarters of either, and one [Client] seven
	// eighths.
	MaxInFlight int
	MaxLong     int
	// MaxConnsPerOrigin bounds the connections to an origin; exchanges
	// beyond it wait, for at most 30 s. Default 512.
	MaxConnsPerOrigin int
	// MaxConnsPerTunnel bounds the exchanges under way for one
	// [Client.Tunnel], without long ones and event streams; further ones
	// wait until it is their turn. Default 6, as browsers with HTTP/1.1.
	MaxConnsPerTunnel int
	// MaxReplyHead and MaxReplyFields bound the head of a reply, in bytes
	// and fields; what is larger fails the exchange. Default 1 MiB and 4096.
	MaxReplyHead, MaxReplyFields int
	// Timeout bounds silence: while connecting, until the head of the reply
	// is whole, between octets of payload. It is never a total. Default 60 s.
	Timeout time.Duration
	// FinishBytes and FinishTime bound what is still fetched of a response
	// whose client has gone away; default 16 MiB and 30 s.
	FinishBytes int64
	FinishTime  time.Duration
	// SyncInterval and SyncBytes say when appended records are made
	// durable, whichever comes first; default 200 ms and 8 MiB.
	SyncInterval time.Duration
	SyncBytes    int64

	// MinFree is how many bytes have to stay free on the disk, or where
	// MinFreePercent is set how much of it: below that no exchange is
	// admitted. Default 1 GB, or 1 % of the disk where that is less;
	// a negative MinFree means none. Bodies under way may use up half of
	// it; after one of them was cut more is asked for before exchanges are
	// admitted again.
	MinFree        int64
	MinFreePercent float64
	// StopForGood ends the recording for good when the archive cannot be
	// written to or the disk is nearly full. Else it pauses until that has
	// passed.
	StopForGood bool
	// SpoolMemory and SpoolDisk bound the bytes that all exchanges together
	// have in memory and in temporary files in Dir, until they are in the
	// archive. What finds no room in memory goes to a file, and what finds
	// none on the disk either is not recorded; the rest of such a body is
	// passed on, and no exchange is admitted until some of the disk is given
	// back. Default 256 MiB and 64 GiB.
	SpoolMemory int64
	SpoolDisk   int64
	// FileMode is the mode of the files, less the umask; default 0644.
	FileMode fs.FileMode

	// Dial connects to origins; default [net.Dialer.DialContext].
	Dial func(ctx context.Context, network, addr string) (net.Conn, error)
	// TLS is the base of the configuration towards origins.
	TLS *tls.Config
	// InsecureUpstream accepts any certificate of an origin. A metadata
	// record beside each exchange tells what was wrong with it.
	InsecureUpstream bool
	// OnFailure is told of each exchange that gives no response, from its
	// own goroutine.
	OnFailure func(Failure)
	// RecordFailures writes a metadata record for each of them, unless no
	// exchange was admitted at all.
	RecordFailures bool
	// Strict leaves out the fields that the standard does not define:
	// WARC-Protocol and WARC-Cipher-Suite.
	Strict bool
	// Logger gets warnings and errors; default [slog.Default].
	Logger *slog.Logger

	fs rotate.FS // for faults in tests; nil: the operating system's
}

func (o *Options) setDefaults() error {
	if o.Dir == "" {
		return errors.New("recorder: no directory for the archive is given")
	}
	setDefault(&o.Prefix, "warctee")
	setDefault(&o.MaxSize, 1e9)
	setDefault(&o.Version, warc.V1_1)
	setDefault(&o.Digest, warc.SHA256)
	setDefault(&o.Software, "warctee")
	setDefault(&o.MaxBody, 16<<30)
	setDefault(&o.MaxInFlight, 256)
	setDefault(&o.MaxLong, 4096)
	setDefault(&o.MaxConnsPerOrigin, 512)
	setDefault(&o.MaxConnsPerTunnel, 6)
	setDefault(&o.MaxReplyHead, http1.MaxResponseHead)
	setDefault(&o.MaxReplyFields, 4096)
	setDefault(&o.Timeout, time.Minute)
	setDefault(&o.FinishBytes, 16<<20)
	setDefault(&o.FinishTime, 30*time.Second)
	setDefault(&o.SyncInterval, 200*time.Millisecond)
	setDefault(&o.SyncBytes, 8<<20)
	setDefault(&o.SpoolMemory, 256<<20)
	setDefault(&o.SpoolDisk, 64<<30)
	if o.Dial == nil {
		o.Dial = new(net.Dialer).DialContext
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	if o.Version != warc.V1_1 && o.Version != warc.V1_0 {
		return fmt.Errorf("recorder: WARC version %q cannot be written; 1.1 and 1.0 can", o.Version)
	}
	if o.Compression != warc.Zstd && (o.Dictionary != nil || o.TrainDictionary) {
		return fmt.Errorf("recorder: a dictionary is for zstd, not for compression %s", o.Compression)
	}
	if !ValidPrefix(o.Prefix) {
		return fmt.Errorf("recorder: the prefix %q cannot start a file name", o.Prefix)
	}
	if min(o.MaxSize, o.MaxBody, o.FinishBytes, o.SyncBytes, o.SpoolMemory, o.SpoolDisk, int64(o.MaxInFlight), int64(o.MaxLong), int64(o.MaxConnsPerOrigin), int64(o.MaxConnsPerTunnel), int64(o.MaxReplyHead), int64(o.MaxReplyFields)) < 0 {
		return errors.New("recorder: a size or number is negative")
	}
	if !(o.MinFreePercent >= 0 && o.MinFreePercent <= 100) {
		return fmt.Errorf("recorder: %g %% of the disk cannot stay free", o.MinFreePercent)
	}
	if min(o.MaxAge, o.Timeout, o.FinishTime, o.SyncInterval) < 0 {
		return errors.New("recorder: a duration is negative")
	}
	return nil
}

func setDefault[T comparable](p *T, value T) {
	var zero T
	if *p == zero {
		*p = value
	}
}

// Unlimited is a MaxBody that cuts nothing.
const Unlimited = math.MaxInt64

// A Recorder performs and records exchanges. It is safe for concurrent use.
type Recorder struct {
	options    Options
	log        *slog.Logger
	dir        string // options.Dir, absolute
	host       string // in file names and warcinfo
	token      string // in file names: random
	pool       *pool
	index      dedup.Index // nil: none
	originals  *originals
	writer     *writer
	space      *space
	readers    *readers
	watch      *spaceWatch
	preamble   atomic.Int64   // length of what starts a file, at most
	packing    chan struct{}  // an element for each body that is being compressed: that takes memory
	packingBig chan struct{}  // the same for those that are on the disk: they take their time
	finishing  chan *exchange // taken by a finisher that waits
	coming     sync.Map       // series → *comingFile
	training   *training      // nil: there is none
	short      *slots         // exchanges under way …
	long       *slots         // … for longer than longAfter
	closing    chan struct{}
	cutting    context.Context // done when what is under way is cut
	cutNow     context.CancelFunc

	opened     time.Time
	madeRoom   atomic.Int64 // when room on the disk was made, or looked for, last: ns since opened
	waiting    atomic.Int64 // requests that wait for their admission …
	maxWaiting int64        // … and how many may

	mu        sync.Mutex
	exchanges map[*exchange]struct{} // admitted, and not yet the writer's
	closed    bool
	idle      chan struct{} // closed when closed and no exchange is left
	still     standstill
	damage    error     // files that could not be kept
	refused   time.Time // when the last refusal that took no time was told
	told      time.Time // when tellNowAndThen told something

	counts counts
}

// Open opens the archive and starts the writer. It recovers what another
// process that died has left; while another one lives it fails.
func Open(o Options) (*Recorder, error) { return OpenContext(context.Background(), o) }

// OpenContext is Open, and gives up when ctx is done. The recovery of a big file
// may take a while; what has not been recovered by then stays for the next Open.
func OpenContext(ctx context.Context, o Options) (*Recorder, error) {
	if err := o.setDefaults(); err != nil {
		return nil, err
	}
	dir, err := filepath.Abs(o.Dir)
	if err != nil {
		return nil, err
	}
	host, err := os.Hostname()
	if err != nil {
		host = "localhost"
	}
	space := &space{dir: o.Dir, maxMemory: o.SpoolMemory, maxDisk: o.SpoolDisk}
	r := &Recorder{
		options:   o,
		log:       o.Logger,
		dir:       dir,
		host:      host,
		token:     newToken(),
		pool:      newPool(&o, space),
		short:     newSlots(o.MaxInFlight),
		long:      newSlots(o.MaxLong),
		closing:   make(chan struct{}),
		exchanges: make(map[*exchange]struct{}),
		idle:      make(chan struct{}),
		space:     space,
		still:     standstill{begun: make(chan struct{})},
		training:  newTraining(&o),
		opened:    time.Now(),
	}
	r.readers = &readers{r: r, all: make(map[*exchange]reader)}
	space.reclaim = r.readers.reclaim
	r.cutting, r.cutNow = context.WithCancel(context.Background())
	r.originals = newOriginals(dir, o.Logger, r.cutting)
	r.maxWaiting = int64(max(minWaiting, o.MaxInFlight))
	r.packing = make(chan struct{}, max(4, 2*runtime.GOMAXPROCS(0)))
	r.finishing = make(chan *exchange)
	r.packingBig = make(chan struct{}, cap(r.packing))
	if err := r.weighPreamble(); err != nil {
		return nil, err
	}
	set, err := rotate.OpenContext(ctx, rotate.Options{
		Dir:      o.Dir,
		MaxSize:  o.MaxSize,
		MaxAge:   o.MaxAge,
		FileMode: o.FileMode,
		Name:     r.fileName,
		Verify:   warc.Whole,
		FS:       o.fs,
		Logger:   o.Logger,
	})
	if err != nil {
		return nil, err
	}
	if err := set.Probe(); err != nil {
		return nil, errors.Join(fmt.Errorf("nothing can be written there: %w", err), set.Close())
	}
	r.watch, err = r.watchSpace(set)
	if err == nil && o.OpenIndex != nil {
		r.index, err = o.OpenIndex()
	}
	if err != nil {
		r.watch.close()
		return nil, errors.Join(err, set.Close())
	}
	r.writer = newWriter(r, set)
	return r, nil
}

// Close ends the work: nothing new is admitted, what is under way is finished
// and recorded. When ctx is done the rest is cut and recorded as truncated.
// The error tells what could not be recorded.
func (r *Recorder) Close(ctx context.Context) error {
	r.mu.Lock()
	if r.closed {
		r.mu.Unlock()
		return errors.New("the recorder is closed already")
	}
	r.closed = true
	close(r.closing)
	if len(r.exchanges) == 0 {
		close(r.idle)
	}
	r.mu.Unlock()
	select {
	case <-r.idle:
	case <-ctx.Done():
		r.cut()
		<-r.idle
	}
	r.pool.close()
	err := r.writer.close()
	r.watch.close()
	r.training.wait()
	if r.index != nil {
		err = errors.Join(err, r.index.Close())
	}
	if n := r.counts.lost.Load(); n > 0 {
		err = errors.Join(err, fmt.Errorf("not in the archive, although clients were given them: %s", english.Plural(int(n), "response", "")))
	}
	if n := r.counts.lostRecords.Load(); n > 0 {
		err = errors.Join(err, fmt.Errorf("not in the archive: %s of look-ups, failures or bad replies", english.Plural(int(n), "record", "")))
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return errors.Join(r.still.stopped, r.damage, err)
}

// cut ends all exchanges that are under way.
func (r *Recorder) cut() {
	r.cutNow()
	r.mu.Lock()
	left := make([]*exchange, 0, len(r.exchanges))
	for x := range r.exchanges {
		left = append(left, x)
	}
	r.mu.Unlock()
	for _, x := range left {
		x.cut("unspecified")
	}
}

// Rotate finishes the current files; the next record starts a new one.
func (r *Recorder) Rotate() error { return r.writer.do(r.writer.rotate) }

// damaged notes, and tells, that a file could not be kept.
func (r *Recorder) damaged(err error) {
	r.counts.damaged.Add(1)
	r.log.Error("A FILE IS DAMAGED OR GONE: what was in it is not in the archive", "error", err)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.counts.damaged.Load() <= maxDamages {
		r.damage = errors.Join(r.damage, err)
	}
}

// maxDamages bounds what Close tells of files that could not be kept.
const maxDamages = 10

// track takes an exchange into the account that Close waits for.
func (r *Recorder) track(x *exchange) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return false
	}
	r.exchanges[x] = struct{}{}
	return true
}

// trackLate is track for what an exchange under way brings about: it is
// taken while there is one.
func (r *Recorder) trackLate(x *exchange) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed && len(r.exchanges) == 0 {
		return false
	}
	r.exchanges[x] = struct{}{}
	return true
}

func (r *Recorder) untrack(x *exchange) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, tracked := r.exchanges[x]; !tracked {
		return
	}
	delete(r.exchanges, x)
	if r.closed && len(r.exchanges) == 0 {
		close(r.idle)
	}
}

// failed reports and counts an exchange that gave no response. It is counted when
// OnFailure has got it.
func (r *Recorder) failed(f Failure) {
	defer r.counts.failures.Add(1)
	if f.Class == classPaused || f.Class == classStopped || errors.Is(f.Err, errSpoolDisk) {
		r.counts.unstorable.Add(1)
	}
	if f.Class == classCrowded || f.Class == classBusy {
		r.counts.crowded.Add(1)
	}
	if f.Phase == PhaseAdmission && (f.Class == classPaused || f.Class == classStopped || f.Class == classCrowded) && !r.tellsRefusal() {
		return
	}
	level := slog.LevelWarn
	if f.Phase == PhaseClient || f.Class == classPolicy { // whoever has set Dial tells of its refusals
		level = slog.LevelDebug
	}
	r.log.Log(context.Background(), level, "no response", "url", f.URL, "phase", string(f.Phase), "error", f.Err)
	if r.options.OnFailure != nil {
		r.options.OnFailure(f)
	}
	if r.options.RecordFailures && f.Phase != PhaseAdmission {
		r.addRecord(warc.TypeMetadata, Resource{URI: f.URL, ContentType: "application/warc-fields", Date: f.Time, Block: f.fields()})
	}
}

// tellsRefusal reports whether a refusal that took no time is told: one in a
// second is enough, because the log may be on a disk that is full.
func (r *Recorder) tellsRefusal() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if time.Since(r.refused) < time.Second {
		return false
	}
	r.refused = time.Now()
	return true
}

// lost counts and logs a response that a client was given, or another record,
// that is not in the archive.
func (r *Recorder) lost(x *exchange, err error) {
	what, count := "A RESPONSE IS LOST: it is not in the archive", &r.counts.lost
	if x.received == nil {
		what, count = "A RECORD IS LOST: it is not in the archive", &r.counts.lostRecords
	}
	count.Add(1)
	r.log.Error(what, "url", x.uri, "error", err)
	if r.options.OnFailure != nil {
		f := Failure{Time: x.start, URL: x.uri, Phase: PhaseWrite, Class: "lost", Err: err}
		if x.request != nil {
			f.Method = x.request.method
		}
		r.options.OnFailure(f)
	}
}
