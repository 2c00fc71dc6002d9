package offload

import "github.com/switchyard/switchyard/pkg/serverless/routing"

// Hint names an expert to fetch, with its chance of use.
type Hint struct {
	Expert int
	Chance float32
}

// Look is what a predictor says of a layer.
type Look struct {
	Target int
	// Told are the chances of all experts (experts), by which copies are kept; nil says nothing.
	Told []float32
	// Fetch are the experts to be fetched.
	Fetch []Hint
	// Next says that it is about the next step.
	Next bool
}

// Predictor looks ahead. Steps begin in their order, and within one Look is called once for
// each layer, ascending from -1, which is before the first. It may read what rows' gates have
// said of layers up to this one, and nothing of later ones.
type Predictor interface {
	Begin(step int)
	Look(layer int, give func(Look))
}

// Foresight is all that a predictor says of a workload.
type Foresight struct {
	layers int
	looks  [][]Look // by step and layer, from before the first
	// Recall is of the experts that rows chose the share that was named in time.
	Recall float64
}

// At is what is said at a layer of a step.
func (f *Foresight) At(step, layer int) []Look { return f.looks[step*(f.layers+1)+layer+1] }

// Foresee asks a predictor for all of a workload; nil says nothing.
func Foresee(w *Workload, p Predictor) *Foresight {
	f := &Foresight{layers: w.Layers, looks: make([][]Look, len(w.Steps)*(w.Layers+1))}
	if p == nil {
		return f
	}
	named, asked, found := make([]bool, w.Layers*w.Experts), 0, 0
	for s, step := range w.Steps {
		p.Begin(s)
		clear(named)
		for l := -1; l < w.Layers; l++ {
			at := s*(w.Layers+1) + l + 1
			p.Look(l, func(look Look) { f.looks[at] = append(f.looks[at], look) })
			name(named, f.looks[at], w.Experts)
		}
		if step.Prefill {
			continue
		}
		a, n := w.asked(s, named)
		asked, found = asked+a, found+n
	}
	if asked > 0 {
		f.Recall = float64(found) / float64(asked)
	}
	return f
}

// asked counts the experts that a step's rows go to, and those of them that are named.
func (w *Workload) asked(step int, named []bool) (asked, found int) {
	for l := range w.Layers {
		for e, n := range w.Loads(step, l) {
			if n > 0 {
				asked++
				if named[l*w.Experts+e] {
					found++
				}
			}
		}
	}
	return asked, found
}

// name marks what is to be fetched for the step.
func name(named []bool, looks []Look, experts int) {
	for _, look := range looks {
		for _, h := range look.Fetch {
			named[look.Target*experts+h.Expert] = named[look.Target*experts+h.Expert] || !look.Next
		}
	}
}

// union joins what rows say of one layer: the largest chance of each expert.
type union struct {
	told  []float32
	fetch []float32 // 0 is not to be fetched
}

func newUnion(experts int) *union {
	return &union{told: make([]float32, experts), fetch: make([]float32, experts)}
}

// add takes a row's chances in, and the experts that are to be fetched for it.
func (u *union) add(row []float32, fetch []Hint) {
	for e, p := range row {
		u.told[e] = max(u.told[e], p)
	}
	for _, h := range fetch {
		u.fetch[h.Expert] = max(u.fetch[h.Expert], h.Chance)
	}
}

// most adds a row whose k most probable experts are to be fetched.
func (u *union) most(row []float32, k int) {
	ids := make([]uint16, k)
	routing.TopK(row, ids)
	for _, e := range ids {
		u.fetch[e] = max(u.fetch[e], row[e])
	}
	u.add(row, nil)
}

// look is what the rows say together.
func (u *union) look(target int) Look {
	l := Look{Target: target, Told: u.told}
	for e, p := range u.fetch {
		if p > 0 {
			l.Fetch = append(l.Fetch, Hint{e, p})
		}
	}
	return l
}
