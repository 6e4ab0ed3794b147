//go:build unix

// Command bench measures what recording costs. In turn, several times over, the
// same traffic goes
//
//	direct     from the clients to the origin
//	goproxy    through a bare goproxy that intercepts TLS and records nothing
//	goproxy+   the same, but it keeps more than two idle connections to the
//	           origin, and so has fewer TLS handshakes to make
//	warctee    through `warctee record` with the defaults
//
// The traffic: over https, 16 clients with a connection each open a page of 75
// files again and again, each time with other content, and check every byte.
// The origin and the clients are this process; the proxies are processes of
// their own, so that their processor time and memory can be told from it. All
// share the machine: what the clients and the origin need takes part in the
// figures, and makes the ratios look better than those of the proxies alone.
// HTTP/1.1 is spoken everywhere.
//
// The clock starts when the clients do and stops when the proxy has ended after
// a SIGTERM: with warctee, when the last record is durable. Then the archive is
// checked, which is not measured.
//
// The binary of warctee is measured, not its packages in this process: it is
// what people run, and nothing here shares its heap and its garbage collector.
// Its flags can be set by environment variables, as always: WARCTEE_DEDUP=off.
package main

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"flag"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/warctee/warctee/certs"
)

var (
	rounds  = flag.Int("rounds", 5, "how often each of them is measured")
	clients = flag.Int("clients", 16, "clients at once")
	visits  = flag.Int("visits", 10, "pages that each client opens, of 75 files")
	dir     = flag.String("dir", "", "where the archives are written (default: the system's for temporary files)")
)

// A subject is what the traffic goes through.
type subject struct {
	name  string
	start func(b *bench, dir string) (*process, error) // nil: directly
	// check judges what was left in dir after so much traffic.
	check func(dir string, t traffic) error
}

// A result is what one run of a subject took. CPU and RSS are the proxy's.
type result struct {
	perSecond float64 // requests
	cpu       float64 // seconds for 1,000 requests
	rss       float64 // MB, at its highest before the SIGTERM
}

// A traffic is what the clients got.
type traffic struct {
	requests int
	octets   int64 // of payload
}

// A bench has what all runs share.
type bench struct {
	caDir   string // of the one authority that all use
	roots   *x509.CertPool
	warctee string // the program
	origin  *httptest.Server
	visit   visitCounter
}

func main() {
	log.SetFlags(0)
	log.SetPrefix("bench: ")
	flag.Parse()
	if flag.Arg(0) == "goproxy" {
		idle, _ := strconv.Atoi(flag.Arg(2)) // written by startGoproxy
		log.Fatal(serveGoproxy(flag.Arg(1), idle))
	}
	if err := run(); err != nil {
		log.Fatal(err)
	}
}

func run() error {
	tmp, err := os.MkdirTemp(*dir, "warctee-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	b, err := prepare(tmp)
	if err != nil {
		return err
	}
	defer b.origin.Close()
	subjects := []subject{
		{name: "direct"},
		{name: "goproxy", start: startGoproxy(0)},
		{name: "goproxy+", start: startGoproxy(100)},
		{name: "warctee", start: startWarctee, check: checkArchive},
	}
	results := make(map[string][]result)
	for round := range *rounds {
		for _, s := range subjects {
			r, err := b.measure(s, filepath.Join(tmp, "warcs"))
			if err != nil {
				return fmt.Errorf("round %d, %s: %w", round+1, s.name, err)
			}
			log.Printf("round %d: %-8s %6.0f req/s  %5.2f CPU s/1000  %4.0f MB", round+1, s.name, r.perSecond, r.cpu, r.rss)
			results[s.name] = append(results[s.name], r)
		}
	}
	b.print(subjects, results)
	return nil
}

func prepare(tmp string) (*bench, error) {
	b := &bench{caDir: filepath.Join(tmp, "ca"), warctee: filepath.Join(tmp, "warctee"), roots: x509.NewCertPool()}
	authority, err := certs.Open(b.caDir)
	if err != nil {
		return nil, err
	}
	b.roots.AddCert(authority.Certificate())
	leaf, err := authority.Leaf("127.0.0.1")
	if err != nil {
		return nil, err
	}
	build := exec.Command("go", "build", "-o", b.warctee, "github.com/warctee/warctee/cmd/warctee")
	build.Stderr = os.Stderr
	if err := build.Run(); err != nil {
		return nil, fmt.Errorf("go build: %w", err)
	}
	b.origin = httptest.NewUnstartedServer(http.HandlerFunc(serveMix))
	b.origin.TLS = &tls.Config{Certificates: []tls.Certificate{*leaf}}
	b.origin.StartTLS()
	return b, nil
}

// measure lets the traffic go through a subject.
func (b *bench) measure(s subject, dir string) (r result, err error) {
	var proxy *process
	if s.start != nil {
		if proxy, err = s.start(b, dir); err != nil {
			return r, err
		}
		defer proxy.kill()
	}
	start := time.Now()
	t, err := b.traffic(proxy)
	if err != nil {
		return r, err
	}
	if proxy != nil {
		r.rss = proxy.rss()
		if err := proxy.stop(); err != nil {
			return r, err
		}
		r.cpu = proxy.cpu() * 1000 / float64(t.requests)
	}
	r.perSecond = float64(t.requests) / time.Since(start).Seconds()
	if s.check != nil {
		if err := s.check(dir, t); err != nil {
			return r, err
		}
	}
	return r, os.RemoveAll(dir)
}

// traffic is that of all clients, until they have got all.
func (b *bench) traffic(proxy *process) (traffic, error) {
	transport := http.Transport{TLSClientConfig: &tls.Config{RootCAs: b.roots}, DisableCompression: true}
	if proxy != nil {
		transport.Proxy = func(*http.Request) (*url.URL, error) { return proxy.url, nil }
	}
	var all sync.WaitGroup
	sums, errs := make([]traffic, *clients), make([]error, *clients)
	for i := range *clients {
		all.Go(func() { // ends with its visits
			own := transport.Clone() // and so a connection of its own
			defer own.CloseIdleConnections()
			for range *visits {
				octets, err := visit(&http.Client{Transport: own}, b.origin.URL, b.visit.next())
				if err != nil {
					errs[i] = err
					return
				}
				sums[i].requests += len(mix)
				sums[i].octets += octets
			}
		})
	}
	all.Wait()
	var sum traffic
	for _, t := range sums {
		sum.requests += t.requests
		sum.octets += t.octets
	}
	return sum, errors.Join(errs...)
}

// print shows the medians, and of the ratios those of the rounds: what slows
// the machine down for a while then does less harm.
func (b *bench) print(subjects []subject, results map[string][]result) {
	rate := func(r result) float64 { return r.perSecond }
	fmt.Printf("%s, %d CPUs; https, %d clients, %d requests a run, medians of %d rounds (lowest to highest)\n\n",
		runtime.Version(), runtime.NumCPU(), *clients, *clients**visits*len(mix), *rounds)
	fmt.Printf("%-10s %24s %12s %10s\n", "", "req/s", "CPU s/1000", "RSS MB")
	for _, s := range subjects {
		of := results[s.name]
		rates := sorted(of, rate)
		fmt.Printf("%-10s %24s", s.name, fmt.Sprintf("%.0f (%.0f to %.0f)", median(rates), rates[0], rates[len(rates)-1]))
		if s.start != nil {
			fmt.Printf(" %12.2f %10.0f", median(sorted(of, func(r result) float64 { return r.cpu })), median(sorted(of, func(r result) float64 { return r.rss })))
		}
		fmt.Println()
	}
	fmt.Println()
	for _, than := range []string{"direct", "goproxy", "goproxy+"} {
		ratios := make([]float64, *rounds)
		for i := range ratios {
			ratios[i] = results["warctee"][i].perSecond / results[than][i].perSecond
		}
		slices.Sort(ratios)
		fmt.Printf("warctee/%-10s req/s %.2f (%.2f to %.2f)\n", than, median(ratios), ratios[0], ratios[len(ratios)-1])
	}
}

func sorted(results []result, value func(result) float64) []float64 {
	values := make([]float64, len(results))
	for i, r := range results {
		values[i] = value(r)
	}
	slices.Sort(values)
	return values
}

// median of sorted values.
func median[T cmp.Ordered](values []T) T { return values[len(values)/2] }
