package sampling

import (
	"fmt"
	"runtime"
	"slices"
	"testing"

	"github.com/switchyard/switchyard/kernels/pool"
)

// Rows have the choices side by side that they have alone.
func TestBatch(t *testing.T) {
	const vocab, rows = worthwhile / 2, 9
	params := func(row int) Params {
		return Params{Temperature: float32(row%3) / 2, TopP: []float32{1, 0.9}[row%2], RepetitionPenalty: 1.1, Seed: uint32(row), Logprobs: row%4 - 1}
	}
	p := pool.New(3)
	defer p.Close()
	for name, of := range map[string]*pool.Pool{"alone": nil, "three threads": p} {
		b := Batch{Pool: of}
		for _, n := range []int{1, rows, 2} {
			got := make([]Choice, n)
			b.Each(n, vocab, func(s *Sampler, row int) { got[row] = s.Next(logitsOf(row, vocab), params(row), []uint32{1, 2}, 7) })
			for row, c := range got {
				want := new(Sampler).Next(logitsOf(row, vocab), params(row), []uint32{1, 2}, 7)
				if c.ID != want.ID || c.Logprob != want.Logprob || !slices.Equal(c.Top, want.Top) {
					t.Errorf("%s, %d rows: row %d is %v, alone %v", name, n, row, c, want)
				}
			}
		}
		if threads := len(b.samplers); threads != map[bool]int{true: 3, false: 1}[of != nil] {
			t.Errorf("%s: %d samplers", name, threads)
		}
	}
}

// logitsOf are numbers without order.
func logitsOf(row, vocab int) []float32 {
	x := make([]float32, vocab)
	for i := range x {
		x[i] = float32((i*7919+row*104729)%10007)/1000 - 5
	}
	return x
}

// A step's tokens of a large vocabulary.
func BenchmarkBatch(b *testing.B) {
	const vocab, rows = 151936, 32
	p := pool.New(runtime.GOMAXPROCS(0))
	defer p.Close()
	logits := logitsOf(0, rows*vocab)
	for name, params := range map[string]Params{
		"greedy": {Logprobs: -1}, "sampled": {Temperature: 1, TopP: 1, Logprobs: -1}, "top_p": {Temperature: 1, TopP: 0.9, Logprobs: -1},
	} {
		for threads, of := range map[string]*pool.Pool{"one": nil, "all": p} {
			b.Run(fmt.Sprintf("%s/threads=%s", name, threads), func(b *testing.B) {
				batch := Batch{Pool: of}
				for b.Loop() {
					batch.Each(rows, vocab, func(s *Sampler, row int) { s.Next(logits[row*vocab:(row+1)*vocab], params, nil, 3) })
				}
			})
		}
	}
}
