package forward

import (
	"errors"
	"fmt"

	"github.com/switchyard/switchyard/kernels/cpu"
	"github.com/switchyard/switchyard/pkg/compute/model"
	"github.com/switchyard/switchyard/pkg/compute/safetensors"
)

// embedding looks rows up in the checkpoint itself, without a copy where it is bf16.
type embedding struct {
	d      int
	raw    []byte
	floats []float32
}

func loadEmbedding(m *model.Model) (embedding, error) {
	e := embedding{d: m.Spec.Hidden}
	if m.Spec.Embedding != (model.EmbeddingSpec{}) {
		return e, errors.New("learned positions, token types and norms of embeddings are not computed")
	}
	ref := model.Ref{Role: model.Embed}
	t, err := m.Tensor(ref)
	if err != nil {
		return e, fmt.Errorf("loading weights: %w", err)
	}
	if t.DType == safetensors.BF16 {
		e.raw = t.Data
		return e, nil
	}
	e.floats, err = m.Floats(ref)
	return e, err
}

func (e embedding) row(dst []float32, id uint32) {
	at := int(id) * e.d
	if e.raw != nil {
		cpu.FromBF16(dst, e.raw[at*2:(at+e.d)*2])
		return
	}
	copy(dst, e.floats[at:at+e.d])
}
