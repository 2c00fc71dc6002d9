package prompts

import (
	"context"
	"errors"
	"fmt"

	"github.com/switchyard/switchyard/pkg/compute/direct"
	"github.com/switchyard/switchyard/pkg/compute/forward"
	"github.com/switchyard/switchyard/pkg/compute/kvcache"
	"github.com/switchyard/switchyard/pkg/compute/recording"
	"github.com/switchyard/switchyard/pkg/compute/sampling"
	"github.com/switchyard/switchyard/pkg/compute/tensor"
)

const (
	// together is how many prompts are computed in a step.
	together = 8
	// kvBytes bounds the memory for keys and values, beyond what one step needs.
	kvBytes = 256 << 20
)

// See runs the model over prompts, and counts what their rows choose.
func (r *Reader) See(ctx context.Context, prompts [][]uint32, fate bool, progress func(format string, args ...any)) ([]Seen, error) {
	most := 0
	for _, ids := range prompts {
		most = max(most, len(ids))
	}
	s := &seeing{Reader: r}
	shape := kvcache.ShapeOf(&r.Model.Spec)
	need := together * int64(shape.Need(most+1)) * shape.PageBytes()
	var err error
	if s.runner, err = direct.New(r.Model, r.Pool, direct.Settings{Wire: tensor.BF16, MaxPositions: most + 1, KVBytes: max(kvBytes, need), Routed: s.routed}); err != nil {
		return nil, err
	}
	if s.router, err = forward.LoadRouter(r.Model, r.Pool); err != nil {
		return nil, err
	}
	var all []Seen
	for at := 0; at < len(prompts); at += together {
		progress("running prompt %d of %d…", at+1, len(prompts))
		some, err := s.step(ctx, prompts[at:min(at+together, len(prompts))], fate)
		if err != nil {
			return nil, err
		}
		all = append(all, some...)
	}
	return all, nil
}

// seeing are prompts on their way.
type seeing struct {
	*Reader
	runner *direct.Runner
	router *forward.Router
	spans  []int // rows of the step's prompts
	of     []counts
}

// step runs some prompts together.
func (s *seeing) step(ctx context.Context, prompts [][]uint32, fate bool) (all []Seen, err error) {
	s.spans, s.of = s.spans[:0], s.of[:0]
	var sequences []*direct.Sequence
	defer func() {
		for _, one := range sequences {
			one.Close()
		}
	}()
	for _, ids := range prompts {
		one, err := s.runner.Add(ids, 1, sampling.Params{TopP: 1, Logprobs: -1})
		if err != nil {
			return nil, err
		}
		sequences = append(sequences, one)
		s.spans, s.of = append(s.spans, len(ids)), append(s.of, s.counts())
	}
	if err := s.runner.Step(ctx, sequences); err != nil {
		return nil, err
	}
	for i, ids := range prompts {
		one := Seen{Tokens: len(ids)}
		one.Activation = s.of[i].shares()
		if one.Vector, err = s.Vector(ids); err != nil {
			return nil, err
		}
		if fate {
			if one.Fate, err = s.fate(ids); err != nil {
				return nil, err
			}
		}
		all = append(all, one)
	}
	return all, nil
}

// routed hears what a layer's gate chose for all rows of the step, prompt by prompt.
func (s *seeing) routed(layer int, _ []float32, routes *forward.Routes) error {
	at := 0
	for i, rows := range s.spans {
		if at+rows > routes.Rows() {
			return fmt.Errorf("layer %d has %d rows of %d prompts; a step must have all of them", layer, routes.Rows(), len(s.spans))
		}
		s.of[i].add(s.Layers[layer], routes.Expert[at*routes.K:(at+rows)*routes.K])
		at += rows
	}
	return nil
}

// fate is the baseline Fate: every layer's gate is asked with the embedding of each of the prompt's
// tokens.
func (s *seeing) fate(ids []uint32) ([]float32, error) {
	x, c := s.Embed(ids), s.counts()
	var routes forward.Routes
	for layer, at := range s.Layers {
		if err := s.router.Route(layer, x, &routes); err != nil {
			return nil, err
		}
		c.add(at, routes.Expert)
	}
	return c.shares(), nil
}

// Recorded are the prompts of a recording, with what their gates chose.
func (r *Reader) Recorded(from *recording.Recording) (all []Seen, err error) {
	spec := &r.Model.Spec
	switch {
	case from.Model != r.Model.Hash:
		return nil, fmt.Errorf("the recording is of the model with hash %.12s, not %.12s; record this model", from.Model, r.Model.Hash)
	case from.Experts != spec.Experts || len(from.Layers) != len(r.Layers):
		return nil, errors.New("the recording's numbers of layers and experts are not the model's; record it anew")
	}
	first, chosen, ids := from.Sequences(), make([]int, from.TopK), []uint32{}
	for i, at := range first[:len(first)-1] {
		c := r.counts()
		ids = ids[:0]
		for row := at; row < first[i+1] && !from.Row(row).Answer; row++ {
			ids = append(ids, from.Row(row).Token)
			for l := range from.Layers {
				from.Chosen(l, row, chosen)
				for _, e := range chosen {
					c.of[l*c.experts+e]++
				}
			}
		}
		one := Seen{Tokens: len(ids)}
		one.Activation = c.shares()
		if one.Vector, err = r.Vector(ids); err != nil {
			return nil, fmt.Errorf("sequence %d: %w", i, err)
		}
		all = append(all, one)
	}
	return all, nil
}

// Read runs the model over texts. Those that have no tokens are left out.
func (r *Reader) Read(ctx context.Context, texts []string, fate bool, progress func(format string, args ...any)) ([]Seen, error) {
	var prompts [][]uint32
	for _, text := range texts {
		if ids, err := r.IDs(text); err == nil {
			prompts = append(prompts, ids)
		}
	}
	return r.See(ctx, prompts, fate, progress)
}
