//go:build unix

package expertmap

import (
	"fmt"
	"syscall"
	"testing"
	"time"
)

// loop is b.Loop, and reports the processor's time, which others on the machine change
// less than the clock's.
func loop(b *testing.B, do func(i int)) {
	i, began := 0, processor(b)
	for b.Loop() {
		do(i)
		i++
	}
	b.ReportMetric(float64(processor(b)-began)/float64(i), "cpu-ns/op")
}

// processor is what this process has used.
func processor(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// Shapes of models that fMoE was measured with.
var shapes = []struct {
	name string
	Shape
}{
	{"qwen", qwen},
	{"mixtral", Shape{Layers: 32, Experts: 8, TopK: 2, Embedding: 4096}},
	{"phi", Shape{Layers: 32, Experts: 16, TopK: 2, Embedding: 4096}},
}

// formatsOf are how a benchmark's stores hold maps and embeddings.
var formatsOf = []struct{ maps, embeddings Format }{{F32, F32}, {BF16, BF16}, {BF16, FP8}, {FP8, FP8}}

// each runs a benchmark with full stores of 1,000 maps.
func each(b *testing.B, do func(b *testing.B, s *Store, list []Map)) {
	for _, shape := range shapes {
		for _, f := range formatsOf {
			b.Run(fmt.Sprintf("shape=%s/maps=%s/embeddings=%s", shape.name, f.maps, f.embeddings), func(b *testing.B) {
				c := settings(shape.Shape, 1000)
				c.Maps, c.Embeddings = f.maps, f.embeddings
				s, r := mustNew(b, c), seeded(shape.Shape, 1)
				for range c.Capacity / 100 {
					mustAdd(b, s, "a", r.many(100)...)
				}
				do(b, s, r.many(32))
			})
		}
	}
}

// One layer of one row.
func BenchmarkTrajectory(b *testing.B) {
	each(b, func(b *testing.B, s *Store, list []Map) {
		q := s.Begin("a")
		loop(b, func(i int) {
			l := i%s.Layers + 1
			if l == 1 {
				q.Reset()
			}
			m := list[i/s.Layers%len(list)]
			q.Layer(l, m.Probabilities[(l-1)*s.Experts:l*s.Experts])
		})
	})
}

// The embedding of one row.
func BenchmarkSemantic(b *testing.B) {
	each(b, func(b *testing.B, s *Store, list []Map) {
		q := s.Begin("a")
		loop(b, func(i int) {
			q.Embedding(list[i%len(list)].Embedding)
		})
	})
}

// The embedding of one row whose token was there before.
func BenchmarkRepeated(b *testing.B) {
	each(b, func(b *testing.B, s *Store, list []Map) {
		mustAdd(b, s, "a", list...)
		q := s.Begin("a")
		loop(b, func(i int) {
			q.Embedding(list[i%len(list)].Embedding)
		})
	})
}

// A step's maps into a full store.
func BenchmarkAdd(b *testing.B) {
	for _, rule := range Replacements() {
		for _, rows := range []int{1, 32} {
			b.Run(fmt.Sprintf("rule=%s/rows=%d", rule, rows), func(b *testing.B) {
				c := settings(qwen, 1000)
				c.Replace = rule
				s, r := mustNew(b, c), seeded(qwen, 1)
				for range 10 {
					mustAdd(b, s, "a", r.many(100)...)
				}
				list := r.many(256)
				mustAdd(b, s, "a", list[:1]...)
				loop(b, func(i int) {
					at := i * rows % len(list)
					mustAdd(b, s, "a", list[at:at+rows]...)
				})
			})
		}
	}
}

func BenchmarkSelect(b *testing.B) {
	row := seeded(qwen, 1).row()
	var hints []Hint
	loop(b, func(int) {
		hints = Select(row, 0.7, qwen.TopK, hints[:0])
	})
}

// The memory that 32K maps take, which Settings.Bytes foretells.
func TestMemory(t *testing.T) {
	const maps, most = 32 << 10, 200e6
	for _, shape := range shapes {
		c := settings(shape.Shape, maps)
		plain := c.Bytes(maps)
		c.Maps, c.Embeddings = BF16, FP8
		small := c.Bytes(maps)
		t.Logf("%s: %.1f MB, compressed %.1f MB", shape.name, float64(plain)/1e6, float64(small)/1e6)
		if small > most {
			t.Errorf("%s: 32K maps take %.1f MB", shape.name, float64(small)/1e6)
		}
	}
}
