package bench

import (
	"context"
	"strings"
	"testing"

	kernels "github.com/switchyard/switchyard/kernels/cuda"
	"github.com/switchyard/switchyard/kernels/pool"
	"github.com/switchyard/switchyard/pkg/compute/model"
	"github.com/switchyard/switchyard/pkg/compute/tensor"
	"github.com/switchyard/switchyard/pkg/process/gpus"
	"github.com/switchyard/switchyard/schemas"
	"github.com/switchyard/switchyard/services/switchyard/cluster"
	"github.com/switchyard/switchyard/services/switchyard/cluster/clustertest"
)

// Both sides take the rows in one step, which reads the weights of the chosen
// experts, and no fewer bytes for more rows.
// A layer's arithmetic is that of its own tensors: embedding, head and final norm are
// none of it, tied or not.
func TestLayerFLOPs(t *testing.T) {
	m, err := model.Synthetic("tiny:1", Seed)
	if err != nil {
		t.Fatal(err)
	}
	for _, tied := range []bool{false, true} {
		spec := m.Spec
		spec.TiedEmbeddings = tied
		weights := int64(spec.TopK) * spec.ExpertParameters()
		for ref := range spec.Refs() {
			if ref.Role.IsLayer() && !ref.Role.IsExpert() {
				weights += int64(model.Tensor{Shape: spec.Shape(ref)}.Len())
			}
		}
		if got, want := layerFLOPs(&spec, 1), 2*float64(weights); got != want {
			t.Errorf("tied: %v: %.0f FLOPs, want %.0f", tied, got, want)
		}
	}
}

func TestMeasureLayer(t *testing.T) {
	m, err := model.Synthetic("tiny:1", Seed)
	if err != nil {
		t.Fatal(err)
	}
	threads := pool.New(1)
	defer threads.Close()
	s := Settings{
		Model: m, Pool: threads, Wire: "bf16", Hops: "unacked", Rounds: 1, Seconds: 0.01, Context: 100, Heard: &LayerTimes{}, Progress: func(string, ...any) {},
	}
	s.Open = func(ctx context.Context, hops string) (*cluster.Cluster, error) {
		c, err := clustertest.Settings(ctx, m, tensor.BF16, schemas.Hops(hops))
		if err != nil {
			return nil, err
		}
		c.Node.Shared.Steps, c.Services.Attention.LongSteps = s.Heard.Step, true
		c.Services.Attention.Speculate, c.Services.Attention.PrefixCache = 0, false
		return cluster.Open(ctx, c)
	}
	b, err := Open(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	}()
	b.pipeline.cluster.Settings.Services.Expert.GPU = &gpus.GPU{Info: kernels.Info{Name: "fake"}}
	bytes := 0.0
	for _, rows := range []int{1, 40} {
		r, err := b.MeasureLayer(t.Context(), rows)
		if err != nil {
			t.Fatal(err)
		}
		if r.Direct <= 0 || r.Pipeline <= 0 || r.Floor <= 0 || r.Bytes < bytes || r.FLOPs <= 0 || r.Rows != rows || r.Layers != 1 {
			t.Errorf("%+v", r)
		}
		if r.Experts != "cuda:fake" || !strings.Contains(r.String(), " cuda:fake (attention cpu, gates cpu): a layer takes ") {
			t.Errorf("on the GPU: %s", r)
		}
		bytes = r.Bytes
	}
	experts := 2 * float64(4*m.Spec.ExpertParameters())
	if bytes < experts || bytes > 2*experts {
		t.Errorf("40 rows read %.0f bytes, the experts have %.0f", bytes, experts)
	}
}
