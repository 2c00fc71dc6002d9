package brownout

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

// layer are the counts of a batch of 64 rows of a layer, top 8, by a skewed gate.
func layer(experts int) Rows {
	g := rand.New(rand.NewPCG(1, 2))
	r := Rows{Count: make([]int32, experts)}
	for range 64 * 8 {
		r.Count[int(float64(experts)*g.Float64()*g.Float64())]++
	}
	return r
}

func BenchmarkSplit(b *testing.B) {
	for _, experts := range []int{16, 60, 256} {
		for _, way := range []int{2, 8} {
			for _, by := range []string{"count", "loss"} {
				b.Run(fmt.Sprintf("experts=%d/way=%d/by=%s", experts, way, by), func(b *testing.B) {
					r := layer(experts)
					if by == "loss" {
						for _, n := range r.Count {
							r.Loss = append(r.Loss, float64(n)*0.3)
						}
					}
					var p Splitter
					s := Settings{Strategy: Partial, Way: way, Threshold: 400_000}
					b.ReportAllocs()
					for b.Loop() {
						if _, err := p.Split(s, r); err != nil {
							b.Fatal(err)
						}
					}
				})
			}
		}
	}
}

// Deciding again allocates nothing.
func TestNoAllocations(t *testing.T) {
	r := layer(256)
	var p Pair
	s := Settings{Strategy: Partial, Way: 8, Threshold: 400_000}
	never := make([]int32, 256)
	split := func() {
		if _, _, err := p.Split([2]Settings{s, s}, [2]Rows{r, r}, never); err != nil {
			t.Fatal(err)
		}
	}
	split()
	if n := testing.AllocsPerRun(10, split); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
