package attention

import (
	"context"
	"fmt"

	"github.com/switchyard/switchyard/pkg/compute/device/cuda"
	"github.com/switchyard/switchyard/pkg/compute/forward"
	"github.com/switchyard/switchyard/pkg/compute/kvcache"
	"github.com/switchyard/switchyard/pkg/compute/model"
	"github.com/switchyard/switchyard/pkg/process/deployment"
	"github.com/switchyard/switchyard/pkg/process/gpus"
)

// weights is what a replica computes with: a model's weights but those of routed experts, and
// its pages.
type weights struct {
	d      *deployment.Deployment
	config Config

	backbone *forward.Backbone
	gpu      *cuda.Backbone // or nil
	kv       *kvcache.Pool
}

// load brings the backbone's weights to what computes with them, and makes its pages.
func (w *weights) load(ctx context.Context) error {
	err := w.d.LoadWeights(ctx, "loading attention's weights", func(m *model.Model) (err error) {
		positions := m.Spec.LongestSequence(w.config.MaxModelLen)
		if w.config.GPU != nil {
			return w.loadOnGPU(ctx, m, positions)
		}
		w.backbone, err = forward.LoadBackbone(m, w.d.Pool, positions)
		return err
	})
	if err != nil {
		return err
	}
	if w.kv, err = w.backbone.NewPool(w.config.MaxRows, w.config.KVBytes); err != nil && w.config.GPU != nil {
		return &gpus.Error{Err: err}
	}
	return err
}

func (w *weights) loadOnGPU(ctx context.Context, m *model.Model, positions int) error {
	on, err := w.config.GPU.Attention(ctx, m, w.d.Pool, gpus.Steps{
		Wire: w.d.Wire, Positions: positions, Rows: w.config.MaxRows, Lanes: w.config.Microbatches,
		Ungraphed: w.ungraphed,
	})
	if err != nil {
		return err
	}
	w.backbone, w.gpu = forward.NewBackbone(&m.Spec, on), on
	return nil
}

// ungraphed says why steps take longer from now on.
func (w *weights) ungraphed(why error) {
	w.d.Logger.Warn("the GPU makes or runs no graphs; from the next step on its launches go one by one", "error", why)
}

// tellRoom warns of memory that holds less than a sequence may have: what is longer is
// accepted only while another replica has room for it.
func (w *weights) tellRoom() {
	if short := shortOfRoom(w.kv, w.d.Model.Spec.LongestSequence(w.config.MaxModelLen), w.config.GPU != nil); short != nil {
		w.d.Logger.Warn("keys and values have room for fewer positions than a sequence may have: longer requests are refused, unless another attention replica has the room", short...)
	}
}

// shortOfRoom says how many positions of a sequence's fit, and what to do; nil: all do.
func shortOfRoom(kv *kvcache.Pool, longest int, onGPU bool) []any {
	holds := kv.Holds(longest)
	if holds >= longest {
		return nil
	}
	needed := int64(kv.Need(longest)) * kv.PageBytes()
	cure := fmt.Sprintf("give --kv-memory %dMiB, or --max-model-len %d", (needed+1<<20-1)>>20, holds)
	if onGPU {
		cure = fmt.Sprintf("give --gpu-memory more, or --max-model-len %d", holds)
	}
	return []any{"positions", holds, "context", longest, "needed_bytes", needed, "cure", cure}
}
