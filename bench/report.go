//go:build unix

package main

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"time"
)

// A report is what all rounds gave.
type report struct {
	subjects   []subject
	loads      []load
	results    map[load]map[string][]result // by the subject's name
	firstLoads []load                       // for which the first byte is timed
	firsts     map[load]map[string][]time.Duration
}

func newReport(subjects []subject, loads []load) *report {
	r := &report{subjects: subjects, loads: loads, results: make(map[load]map[string][]result), firsts: make(map[load]map[string][]time.Duration)}
	for _, l := range loads {
		r.results[l] = make(map[string][]result)
		if l.clients = 1; l.mix.requests > 1 && r.firsts[l] == nil {
			r.firstLoads = append(r.firstLoads, l)
			r.firsts[l] = make(map[string][]time.Duration)
		}
	}
	return r
}

func (r *report) has(name string) bool {
	return slices.ContainsFunc(r.subjects, func(s subject) bool { return s.name == name })
}

// String is the report in Markdown.
func (r *report) String() string {
	var b strings.Builder
	b.WriteString(circumstances(len(r.results[r.loads[0]][r.subjects[0].name])) + "\n")
	if r.has("warctee") {
		r.writeRatios(&b)
	}
	if r.has("direct") && len(r.firstLoads) > 0 {
		r.writeFirsts(&b)
	}
	for _, l := range r.loads {
		r.writeLoad(&b, l)
	}
	return b.String()
}

// circumstances are what to know of all figures.
func circumstances(rounds int) string {
	s := fmt.Sprintf("%s, %s/%s, %d CPUs, %s", runtime.Version(), runtime.GOOS, runtime.GOARCH, runtime.NumCPU(), time.Now().Format(time.DateOnly))
	if rounds == 1 {
		return s + "; one round"
	}
	return fmt.Sprintf("%s; medians of %d rounds, in brackets the lowest and the highest", s, rounds)
}

// writeRatios compares throughputs, round by round: what slows the machine down
// for a while then does less harm.
func (r *report) writeRatios(b *strings.Builder) {
	durable := func(s result) float64 { return s.durable }
	written := func(s result) float64 { return s.written }
	delivered := func(s result) float64 { return s.delivered }
	columns := []struct {
		title, than string
		until       func(result) float64
	}{
		{"÷ goproxy", "goproxy", durable},
		{"÷ goproxy+", "goproxy+", durable},
		{"÷ unrecorded", "unrecorded", durable},
		{"÷ before", "before", durable},
		{"until written ÷ goproxy+", "goproxy+", written},
		{"until delivered ÷ goproxy+", "goproxy+", delivered},
	}
	heads, rows := []string{"throughput of warctee"}, make([][]string, len(r.loads))
	for i, l := range r.loads {
		rows[i] = []string{l.String()}
	}
	for _, c := range columns {
		if !r.has(c.than) {
			continue
		}
		heads = append(heads, c.title)
		for i, l := range r.loads {
			var ratios []float64
			for round, ours := range r.results[l]["warctee"] {
				ratios = append(ratios, c.until(r.results[l][c.than][round])/c.until(ours))
			}
			rows[i] = append(rows[i], spread("%.2f", ratios))
		}
	}
	writeTable(b, heads, rows)
}

// writeFirsts shows what each subject adds to the time to the first byte.
func (r *report) writeFirsts(b *strings.Builder) {
	heads := []string{"first byte, ms"}
	for _, s := range r.subjects {
		if s.start == nil {
			heads = append(heads, s.name)
		} else {
			heads = append(heads, "added by "+s.name)
		}
	}
	var rows [][]string
	for _, l := range r.firstLoads {
		row := []string{l.String()}
		direct := median(r.firsts[l]["direct"])
		for _, s := range r.subjects {
			first := median(r.firsts[l][s.name])
			if s.start != nil {
				first -= direct
			}
			row = append(row, fmt.Sprintf("%.2f", first.Seconds()*1e3))
		}
		rows = append(rows, row)
	}
	writeTable(b, heads, rows)
}

// writeLoad shows what each subject took under a load.
func (r *report) writeLoad(b *strings.Builder, l load) {
	heads := []string{l.String(), "req/s", "MB/s", "s until delivered", "written", "durable", "p50 ms", "p99 ms", "CPU s/1000", "CPU s/GB", "RSS MB", "KB allocated"}
	var rows [][]string
	for _, s := range r.subjects {
		of := r.results[l][s.name]
		row := []string{s.name, spread(rateFormat(of), each(of, result.perSecond))}
		for _, column := range []struct {
			format string
			value  func(result) float64
			proxy  bool // nothing to say about without one
		}{
			{"%.0f", func(r result) float64 { return float64(r.octets) / r.durable / 1e6 }, false},
			{"%.2f", func(r result) float64 { return r.delivered }, false},
			{"%.2f", func(r result) float64 { return r.written }, true},
			{"%.2f", func(r result) float64 { return r.durable }, true},
			{"%.2f", func(r result) float64 { return r.p50 }, false},
			{"%.1f", func(r result) float64 { return r.p99 }, false},
			{"%.2f", func(r result) float64 { return r.cpu * 1000 / float64(r.requests) }, false},
			{"%.1f", func(r result) float64 { return r.cpu * 1e9 / float64(r.octets) }, false},
			{"%.0f", func(r result) float64 { return r.rss }, true},
			{"%.0f", func(r result) float64 { return r.allocated / float64(r.requests) / 1e3 }, true},
		} {
			if column.proxy && s.start == nil {
				row = append(row, "")
				continue
			}
			row = append(row, fmt.Sprintf(column.format, median(each(of, column.value))))
		}
		rows = append(rows, row)
	}
	writeTable(b, heads, rows)
}

func rateFormat(results []result) string {
	if results[0].perSecond() < 10 {
		return "%.2f"
	}
	return "%.0f"
}

func each(results []result, value func(result) float64) []float64 {
	values := make([]float64, len(results))
	for i, r := range results {
		values[i] = value(r)
	}
	return values
}

// median of at least one value.
func median[T float64 | time.Duration](values []T) T {
	values = slices.Sorted(slices.Values(values))
	return values[len(values)/2]
}

// spread is the median, the lowest and the highest.
func spread(format string, values []float64) string {
	if len(values) == 1 {
		return fmt.Sprintf(format, values[0])
	}
	return fmt.Sprintf(format+" ("+format+" to "+format+")", median(values), slices.Min(values), slices.Max(values))
}

// writeTable writes a table in Markdown, which can also be read as it is.
func writeTable(b *strings.Builder, heads []string, rows [][]string) {
	lines := append([][]string{heads, make([]string, len(heads))}, rows...)
	widths := make([]int, len(heads))
	for _, line := range lines {
		for i, cell := range line {
			widths[i] = max(widths[i], len([]rune(cell)))
		}
	}
	b.WriteByte('\n')
	for n, line := range lines {
		for i, cell := range line {
			blanks := strings.Repeat(" ", widths[i]-len([]rune(cell)))
			switch {
			case n == 1 && i == 0:
				cell = strings.Repeat("-", widths[i])
			case n == 1: // numbers stand on the right
				cell = strings.Repeat("-", widths[i]-1) + ":"
			case i == 0:
				cell += blanks
			default:
				cell = blanks + cell
			}
			b.WriteString("| " + cell + " ")
		}
		b.WriteString("|\n")
	}
}
