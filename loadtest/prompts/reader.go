package prompts

import (
	"github.com/switchyard/switchyard/kernels/pool"
	"github.com/switchyard/switchyard/pkg/compute/forward"
	"github.com/switchyard/switchyard/pkg/compute/model"
	"github.com/switchyard/switchyard/pkg/policy/predict/sps"
	"github.com/switchyard/switchyard/pkg/serverless/promptvector"
)

// Reader reads prompts as a model does, and what their rows choose. One goroutine uses it.
type Reader struct{ *promptvector.Reader }

// Open prepares for a model's prompts. The pool computes.
func Open(m *model.Model, p *pool.Pool) (*Reader, error) {
	r, err := promptvector.Open(m, p)
	if err != nil {
		return nil, err
	}
	return &Reader{r}, nil
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
	e := r.Model.Spec.Experts
	return counts{e, make([]float32, len(r.Layers)*e)}
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
