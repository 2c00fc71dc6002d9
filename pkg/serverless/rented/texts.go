package rented

import (
	"fmt"

	"github.com/switchyard/switchyard/internal/splitmix"
	"github.com/switchyard/switchyard/pkg/policy/cost/serverless"
	"github.com/switchyard/switchyard/pkg/policy/predict/sps"
	"github.com/switchyard/switchyard/pkg/serverless/routing"
)

// Served is a request, with what its rows chose.
type Served struct {
	sps.Prompt
	Demand serverless.Demand
	Fate   []float32 // what gates make of its tokens' embeddings
}

// Texts are those of a seed.
type Texts struct {
	Past   []sps.Prompt
	Served []Served
	Width  int // of vectors
}

// domains are as many as the recording of the demo model has.
const domains = 5

// Write makes texts of a shape: prompts of the past, and requests with their output.
func (s Shape) Write(p routing.StateParams, past, served int, seed uint64) (*Texts, error) {
	if past < 1 || served < 1 {
		return nil, fmt.Errorf("%d prompts of the past and %d requests are asked for; there must be 1 of each or more", past, served)
	}
	g, err := routing.NewStates(routing.Shape{Layers: s.Layers, Experts: s.Experts, TopK: s.TopK}, p, seed)
	if err != nil {
		return nil, err
	}
	t := &Texts{Width: g.Gates.Width}
	for i := range past + served {
		id := uint64(i)
		bits := splitmix.Mix(seed ^ splitmix.Mix(id+0x5e))
		prompt := s.Prompt[0] + int(bits%uint64(s.Prompt[1]-s.Prompt[0]+1))
		rows := prompt
		if i >= past {
			rows += s.Output
		}
		r := g.Rows(routing.Text{ID: id, Domain: int(bits >> 32 % domains), Rows: rows}, prompt)
		v, err := sps.Vector(r.Embeddings[:prompt*r.Width], r.Width)
		if err != nil {
			return nil, err
		}
		d := s.demand(r)
		one := sps.Prompt{Vector: v, Activation: s.activation(&d)}
		if i < past {
			t.Past = append(t.Past, one)
		} else {
			t.Served = append(t.Served, Served{one, d, s.fate(g, r)})
		}
	}
	return t, nil
}

// Typical is how many generated prompts stand for all where no store is asked.
const Typical = 100

// Typical returns the mean activation of generated prompts: what is foretold of a request where nothing is
// known of it.
func (s Shape) Typical(seed uint64) ([]float32, error) {
	t, err := s.Write(routing.DemoStates(), Typical, 1, seed)
	if err != nil {
		return nil, err
	}
	store, err := sps.New(sps.Paper(s.Layers, s.Experts, t.Width), t.Past)
	if err != nil {
		return nil, err
	}
	return store.Average(), nil
}

// demand returns what rows chose.
func (s Shape) demand(r *routing.Rows) serverless.Demand {
	d := serverless.Demand{Prompt: r.Prompt, Output: r.N - r.Prompt, Layers: make([]serverless.Rows, s.Layers)}
	for l := range d.Layers {
		y := serverless.Rows{Prefill: make([]float64, s.Experts), Decode: make([]float64, s.Experts), Tokens: make([][]int, 0, d.Output)}
		for row := range r.N {
			var token []int
			for _, e := range r.Chosen(row, l) {
				if row < r.Prompt {
					y.Prefill[e]++
				} else {
					y.Decode[e]++
					token = append(token, int(e))
				}
			}
			if token != nil {
				y.Tokens = append(y.Tokens, token)
			}
		}
		d.Layers[l] = y
	}
	return d
}

// activation returns the shares of experts in prefill.
func (s Shape) activation(d *serverless.Demand) []float32 {
	a := make([]float32, 0, s.Layers*s.Experts)
	for _, r := range d.Layers {
		for _, n := range r.Prefill {
			a = append(a, float32(n)/float32(d.Prompt*s.TopK))
		}
	}
	return a
}

// fate returns the baseline Fate, as the paper has it: every layer's gate is asked with the embedding of
// each of the prompt's tokens.
func (s Shape) fate(g *routing.States, r *routing.Rows) []float32 {
	a := make([]float32, s.Layers*s.Experts)
	logits, chosen := make([]float32, s.Experts), make([]uint16, s.TopK)
	for l := range s.Layers {
		for row := range r.Prompt {
			g.Gates.Logits(l, r.Embedding(row), logits)
			routing.TopK(logits, chosen)
			for _, e := range chosen {
				a[l*s.Experts+int(e)] += 1 / float32(r.Prompt*s.TopK)
			}
		}
	}
	return a
}

// Store returns a store of the past, fitted to its last tenth if fit says so.
func (s Shape) Store(t *Texts, set sps.Settings, fit bool) (*sps.Store, error) {
	if !fit {
		return sps.New(set, t.Past)
	}
	held := len(t.Past) / 10
	part, err := sps.New(set, t.Past[:len(t.Past)-held])
	if err != nil {
		return nil, err
	}
	part.Fit(t.Past[len(t.Past)-held:])
	set.Temperature, set.Typical = part.Temperature, part.Typical
	return sps.New(set, t.Past)
}

// Shortened returns requests whose outputs have no more tokens than so many.
func (s Shape) Shortened(served []Served, output int) []Served {
	out := make([]Served, len(served))
	for i, q := range served {
		q.Demand = Shortened(&q.Demand, output)
		out[i] = q
	}
	return out
}

// Shortened returns a demand with no more output tokens than so many.
func Shortened(of *serverless.Demand, output int) serverless.Demand {
	d := serverless.Demand{Prompt: of.Prompt, Output: min(output, of.Output), Layers: make([]serverless.Rows, len(of.Layers))}
	for l, r := range of.Layers {
		y := serverless.Rows{Prefill: r.Prefill, Decode: make([]float64, len(r.Decode)), Tokens: r.Tokens[:d.Output]}
		for _, token := range y.Tokens {
			for _, e := range token {
				y.Decode[e]++
			}
		}
		d.Layers[l] = y
	}
	return d
}
