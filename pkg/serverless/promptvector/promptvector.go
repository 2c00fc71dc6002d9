// Package promptvector reads prompts as a model does, for what foretells experts by similar prompts.
package promptvector

import (
	"errors"
	"fmt"

	"github.com/switchyard/switchyard/kernels/pool"
	"github.com/switchyard/switchyard/pkg/compute/forward"
	"github.com/switchyard/switchyard/pkg/compute/model"
	"github.com/switchyard/switchyard/pkg/policy/predict/sps"
	"github.com/switchyard/switchyard/pkg/request/tokenizer"
)

// Reader reads prompts as a model does. One goroutine uses it.
type Reader struct {
	Model *model.Model
	Pool  *pool.Pool
	// Layers are the indexes of layers among those with experts.
	Layers map[int]int

	tokenizer  *tokenizer.Tokenizer
	embeddings *forward.Embeddings
}

// ErrModel says that a model's prompts cannot be read.
var ErrModel = errors.New("a model whose prompts cannot be read")

// Open prepares for a model's prompts. The pool computes.
func Open(m *model.Model, p *pool.Pool) (*Reader, error) {
	if m.Spec.MoELayers() == 0 || m.Spec.Task() != model.Continue {
		return nil, fmt.Errorf("%w: %s has no layers with experts, or does not go on with texts; name another one", ErrModel, m.Name)
	}
	r := &Reader{Model: m, Pool: p, Layers: map[int]int{}}
	var err error
	if r.tokenizer, err = tokenizer.Open(m.File); err != nil {
		return nil, err
	}
	if r.embeddings, err = forward.LoadEmbeddings(m, p); err != nil {
		return nil, err
	}
	for l, layer := range m.Spec.Layer {
		if layer.MoE {
			r.Layers[l] = len(r.Layers)
		}
	}
	return r, nil
}

// Settings returns the paper's for the model's prompts.
func (r *Reader) Settings() sps.Settings {
	s := sps.Paper(len(r.Layers), r.Model.Spec.Experts, r.Model.Spec.Hidden)
	s.Model = r.Model.Hash
	return s
}

// IDs returns a prompt's tokens, as many as the model has positions for beside one that it generates.
func (r *Reader) IDs(text string) ([]uint32, error) {
	ids, err := r.tokenizer.EncodePrompt(text, false)
	if err != nil {
		return nil, err
	}
	none, err := r.tokenizer.EncodePrompt("", false)
	if err != nil {
		return nil, err
	}
	if len(ids) <= len(none) {
		return nil, errors.New("the prompt has no tokens; give it some text")
	}
	return ids[:min(len(ids), r.Model.Spec.MaxPositions-1)], nil
}

// Vector returns what a prompt is compared by.
func (r *Reader) Vector(ids []uint32) ([]float32, error) {
	return sps.Vector(r.Embed(ids), r.Model.Spec.Hidden)
}

// Embed returns the embeddings of tokens (tokens, width).
func (r *Reader) Embed(ids []uint32) []float32 {
	rows := make([]forward.Row, len(ids))
	for i, id := range ids {
		rows[i] = forward.Row{ID: id, Position: i}
	}
	x := make([]float32, len(ids)*r.Model.Spec.Hidden)
	r.embeddings.Fill(x, rows)
	return x
}
