package bits

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/switchyard/switchyard/pkg/request/client"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
	"github.com/switchyard/switchyard/services/switchyard/cluster"
	"github.com/switchyard/switchyard/services/switchyard/cluster/clustertest"
)

// texts are prompts of kinds of text that repeat themselves more or less. A penalty keeps the answer to
// the last one from repeating anything.
var texts = []struct {
	name, prompt string
	penalty      float64
}{
	{"dialogue", "User: I want to eat out at a restaurant. Please find one in San Jose.\nAssistant: What time do you want to eat? How many people are you?\n" +
		"User: A table for 2 people at 11:30 in the morning, please. What is the address of the restaurant?\nAssistant:", 1},
	{"code", "package main\n\nimport \"fmt\"\n\nfunc add(a, b int) int {\n\treturn a + b\n}\n\nfunc sub(a, b int) int {\n\treturn a - b\n}\n\nfunc mul(", 1},
	{"story", "Once upon a time, there was a little girl named Lily. One day she", 1},
	{"no repetition", "Once upon a time, there was a little girl named Lily. One day she", 1.5},
}

// BenchmarkDrafts compares one stream with drafts and without: answers of 128 tokens, the likeliest or
// drawn.
func BenchmarkDrafts(b *testing.B) {
	pipelines := map[int]clustertest.Cluster{}
	for _, n := range []int{0, 8} {
		pipelines[n] = clustertest.Start(b, clustertest.Demo(b), func(s *cluster.Settings) {
			s.Services.Attention.Speculate, s.Services.Attention.PrefixCache = n, false
		})
	}
	for _, text := range texts {
		for _, warmth := range []float64{0, 0.8} {
			for _, n := range []int{0, 8} {
				b.Run(fmt.Sprintf("text=%s/temperature=%g/speculate=%d", strings.ReplaceAll(text.name, " ", "-"), warmth, n), func(b *testing.B) {
					const tokens = 128
					for i := 0; b.Loop(); i++ {
						seed := uint32(i)
						p := &pb.Prompt{Text: text.prompt, MaxTokens: new(int32(tokens)), IgnoreEos: true, Temperature: &warmth, Seed: &seed, RepetitionPenalty: &text.penalty}
						if err := pipelines[n].Answer(b, p); err != nil {
							b.Fatal(err)
						}
					}
					b.ReportMetric(float64(tokens*b.N)/b.Elapsed().Seconds(), "tokens/s")
				})
			}
		}
	}
}

// BenchmarkPrefix is the time to the first token behind a system prompt of 400 tokens that another request
// had before, and without keeping anything.
func BenchmarkPrefix(b *testing.B) {
	system := make([]uint32, 400)
	for i := range system {
		system[i] = uint32(10 + i*37%2000)
	}
	for _, kept := range []bool{false, true} {
		y := clustertest.Start(b, clustertest.Demo(b), func(s *cluster.Settings) { s.Services.Attention.PrefixCache = kept })
		b.Run(fmt.Sprintf("prefix-cache=%v", kept), func(b *testing.B) {
			var firsts []time.Duration
			for i := 0; b.Loop(); i++ {
				p := &pb.Prompt{InputIds: append(slices.Clone(system), uint32(10+i%200), uint32(10+i/200%200)), MaxTokens: new(int32(2)), IgnoreEos: true}
				began := time.Now()
				first := time.Duration(0)
				for c, err := range y.Ask(b, p) {
					if err == nil {
						err = client.Failure(c)
					}
					if err != nil {
						b.Fatal(err)
					}
					if first == 0 && len(c.TokenIds) > 0 {
						first = time.Since(began)
					}
				}
				firsts = append(firsts, first)
			}
			slices.Sort(firsts)
			b.ReportMetric(firsts[len(firsts)/2].Seconds()*1e3, "ttft-ms")
		})
	}
}
