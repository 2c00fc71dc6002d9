package aggregator

import (
	"testing"

	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// BenchmarkGroup is a group of 32 rows from its partials to its sum.
func BenchmarkGroup(b *testing.B) {
	const rows, topK = 32, 2
	gs, k := newGroups(shape(topK), 1<<24), key(rows)
	x := noise(1, rows*topK*width)
	var all []*pb.Partial
	for from := range 4 {
		var places []int
		for at := from; at < rows*topK; at += 4 {
			places = append(places, at)
		}
		p := partial(k, x, places)
		p.ByteSeconds = make([]float32, len(places))
		all = append(all, p)
	}
	var out []float32
	b.ReportAllocs()
	for b.Loop() {
		k.Step++
		for _, p := range all {
			g, _, err := gs.add(p, now)
			if err != nil {
				b.Fatal(err)
			}
			if g != nil {
				out = gs.sum(g, out)
				gs.release(g)
			}
		}
	}
}
