package queue

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/switchyard/switchyard/pkg/compute/grammar"
	"github.com/switchyard/switchyard/pkg/compute/grammar/grammartest"
	"github.com/switchyard/switchyard/pkg/compute/model"
	"github.com/switchyard/switchyard/pkg/request/tokenizer"
)

// BenchmarkMask takes the demo model's vocabulary, and those of the tokenizers below
// SWITCHYARD_TOKENIZERS.
func BenchmarkMask(b *testing.B) {
	all := map[string]*tokenizer.Tokenizer{"demo": demoTokenizer(b)}
	if dir := os.Getenv("SWITCHYARD_TOKENIZERS"); dir != "" {
		paths, err := filepath.Glob(filepath.Join(dir, "*"))
		if err != nil {
			b.Fatal(err)
		}
		for _, path := range paths {
			if t, err := tokenizer.OpenPath(path, ""); err == nil {
				all[fmt.Sprintf("%s-%d", filepath.Base(path), t.Vocab())] = t
			}
		}
	}
	for name, t := range all {
		b.Run(name, func(b *testing.B) { benchmarkMask(b, t) })
	}
}

// benchmarkMask walks through schemas, and reports the middle and the 99th percentile of what
// a place takes, first seen and seen again.
func benchmarkMask(b *testing.B, t *tokenizer.Tokenizer) {
	var first, again []time.Duration
	for b.Loop() {
		set := grammar.NewSet(t.Vocab(), t.AnswerBytes)
		first, again = first[:0], again[:0]
		for i, schema := range grammartest.Schemas {
			for round, times := range []*[]time.Duration{&first, &again} {
				c, err := set.Begin(grammar.Spec{JSONSchema: schema})
				if err != nil {
					b.Fatal(err)
				}
				_ = round
				walkTimed(c, t, rand.New(rand.NewPCG(uint64(i), 3)), times)
			}
		}
	}
	for name, times := range map[string][]time.Duration{"first": first, "again": again} {
		slices.Sort(times)
		b.ReportMetric(float64(times[len(times)/2].Nanoseconds())/1e3, name+"-p50-µs")
		b.ReportMetric(float64(times[len(times)*99/100].Nanoseconds())/1e3, name+"-p99-µs")
	}
	b.ReportMetric(0, "ns/op")
}

func walkTimed(c *grammar.Cursor, t *tokenizer.Tokenizer, r *rand.Rand, times *[]time.Duration) {
	for range 40 {
		began := time.Now()
		mask := c.Mask()
		*times = append(*times, time.Since(began))
		var ids []uint32
		for id := range uint32(64 * len(mask)) {
			if mask[id>>6]>>(id&63)&1 == 1 {
				ids = append(ids, id)
			}
		}
		if len(ids) == 0 {
			return
		}
		c.Read(t.AnswerBytes(ids[r.IntN(len(ids))], false))
	}
}

func demoTokenizer(t testing.TB) *tokenizer.Tokenizer {
	t.Helper()
	m, err := model.Demo()
	if err != nil {
		t.Fatal(err)
	}
	text, err := tokenizer.Open(m.File)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func demoVocabulary(t testing.TB) *vocabulary {
	text := demoTokenizer(t)
	return &vocabulary{grammar.NewSet(text.Vocab(), text.AnswerBytes), text.AnswerBytes}
}
