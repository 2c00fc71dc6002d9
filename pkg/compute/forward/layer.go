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
		tl.dense, err = loadFFN(context.Background(), cpu.Packer{}, m, refsOf(spec.Dense, l, 0, model.DenseRoles))
	case spec.Shared.Width > 0:
		tl.shared, err = loadShared(m, l)
	}
	return err
}

// attentionBytes returns the memory of the weights that Attend reads.
func (tl *layer) attentionBytes() int64 {
	n := tl.mixer.bytes()
	if tl.cross != nil {
		n += tl.cross.bytes()
	}
	return n
}

func (tl *layer) bytes() int64 {
	n := tl.attentionBytes()
	if tl.dense != nil {
		n += tl.dense.bytes()
	}
	if tl.shared != nil {
		n += tl.shared.bytes()
	}
	return n
}
