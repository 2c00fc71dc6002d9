package bits

import (
	"slices"
	"testing"

	"github.com/switchyard/switchyard/internal/testkit"
	"github.com/switchyard/switchyard/kernels/pool"
	"github.com/switchyard/switchyard/pkg/compute/direct"
	"github.com/switchyard/switchyard/pkg/compute/goldens"
	"github.com/switchyard/switchyard/pkg/compute/kvcache"
	"github.com/switchyard/switchyard/pkg/compute/tensor"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
	"github.com/switchyard/switchyard/services/switchyard/cluster"
	"github.com/switchyard/switchyard/services/switchyard/cluster/clustertest"
	"github.com/switchyard/switchyard/services/switchyard/cluster/clustertest/compared"
)

// Layers with windows and chunks give their pages back step by step, in memory that
// would not hold all positions, and the tokens are those of direct calls that keep
// the whole prompt.
func TestWindowsInSmallMemory(t *testing.T) {
	const prompt, tokens, rows = 150, 40, 7
	for _, name := range testkit.Some([]string{"mixtral-window", "llama4"}) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := goldens.Dir(name)
			want := directLong(t, dir, prompt, tokens)
			m := clustertest.Open(t, dir)
			shape := kvcache.ShapeOf(&m.Spec)
			all := shape.Need(prompt + tokens)
			shape.Rows = rows
			need := shape.Need(prompt + tokens)
			if need >= all {
				t.Fatalf("%d pages of %d", need, all)
			}
			y := clustertest.Start(t, m, func(s *cluster.Settings) {
				s.Services.Attention.MaxRows, s.Services.Attention.KVBytes = rows, int64(need)*shape.PageBytes()
			})
			most := int32(tokens)
			var got []uint32
			for c, err := range y.Ask(t, &pb.Prompt{InputIds: compared.PromptIDs(0, prompt, m.Spec.Vocab), MaxTokens: &most, IgnoreEos: true}) {
				if err != nil {
					t.Fatal(err)
				}
				got = append(got, c.TokenIds...)
			}
			if !slices.Equal(got, want) {
				t.Errorf("got %v, want %v", got, want)
			}
		})
	}
}

// directLong is what direct calls answer, with the wire's rounding.
func directLong(t *testing.T, dir string, prompt, tokens int) []uint32 {
	t.Helper()
	m := clustertest.Open(t, dir)
	p := pool.New(1)
	defer func() { p.Close(); _ = m.Close() }() // it is only read
	r, err := direct.New(m, p, direct.Settings{Wire: tensor.BF16, MaxPositions: prompt + tokens, KVBytes: 64 << 20})
	if err != nil {
		t.Fatal(err)
	}
	s, err := r.Add(compared.PromptIDs(0, prompt, m.Spec.Vocab), tokens, compared.Greedy)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for range tokens {
		if err := r.Step(t.Context(), []*direct.Sequence{s}); err != nil {
			t.Fatal(err)
		}
	}
	return slices.Clone(s.Generated())
}
