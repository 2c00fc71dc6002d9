package offload

import (
	"errors"
	"fmt"

	"github.com/switchyard/switchyard/loadtest/sim/choices"
	"github.com/switchyard/switchyard/pkg/serverless/routing"
)

// Row is a row of a text.
type Row struct {
	*routing.Rows
	Text, At int // the text's number among those served, and the row's in it
}

// Step is one pass of a microbatch through the layers.
type Step struct {
	Prefill bool
	Rows    []Row
	// Ended are texts of which no row comes any more.
	Ended []int
}

// Workload are the steps that texts make, in batches one after the other.
type Workload struct {
	Model
	Gates *routing.Gates
	Texts []*routing.Rows
	Steps []Step
	// rows are those of each expert (steps, layers, experts).
	rows []uint32
	open []int // texts of the batch before
}

// NewWorkload serves texts in batches: all prompts of a batch in one step, then a row of each
// in every step until its text ends.
func NewWorkload(m Model, g *routing.Gates, texts []*routing.Rows, batch int) (*Workload, error) {
	if batch < 1 || len(texts) == 0 {
		return nil, fmt.Errorf("%d texts are to be served in batches of %d; both must be 1 or more", len(texts), batch)
	}
	if err := choices.CheckRows(g, append([]*routing.Rows{texts[0]}, texts...)); err != nil {
		return nil, err
	}
	if g.Shape != m.Shape {
		return nil, errors.New("the gates are of another shape than the model")
	}
	w := &Workload{Model: m, Gates: g, Texts: texts}
	for from := 0; from < len(texts); from += batch {
		w.serve(from, min(from+batch, len(texts)))
	}
	w.count()
	return w, nil
}

// serve adds a batch's steps.
func (w *Workload) serve(from, to int) {
	prompts, longest := Step{Prefill: true, Ended: w.open}, 0
	w.open = nil
	for t := from; t < to; t++ {
		text := w.Texts[t]
		w.open = append(w.open, t)
		for r := range text.Prompt {
			prompts.Rows = append(prompts.Rows, Row{text, t, r})
		}
		longest = max(longest, text.N-text.Prompt)
	}
	w.Steps = append(w.Steps, prompts)
	for i := range longest {
		step := Step{}
		for t := from; t < to; t++ {
			if at := w.Texts[t].Prompt + i; at < w.Texts[t].N {
				step.Rows = append(step.Rows, Row{w.Texts[t], t, at})
			}
		}
		w.Steps = append(w.Steps, step)
	}
}

// count finds each expert's rows.
func (w *Workload) count() {
	w.rows = make([]uint32, len(w.Steps)*w.Layers*w.Experts)
	for s, step := range w.Steps {
		for _, r := range step.Rows {
			for l := range w.Layers {
				loads := w.Loads(s, l)
				for _, e := range r.Chosen(r.At, l) {
					loads[e]++
				}
			}
		}
	}
}

// Loads are the rows of each expert of a layer in a step.
func (w *Workload) Loads(step, layer int) []uint32 {
	at := (step*w.Layers + layer) * w.Experts
	return w.rows[at : at+w.Experts]
}
