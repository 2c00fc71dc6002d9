package tokenlog

import (
	"context"
	"fmt"
	"testing"
	"time"
)

// BenchmarkAppend appends tokens of many requests at once, as steps do: one to
// each, then waits until all are stored.
func BenchmarkAppend(b *testing.B) {
	for _, requests := range []int{1, 32, 256} {
		b.Run(fmt.Sprint(requests), func(b *testing.B) {
			r := newRig(b)
			ctx := context.Background()
			writers := make([]*Writer, requests)
			for i := range writers {
				request := fmt.Sprint("r", i)
				r.accept(request)
				writers[i], _ = r.claim(r.log, request, WriterSettings{})
			}
			b.ReportAllocs()
			n := 0
			start := time.Now()
			for b.Loop() {
				for _, w := range writers {
					appendAll(b, w, token(n))
				}
				for _, w := range writers {
					if err := w.Flush(ctx); err != nil {
						b.Fatal(err)
					}
				}
				n++
			}
			b.ReportMetric(float64(n*requests)/time.Since(start).Seconds(), "appends/s")
		})
	}
}

func BenchmarkRead(b *testing.B) {
	r := newRig(b)
	r.accept("r")
	w, _ := r.claim(r.log, "r", WriterSettings{})
	for i := range 500 {
		appendAll(b, w, token(i))
	}
	r.flush(w)
	for b.Loop() {
		if n := len(r.read("r")); n != 502 {
			b.Fatal(n)
		}
	}
}
