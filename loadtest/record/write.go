package record

import (
	"context"
	"errors"

	"github.com/switchyard/switchyard/pkg/compute/forward"
	"github.com/switchyard/switchyard/pkg/compute/recording"
)

// write computes all sequences whole and keeps what gates see and choose.
func (r *recorder) write(ctx context.Context, path string) (sum *Summary, err error) {
	if r.writer, err = recording.Create(path, r.header()); err != nil {
		return nil, err
	}
	if sum, err = r.writeAll(ctx); err != nil {
		return nil, errors.Join(err, r.writer.Abort())
	}
	return sum, r.writer.Close()
}

func (r *recorder) writeAll(ctx context.Context) (*Summary, error) {
	sum := &Summary{Rows: r.writer.Rows, Sequences: len(r.prompts), Domains: map[string]int{}}
	at := 0
	for i, p := range r.prompts {
		r.Progress("recording sequence %d of %d…", i+1, len(r.prompts))
		if err := r.writeSequence(ctx, at, i, p); err != nil {
			return nil, err
		}
		at += len(p.ids)
		sum.Domains[r.domains[p.domain]] += len(p.ids)
	}
	return sum, nil
}

func (r *recorder) header() recording.Header {
	spec := &r.Model.Spec
	h := recording.Header{Model: r.Model.Hash, Domains: r.domains, Experts: spec.Experts, TopK: spec.TopK, Note: r.Note(), Keys: r.Features}
	if r.Inputs {
		h.Hidden = spec.Hidden
	}
	for l, layer := range spec.Layer {
		if layer.MoE {
			r.layers[l] = len(h.Layers)
			h.Layers = append(h.Layers, l)
		}
	}
	for _, p := range r.prompts {
		h.Rows += len(p.ids)
	}
	return h
}

func (r *recorder) writeSequence(ctx context.Context, at, number int, p prompt) error {
	rows := make([]recording.Row, len(p.ids))
	for i, id := range p.ids {
		rows[i] = recording.Row{Domain: p.domain, Answer: i >= p.length, Sequence: number, Position: i, Token: id}
	}
	if err := r.writer.Describe(at, rows); err != nil {
		return err
	}
	sequences, err := r.open([]prompt{p}, number)
	if err != nil {
		return err
	}
	defer sequences[0].Close()
	r.at = at
	defer func() { r.at = -1 }()
	return r.runner.Step(ctx, sequences)
}

// keep hears of a layer's rows.
func (r *recorder) keep(layer int, x []float32, routes *forward.Routes) error {
	if r.at < 0 {
		return nil
	}
	if !r.Inputs {
		x = nil
	}
	if r.Features {
		if err := r.writer.Key(r.layers[layer], r.at, r.runner.Strongest()); err != nil {
			return err
		}
	}
	return r.writer.Layer(r.layers[layer], r.at, routes.Expert, x)
}
