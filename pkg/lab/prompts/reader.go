package prompts

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
	model      *model.Model
	pool       *pool.Pool
	tokenizer  *tokenizer.Tokenizer
	embeddings *forward.Embeddings
	layers     map[int]int // index among the layers with experts
}

// ErrModel says that a model's prompts cannot be read.
var ErrModel = errors.New("a model whose prompts cannot be read")

// Open prepares for a model's prompts. The pool computes.
func Open(m *model.Model, p *pool.Pool) (*Reader, error) {
	if m.Spec.MoELayers() == 0 || m.Spec.Task() != model.Continue {
		return nil, fmt.Errorf("%w: %s has no layers with experts, or does not go on with texts; name another one", ErrModel, m.Name)
	}
	r := &Reader{model: m, pool: p, layers: map[int]int{}}
	var err error
	if r.tokenizer, err = tokenizer.Open(m.File); err != nil {
		return nil, err
	}
	if r.embeddings, err = forward.LoadEmbeddings(m, p); err != nil {
		return nil, err
	}
	for l, layer := range m.Spec.Layer {
		if layer.MoE {
			r.layers[l] = len(r.layers)
		}
	}
	return r, nil
}

// Settings are the paper's for the model's prompts.
func (r *Reader) Settings() sps.Settings {
	s := sps.Paper(len(r.layers), r.model.Spec.Experts, r.model.Spec.Hidden)
	s.Model = r.model.Hash
	return s
}

// IDs are a prompt's tokens, as many as the model has positions for beside one that it generates.
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
	return ids[:min(len(ids), r.model.Spec.MaxPositions-1)], nil
}

// Vector is what a prompt is compared by.
func (r *Reader) Vector(ids []uint32) ([]float32, error) {
	return sps.Vector(r.embedded(ids), r.model.Spec.Hidden)
}

// embedded are the embeddings of tokens (tokens, width).
func (r *Reader) embedded(ids []uint32) []float32 {
	rows := make([]forward.Row, len(ids))
	for i, id := range ids {
		rows[i] = forward.Row{ID: id, Position: i}
	}
	x := make([]float32, len(ids)*r.model.Spec.Hidden)
	r.embeddings.Fill(x, rows)
	return x
}

// Seen is a prompt with what its rows chose.
type Seen struct {
	sps.Prompt
	Tokens int
	// Fate is what each layer's gate makes of the prompt's embeddings; nil where it was not asked for.
	Fate []float32
}

// counts are rows by layer and expert.
type counts struct {
	experts int
	of      []float32 // (layers, experts)
}

func (r *Reader) counts() counts {
	e := r.model.Spec.Experts
	return counts{e, make([]float32, len(r.layers)*e)}
}

// add counts choices of a layer's gate.
func (c counts) add(layer int, chosen []int32) {
	for _, e := range chosen {
		if e != forward.NoExpert {
			c.of[layer*c.experts+int(e)]++
		}
	}
}

// shares makes each layer sum to 1; a layer without rows gives all experts as much.
func (c counts) shares() []float32 {
	for at := 0; at < len(c.of); at += c.experts {
		row, sum := c.of[at:at+c.experts], float32(0)
		for _, n := range row {
			sum += n
		}
		for e := range row {
			if sum == 0 {
				row[e] = 1 / float32(c.experts)
			} else {
				row[e] /= sum
			}
		}
	}
	return c.of
}
