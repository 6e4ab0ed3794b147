package recorder

import (
	"fmt"
	"testing"
	"time"

	"github.com/warctee/warctee/warc"
)

// BenchmarkSeries appends small records, in turn to so many series of files,
// and makes them durable after every 1000.
func BenchmarkSeries(b *testing.B) {
	block := []byte("a record of the usual length of a small one, or somewhat shorter")
	for _, n := range []int{1, 10, 100, 500} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			r := openForBenchmark(b, Options{SyncInterval: time.Hour})
			for i := 0; b.Loop(); i++ {
				x := &exchange{r: r, uri: "urn:x", series: fmt.Sprint("s", i%n)}
				if !r.trackLate(x) {
					b.Fatal("closed")
				}
				c := &capture{x: x, single: true, date: "2026-11-21T10:15:00Z"}
				x.startHeader(&c.response.header, warc.TypeResource, warc.NewRecordID(), c.date)
				c.response.length = int64(len(block))
				c.response.pack(r, x.target(), block, nil)
				for !r.writer.submitSingle(c) {
					time.Sleep(time.Millisecond) // the writer is behind
				}
				if i%1000 == 999 {
					if err := r.writer.do(r.writer.sync); err != nil {
						b.Fatal(err)
					}
				}
			}
		})
	}
}
