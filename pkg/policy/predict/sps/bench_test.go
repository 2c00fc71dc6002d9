package sps

import (
	"flag"
	"fmt"
	"testing"

	"github.com/switchyard/switchyard/internal/splitmix"
)

// most is how large stores are that are measured: 1,000,000 take minutes and a gigabyte.
var most = flag.Int("prompts", 10000, "most prompts of a store that benchmarks have")

// The paper builds its tree of 5,000 prompts in 0.5 s, and searches it ten times as fast as all.
func BenchmarkSPS(b *testing.B) {
	s := Paper(26, 64, 64)
	all := past(5000, 40, s, 1)
	y, err := New(s, all)
	if err != nil {
		b.Fatal(err)
	}
	b.Run("build", func(b *testing.B) { build(b, s, all) })
	s.Clustering = PAM
	b.Run("build-varpam", func(b *testing.B) { build(b, s, all[:min(len(all), *most/10)]) })
	leaves := *y
	leaves.Leaves = 8
	for _, by := range []struct {
		name   string
		search func([]float32) []Match
	}{{"tree", y.Search}, {"tree-8-leaves", leaves.Search}, {"scan", y.Scan}} {
		b.Run(by.name, func(b *testing.B) {
			for i := 0; b.Loop(); i++ {
				by.search(all[i%len(all)].Vector)
			}
		})
	}
	b.Run("mean", func(b *testing.B) {
		found := y.Search(all[0].Vector)
		for b.Loop() {
			y.Mean(found, 1)
		}
	})
}

func build(b *testing.B, s Settings, all []Prompt) {
	for b.Loop() {
		if _, err := New(s, all); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(len(all)), "prompts")
}

// Literal brute force compares all tokens of two prompts by their Gram matrix, for each prompt of the
// store: 5,000 pairs a search.
func BenchmarkLiteral(b *testing.B) {
	prompt := func(seed uint64) (tokens [][]float32) {
		for range 100 {
			token := make([]float32, 64)
			for i := range token {
				token[i] = float32(splitmix.Unit(splitmix.Next(&seed)) - 0.5)
			}
			tokens = append(tokens, token)
		}
		return tokens
	}
	x, y := prompt(1), prompt(2)
	for b.Loop() {
		softCosine(x, y)
	}
}

// Beside all vectors, the tree pays from some number of prompts on.
func BenchmarkScale(b *testing.B) {
	for _, n := range []int{100, 1000, 10000, 100000, 1000000} {
		if n > *most {
			break
		}
		s := Paper(1, 2, 64)
		all := past(n, max(1, n/125), s, 1)
		y, err := New(s, all)
		if err != nil {
			b.Fatal(err)
		}
		b.Run(fmt.Sprintf("tree-%d", n), func(b *testing.B) {
			for i := 0; b.Loop(); i++ {
				y.Search(all[i*7919%n].Vector)
			}
		})
		b.Run(fmt.Sprintf("scan-%d", n), func(b *testing.B) {
			for i := 0; b.Loop(); i++ {
				y.Scan(all[i*7919%n].Vector)
			}
		})
	}
}
