package offload

import (
	"github.com/switchyard/switchyard/internal/splitmix"
	"github.com/switchyard/switchyard/pkg/serverless/routing"
)

// Length is a request's.
type Length struct{ Prompt, Answer int } // tokens

// Requests are like Synthetic, but what is served has these lengths.
func Requests(m Model, p routing.StateParams, t Texts, lengths []Length, seed uint64) (Traffic, error) {
	t.Served = 1
	of, err := Synthetic(m, p, t, seed)
	if err != nil {
		return of, err
	}
	g, err := routing.NewStates(m.Shape, p, seed)
	if err != nil {
		return of, err
	}
	of.Gates, of.Served = &g.Gates, nil
	for i, l := range lengths {
		id := uint64(t.Before + i)
		domain := int(splitmix.Mix(seed^splitmix.Mix(id+1)) % uint64(t.Domains))
		prompt := max(1, l.Prompt)
		of.Served = append(of.Served, g.Rows(routing.Text{ID: id, Domain: domain, Rows: prompt + max(1, l.Answer-1)}, prompt))
	}
	return of, nil
}

// Batches are the seconds that each batch of texts took, from its prompts on.
func (r *Result) Batches(w *Workload) (seconds []float64) {
	for i, step := range w.Steps {
		if step.Prefill {
			seconds = append(seconds, 0)
		}
		seconds[len(seconds)-1] += r.Steps[i]
	}
	return seconds
}
