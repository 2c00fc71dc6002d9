package bits

import (
	"slices"
	"testing"

	"github.com/switchyard/switchyard/internal/testkit"
	"github.com/switchyard/switchyard/pkg/compute/model"
	"github.com/switchyard/switchyard/pkg/compute/tensor"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
	"github.com/switchyard/switchyard/services/switchyard/cluster/clustertest"
	"github.com/switchyard/switchyard/services/switchyard/cluster/clustertest/compared"
)

func keptIn(t *testing.T, kept model.KVCache) *model.Model {
	t.Helper()
	m := clustertest.Demo(t)
	if err := m.KeepIn(kept); err != nil {
		t.Fatal(err)
	}
	return m
}

// Keys and values in fewer bits have the bits of direct calls: in a pipeline whose requests batch, draft,
// step aside for each other, and begin with pages that others have computed.
func TestKeptIsDirect(t *testing.T) {
	for _, kept := range testkit.Some([]model.KVCache{model.KVInt8, model.KVBF16}) {
		t.Run(string(kept), func(t *testing.T) {
			t.Parallel()
			m := keptIn(t, kept)
			var valve clustertest.Valve
			y := clustertest.Start(t, m, clustertest.Joined(tensor.BF16, "core"), clustertest.Pages(crowdPages), valve.In)
			valve.Shut(t)
			want := directCrowd(t, m)
			if got := crowd(t, y, m.Spec.Vocab, valve.Open); !slices.EqualFunc(got, want, slices.Equal) {
				t.Errorf("got %v\nwant %v", got, want)
			}
			if counted(t, y, "switchyard_preemptions_total") == 0 {
				t.Error("nobody stepped aside")
			}
			roomy := clustertest.Start(t, keptIn(t, kept), clustertest.Joined(tensor.BF16, "core")) // an idle pool keeps an eighth
			again, cached := continued(t, roomy, want[0])
			if !slices.Equal(again, want[0][crowdTokens-1:]) || cached < 64 {
				t.Errorf("behind %d positions of the same request: %v, want %v", cached, again, want[0][crowdTokens-1:])
			}
		})
	}
}

// continued asks for the last token of an answer of the crowd's first prompt, with the others as a prompt,
// twice; the second time finds pages of the first.
func continued(t *testing.T, y clustertest.Cluster, answer []uint32) (tokens []uint32, cached int32) {
	t.Helper()
	ids := append(compared.PromptIDs(0, crowdPrompt, y.Settings.Node.Shared.Model.Spec.Vocab), answer[:crowdTokens-1]...)
	one := int32(1)
	for range 2 {
		tokens = nil
		for c, err := range y.Ask(t, &pb.Prompt{InputIds: ids, MaxTokens: &one, IgnoreEos: true}) {
			if err != nil {
				t.Fatal(err)
			}
			tokens = append(tokens, c.GetTokenIds()...)
			cached = c.GetUsage().GetCachedTokens()
		}
	}
	return tokens, cached
}
