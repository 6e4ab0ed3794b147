//go:build unix

// Command bench measures what recording costs. In turn, several times over, the
// same traffic goes
//
//	direct      from the clients to the origin
//	goproxy     through a bare goproxy that intercepts TLS and records nothing
//	goproxy+    the same, but it keeps as many idle connections to the origin as
//	            there are clients. As it comes goproxy keeps two, and has to
//	            dial again for most requests: this is the one to compare with
//	unrecorded  through warctee's certs, mitm and proxy, put together as in the
//	            program, with a transport of net/http in place of the recorder
//	warctee     through `warctee record` with the defaults
//
// The mixes of what the clients ask for:
//
//	page     75 files of a page: 1 html of 32 KiB, 5 css of 12 KiB, 8 js of
//	         30 KiB (half of these chunked), 61 images of 0.8 to 45 KiB
//	small    1 KiB of text
//	html     100 KiB of text, which compresses to a fifth
//	img      100 KiB of noise, which does not
//	big      1 GiB of noise, once
//	revisit  the page, which was recorded before the run: the same content from
//	         the same URLs
//
// But for revisit, no two responses have the same content. Each client has one
// connection (for https a tunnel), which is made before the clock starts, and
// gets file after file through it. The clock stops when the proxy has ended
// after a SIGTERM: with warctee, when the last record is durable. Then the
// archive is checked, which is not measured: it must be free of mistakes and
// have exactly what the clients have got, who compare every octet that they get
// with what the origin has. Whatever does not agree ends the program.
//
// The origin and the clients are this process; the proxies are processes of
// their own, so that their processor time and memory can be told from it.
// HTTP/1.1 is spoken everywhere.
//
// What flatters the ratios: all share the processors, so what origin and
// clients use takes part in all figures. They are therefore bare sockets (the
// line of direct shows what they use), and to compare takes 0.1 s for each GiB.
// Goproxy does not verify the origin's certificate, and resumes no TLS session;
// both matter little where connections are kept. What hurts: there is no
// network, whose latency and limits would cost all of them the same. The first
// request of each client makes a connection to the origin within the measured
// time, which counts with 256 clients and not with 16.
//
// Processor time is that from the first request to the end of the process.
// Memory is the most that was resident, with the pages of mapped files (the
// dedup index). What is allocated a proxy tells itself, at the first request and
// when all is written: for that probe.go is compiled into it, which does nothing
// else while it is not asked for a profile.
//
// The binary of warctee is measured, not its packages in this process: it is
// what people run, and nothing here shares its heap and its garbage collector.
// Its flags can be set by environment variables, as always: WARCTEE_DEDUP=off.
//
// With the word growth in front of the flags it measures, instead of all that,
// warctee alone, as something around it grows; see [growth].
package main

import (
	"fmt"
	"log"
	"os"
	"slices"
)

func main() {
	log.SetFlags(0)
	log.SetPrefix("bench: ")
	args := os.Args[1:]
	if len(args) > 0 && programs[args[0]] != nil {
		log.Fatal(runProgram(args))
	}
	run := compare
	if len(args) > 0 && args[0] == "growth" {
		run, args = growth, args[1:]
	}
	if err := run(args); err != nil {
		log.Fatal(err)
	}
}

// compare measures all subjects under all loads.
func compare(args []string) error {
	s, err := parse(args)
	if err != nil {
		return err
	}
	chosen, err := s.chosen()
	if err != nil {
		return err
	}
	b, err := newBench(s)
	if err != nil {
		return err
	}
	defer b.close()
	loads, err := s.loads(b.mixes)
	if err != nil {
		return err
	}
	r := newReport(chosen, loads)
	for round := range s.rounds {
		for _, l := range loads {
			if err := b.round(r, round, l); err != nil {
				return fmt.Errorf("round %d, %s: %w", round+1, l, err)
			}
		}
		for _, l := range r.firstLoads {
			if err := b.firstBytes(chosen, l, s.firstBytes(), r.firsts[l]); err != nil {
				return fmt.Errorf("round %d, first bytes, %s: %w", round+1, l, err)
			}
		}
	}
	fmt.Print(r)
	return nil
}

// round measures all subjects under one load, every other time in reverse.
func (b *bench) round(r *report, round int, l load) error {
	order := slices.Clone(r.subjects)
	if round%2 == 1 {
		slices.Reverse(order)
	}
	for _, s := range order {
		result, err := b.measure(s, l)
		if err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
		log.Printf("round %d, %s: %-10s %6.0f req/s", round+1, l, s.name, result.perSecond())
		r.results[l][s.name] = append(r.results[l][s.name], result)
	}
	return nil
}
