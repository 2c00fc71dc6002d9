package arena

import (
	"errors"
	"fmt"

	"github.com/switchyard/switchyard/internal/splitmix"
	"github.com/switchyard/switchyard/loadtest/sim/offload"
	"github.com/switchyard/switchyard/pkg/compute/model"
	"github.com/switchyard/switchyard/pkg/compute/predictors"
	"github.com/switchyard/switchyard/pkg/compute/recording"
	"github.com/switchyard/switchyard/pkg/serverless/routing"
)

// Recorded are texts of the demo model that were recorded with the gates' inputs.
type Recorded struct {
	gates *routing.Gates
	texts []*routing.Rows
	ahead networks
}

// networks are a model's, by its layers' places among those that have experts.
type networks struct {
	predictors.Ahead
	layers []int
}

// Fill fills row with what a row that a gate sees as x asks of a later layer.
func (n networks) Fill(layer, ahead, target int, x, row []float32) bool {
	return n.Ahead.Fill(n.layers[layer], ahead, n.layers[target], x, row)
}

// Record reads a recording of a model.
func Record(path string, m *model.Model) (r *Recorded, err error) {
	from, err := recording.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, from.Close()) }()
	switch {
	case from.Model != m.Hash:
		return nil, fmt.Errorf("recording %s is of the model with hash %.12s, not %.12s", path, from.Model, m.Hash)
	case from.Hidden == 0:
		return nil, fmt.Errorf("recording %s is without the gates' inputs; record with --inputs", path)
	}
	r = &Recorded{}
	if r.gates, err = gatesOf(m, from); err != nil {
		return nil, err
	}
	r.ahead = networks{predictors.AheadFor(m, "", len(from.Layers)-1), from.Layers}
	embedding, err := m.Floats(model.Ref{Role: model.Embed})
	if err != nil {
		return nil, fmt.Errorf("reading the embeddings: %w", err)
	}
	first := from.Sequences()
	for i := range len(first) - 1 {
		r.texts = append(r.texts, r.rows(from, first[i], first[i+1], embedding))
	}
	return r, nil
}

// gatesOf are a model's gates, of the layers that have experts.
func gatesOf(m *model.Model, from *recording.Recording) (*routing.Gates, error) {
	all, err := predictors.GatesOf(m)
	if err != nil {
		return nil, err
	}
	g := &routing.Gates{Shape: routing.Shape{Layers: len(from.Layers), Experts: from.Experts, TopK: from.TopK}, Width: from.Hidden}
	for _, l := range from.Layers {
		if l >= len(all.Layers) || all.Layers[l] == nil {
			return nil, fmt.Errorf("the recording has layer %d, of which the model has no gate", l)
		}
		g.Weights = append(g.Weights, all.Layers[l])
	}
	return g, g.Check()
}

// rows are those of one sequence.
func (r *Recorded) rows(from *recording.Recording, begin, end int, embedding []float32) *routing.Rows {
	t := routing.NewRows(r.gates.Shape, from.Hidden, end-begin, 0)
	t.Domain = from.Row(begin).Domain
	for i := range t.N {
		row := from.Row(begin + i)
		if !row.Answer {
			t.Prompt = i + 1
		}
		t.Tokens[i] = row.Token
		if at := int(row.Token) * t.Width; at+t.Width <= len(embedding) {
			copy(t.Embedding(i), embedding[at:])
		}
		for l := range from.Layers {
			from.Inputs(l, begin+i, t.State(i, l))
		}
		t.See(r.gates, i)
	}
	return t
}

// Fit are the parameters of synthetic rows that correlate as these do, and what both measure.
func (r *Recorded) Fit() (routing.StateParams, routing.StateFigures, error) {
	f, err := routing.Correlate(r.gates, r.texts)
	return routing.FitStates(f), f, err
}

// least is how many generated rows a text needs to be served.
const leastAnswer = 8

// Traffics are the texts split 7 to 3 by prompt, in another way for each seed.
func (r *Recorded) Traffics(texts offload.Texts, seed uint64, seeds int) (all []offload.Traffic, err error) {
	var good []*routing.Rows
	for _, t := range r.texts {
		if t.N-t.Prompt >= leastAnswer && t.Prompt > 0 {
			good = append(good, t)
		}
	}
	most := texts.Before + texts.Served
	if len(good) < 10 {
		return nil, fmt.Errorf("%d texts of the recording have a prompt and %d generated tokens or more; there must be 10", len(good), leastAnswer)
	}
	for s := range uint64(seeds) {
		order := append([]*routing.Rows(nil), good...)
		state := seed + s
		for i := len(order) - 1; i > 0; i-- {
			j := int(splitmix.Next(&state) % uint64(i+1))
			order[i], order[j] = order[j], order[i]
		}
		order = order[:min(most, len(order))]
		cut := len(order) * texts.Before / most
		of := offload.Traffic{Model: offload.Demo(), Gates: r.gates, Before: order[:cut], Served: order[cut:]}
		if of.Shape != r.gates.Shape {
			return nil, errors.New("the recording is not of the demo model's shape")
		}
		all = append(all, of)
	}
	return all, nil
}
