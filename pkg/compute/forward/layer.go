package forward

import (
	"context"

	"github.com/switchyard/switchyard/kernels/cpu"
	"github.com/switchyard/switchyard/pkg/compute/kvcache"
	"github.com/switchyard/switchyard/pkg/compute/model"
)

// layer is the parts of a layer, the gate and the routed experts aside.
type layer struct {
	order              model.NormOrder
	mixerNorm, ffnNorm norm
	mixer              mixer
	place              int     // of the cache
	crossNorm          norm    // of cross
	cross              *cross  // or nil
	dense              *ffn    // or nil
	shared             *shared // or nil
}

func loadLayer(m *model.Model, l int, t *ropes, in kvcache.Places) (_ *layer, err error) {
	spec, tl := &m.Spec.Layer[l], &layer{order: m.Spec.Layer[l].Order}
	tl.place = in.Self[l]
	if tl.mixerNorm, err = loadNorm(m, spec.Norm, model.Ref{Role: model.InputNorm, Layer: l}); err != nil {
		return nil, err
	}
	if tl.ffnNorm, err = loadNorm(m, spec.Norm, model.Ref{Role: model.PostNorm, Layer: l}); err != nil {
		return nil, err
	}
	if tl.mixer, err = loadMixer(m, l, t); err != nil {
		return nil, err
	}
	if spec.Cross {
		if tl.crossNorm, err = loadNorm(m, spec.Norm, model.Ref{Role: model.CrossNorm, Layer: l}); err != nil {
			return nil, err
		}
		if tl.cross, err = loadCross(m, l, in.Cross[l]); err != nil {
			return nil, err
		}
	}
	return tl, tl.loadFFNs(m, l)
}

//nolint:contextcheck,nolintlint // the backbone is loaded whole, before anybody waits for a request
func (tl *layer) loadFFNs(m *model.Model, l int) (err error) {
	spec := &m.Spec.Layer[l]
	switch {
	case !spec.MoE:
		tl.dense, err = loadFFN(context.Background(), m, refsOf(spec.Dense, l, 0, model.DenseRoles))
	case spec.Shared.Width > 0:
		tl.shared, err = loadShared(m, l)
	}
	return err
}

func (tl *layer) bytes() int64 {
	n := tl.mixer.bytes()
	if tl.cross != nil {
		n += tl.cross.bytes()
	}
	if tl.dense != nil {
		n += tl.dense.bytes()
	}
	if tl.shared != nil {
		n += tl.shared.bytes()
	}
	return n
}

// layer takes x through layer l.
func (s *Step) layer(ctx context.Context, l int) error {
	ctx, end := s.begin(ctx, "layer", l)
	defer end()
	if err := ctx.Err(); err != nil {
		return err
	}
	tl := s.Backbone.layers[l]
	_, endAttention := s.begin(ctx, "attention", l)
	tl.mixer.mix(s, tl.place, s.block, s.input(tl, tl.mixerNorm))
	s.residual(tl, tl.mixerNorm)
	if tl.cross != nil {
		tl.cross.mix(s, s.block, s.input(tl, tl.crossNorm))
		s.residual(tl, tl.crossNorm)
	}
	in := s.input(tl, tl.ffnNorm)
	endAttention()
	s.Clock.lap(Attention)
	if tl.dense != nil {
		s.feed(tl.dense, s.block, in)
		s.residual(tl, tl.ffnNorm)
		s.Clock.lap(Dense)
		return nil
	}
	if err := s.experts(ctx, l, tl, in); err != nil {
		return err
	}
	s.residual(tl, tl.ffnNorm)
	return nil
}

// input is what a block of the layer takes: x, or its norm.
func (s *Step) input(tl *layer, n norm) []float32 {
	if tl.order == model.NormAfter {
		return s.x
	}
	n.apply(s.workers(), s.norm, s.x, len(s.rows))
	return s.norm
}

// residual adds a block's output to x.
func (s *Step) residual(tl *layer, n norm) {
	cpu.Add(s.x, s.block)
	if tl.order == model.NormAfter {
		n.apply(s.workers(), s.x, s.x, len(s.rows))
	}
}

// experts fills block with the routed and the shared experts' outputs for x.
func (s *Step) experts(ctx context.Context, l int, tl *layer, x []float32) error {
	pending, err := s.MoE.Start(ctx, l, x)
	if err != nil {
		return err
	}
	s.Clock.lap(Waiting)
	if tl.shared != nil {
		s.sharedExpert(tl.shared, x)
		s.Clock.lap(Shared)
	}
	if err := pending.Wait(ctx, s.block); err != nil {
		return err
	}
	s.Clock.lap(Waiting)
	if tl.shared != nil {
		cpu.Add(s.block, s.shared)
	}
	return nil
}
