package bits

import (
	"slices"
	"sync"
	"testing"

	"github.com/switchyard/switchyard/internal/testkit"
	"github.com/switchyard/switchyard/kernels/pool"
	"github.com/switchyard/switchyard/pkg/compute/direct"
	"github.com/switchyard/switchyard/pkg/compute/goldens"
	"github.com/switchyard/switchyard/pkg/compute/model"
	"github.com/switchyard/switchyard/pkg/compute/tensor"
	"github.com/switchyard/switchyard/pkg/control/members"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
	"github.com/switchyard/switchyard/services/switchyard/cluster/clustertest"
	"github.com/switchyard/switchyard/services/switchyard/cluster/clustertest/compared"
)

// Sizes of the crowd: at its longest a sequence takes all four pages, and all begin
// in one each.
const (
	crowdPages  = 4
	crowdSize   = 4
	crowdPrompt = 20
	crowdTokens = 4*32 - crowdPrompt
)

// Requests that do not fit into memory together at their longest run together, and
// those that step aside have the tokens of direct calls.
func TestAsideIsDirect(t *testing.T) {
	for _, name := range testkit.Some([]string{"gpt_oss-mxfp4", "llama4", "deepseek_v3"}) { // windows, chunks, latents
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := clustertest.Open(t, goldens.Dir(name))
			var valve clustertest.Valve
			y := clustertest.Start(t, m, clustertest.Pages(crowdPages), valve.In)
			valve.Shut(t)
			got := crowd(t, y, m.Spec.Vocab, valve.Open)
			if want := directCrowd(t, m); !slices.EqualFunc(got, want, slices.Equal) {
				t.Errorf("got %v\nwant %v", got, want)
			}
			if n := counted(t, y, "switchyard_preemptions_total"); n == 0 {
				t.Error("nobody stepped aside")
			}
		})
	}
}

// crowd asks for everything at once; open is called when all are under way.
func crowd(t *testing.T, y clustertest.Cluster, vocab int, open func()) [][]uint32 {
	tokens, most := make([][]uint32, crowdSize), int32(crowdTokens)
	var all sync.WaitGroup
	for i := range tokens {
		chunks := y.Ask(t, &pb.Prompt{InputIds: compared.PromptIDs(i, crowdPrompt, vocab), MaxTokens: &most, IgnoreEos: true})
		all.Go(func() {
			for c, err := range chunks {
				if err != nil {
					t.Error(err)
				}
				tokens[i] = append(tokens[i], c.GetTokenIds()...)
			}
		})
	}
	y.AwaitAttention(t, members.Active, crowdSize)
	open()
	all.Wait()
	return tokens
}

// directCrowd is what direct calls answer, one request after the other.
func directCrowd(t *testing.T, m *model.Model) (tokens [][]uint32) {
	t.Helper()
	p := pool.New(1)
	t.Cleanup(p.Close)
	r, err := direct.New(m, p, direct.Settings{Wire: tensor.BF16, MaxPositions: crowdPrompt + crowdTokens, KVBytes: 64 << 20})
	if err != nil {
		t.Fatal(err)
	}
	for i := range crowdSize {
		s, err := r.Add(compared.PromptIDs(i, crowdPrompt, m.Spec.Vocab), crowdTokens, compared.Greedy)
		if err != nil {
			t.Fatal(err)
		}
		for range crowdTokens {
			if err := r.Step(t.Context(), []*direct.Sequence{s}); err != nil {
				t.Fatal(err)
			}
		}
		tokens = append(tokens, slices.Clone(s.Generated()))
		s.Close()
	}
	return tokens
}

// counted is a counter's value in this process.
func counted(t *testing.T, y clustertest.Cluster, name string) float64 {
	t.Helper()
	all, err := y.Settings.Node.Shared.Telemetry.Registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range all {
		if f.GetName() == name {
			return f.GetMetric()[0].GetCounter().GetValue()
		}
	}
	t.Fatalf("there is no metric %s", name)
	return 0
}
