//go:build unix

package main

import (
	"errors"
	"flag"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// A selection is what the flags say.
type selection struct {
	rounds   int
	dir      string
	mixes    []string
	schemes  []string
	clients  []int
	subjects []string
	before   string
	profile  string
	big      int64
	quick    bool
}

func parse(args []string) (*selection, error) {
	s := &selection{}
	flags := flag.NewFlagSet("bench", flag.ExitOnError)
	flags.IntVar(&s.rounds, "rounds", 5, "how often each of them is measured")
	flags.StringVar(&s.dir, "dir", "", "where the archives are written (default: the system's for temporary files)")
	mixes := flags.String("mixes", "", "of page, revisit, small, html, img, big; with commas between them")
	schemes := flags.String("schemes", "", "of https and http")
	clients := flags.String("clients", "", "clients at once, such as 1,16,256; big has one (default of these three: a selection)")
	names := flags.String("subjects", "", "of direct, goproxy, goproxy+, unrecorded, warctee (default: all)")
	flags.StringVar(&s.before, "before", "", "`directory` with the source of another version, measured beside this one as before")
	flags.StringVar(&s.profile, "profile", "", "`file` for a CPU profile of warctee's last run")
	flags.Int64Var(&s.big, "big", 1024, "size of big in MiB")
	flags.BoolVar(&s.quick, "quick", false, "one round, a tenth of the requests, 64 MiB for big: only to see that all works")
	flags.Parse(args)
	if flags.NArg() > 0 {
		return nil, fmt.Errorf("%q is not understood", flags.Arg(0))
	}
	s.mixes, s.schemes, s.subjects = list(*mixes), list(*schemes), list(*names)
	for _, c := range list(*clients) {
		n, err := strconv.Atoi(c)
		if err != nil || n < 1 {
			return nil, fmt.Errorf("-clients %s: not a positive number", c)
		}
		s.clients = append(s.clients, n)
	}
	if s.quick {
		s.rounds, s.big = 1, 64
	}
	if s.rounds < 1 || s.big < 1 {
		return nil, errors.New("-rounds and -big must be positive")
	}
	return s, nil
}

func list(s string) []string {
	return strings.FieldsFunc(s, func(c rune) bool { return c == ',' || c == ' ' })
}

func (s *selection) newMixes() map[string]*mix {
	less := 1
	if s.quick {
		less = 10
	}
	return newMixes(s.big<<20, less)
}

// loads returns what is selected.
func (s *selection) loads(mixes map[string]*mix) ([]load, error) {
	var loads []load
	add := func(name, scheme string, clients int) error {
		m := mixes[name]
		if m == nil || scheme != "http" && scheme != "https" {
			return fmt.Errorf("there is no mix %q, or no scheme %q", name, scheme)
		}
		if m.requests == 1 {
			clients = 1
		}
		if l := (load{mix: m, scheme: scheme, clients: clients}); !slices.Contains(loads, l) {
			loads = append(loads, l)
		}
		return nil
	}
	all := []string{"page", "revisit", "small", "html", "img", "big"}
	if len(s.mixes)+len(s.schemes)+len(s.clients) == 0 {
		for _, name := range all {
			if err := add(name, "https", 16); err != nil {
				return nil, err
			}
		}
		for _, l := range []load{{scheme: "http", clients: 16}, {scheme: "https", clients: 1}, {scheme: "https", clients: 256}} {
			if err := add("page", l.scheme, l.clients); err != nil {
				return nil, err
			}
		}
		return loads, nil
	}
	for _, name := range orElse(s.mixes, all) {
		for _, scheme := range orElse(s.schemes, []string{"https"}) {
			for _, clients := range orElse(s.clients, []int{16}) {
				if err := add(name, scheme, clients); err != nil {
					return nil, err
				}
			}
		}
	}
	return loads, nil
}

func orElse[T any](chosen, otherwise []T) []T {
	if len(chosen) > 0 {
		return chosen
	}
	return otherwise
}

// chosen are the subjects that are selected.
func (s *selection) chosen() ([]subject, error) {
	all := subjects()
	if s.before == "" {
		all = slices.DeleteFunc(all, func(s subject) bool { return s.name == "before" })
	}
	for _, name := range s.subjects {
		if !slices.ContainsFunc(all, func(s subject) bool { return s.name == name }) {
			return nil, fmt.Errorf("there is no subject %q", name)
		}
	}
	return slices.DeleteFunc(all, func(each subject) bool {
		return len(s.subjects) > 0 && !slices.Contains(s.subjects, each.name)
	}), nil
}

// firstBytes is how many answers of each subject are timed in a round.
func (s *selection) firstBytes() int {
	if s.quick {
		return 40
	}
	return max(1000/s.rounds, 40)
}
