package maps

import (
	"context"
	"slices"

	"github.com/switchyard/switchyard/pkg/compute/forward"
	"github.com/switchyard/switchyard/pkg/policy/expertmap"
)

// step is what one step brings: a map for each row that searches, and the experts that
// its rows need.
type step struct {
	decode bool
	maps   []expertmap.Map
	each   int      // how many rows a map stands for
	needed [][]bool // (L, J)
}

// decay is what is left of a mean of embeddings after each further row.
const decay = 0.9

// before is the part of the embedding before its own that a pair has: enough to tell
// contexts of a token apart, and not so much that other tokens come between.
const before = 0.25

// rows are a sequence's.
type rows struct {
	width         int         // L·J
	probabilities []float32   // (R, L, J)
	embeddings    []float32   // (R, D)
	means         [][]float32 // (R, D), that decay; nil if they are not wanted
	chosen        [][][]int   // (R, L, k)
}

// each calls do with the steps of the sequence at.
func (b *builder) each(ctx context.Context, at span, do func(*step) error) error {
	all, err := b.rows(at)
	if err != nil {
		return err
	}
	prompt := 0
	for at.from+prompt < at.to && !b.Recording.Row(at.from+prompt).Answer {
		prompt++
	}
	for from := 0; from < at.to-at.from; {
		if err := ctx.Err(); err != nil {
			return err
		}
		to := from + 1
		if from < prompt {
			to = prompt
		}
		if err := do(b.step(all, from, to, from >= prompt)); err != nil {
			return err
		}
		from = to
	}
	return nil
}

// rows computes what a sequence's rows have.
func (b *builder) rows(at span) (*rows, error) {
	r := b.Recording
	n, layers := at.to-at.from, len(r.Layers)
	all := &rows{width: layers * r.Experts, probabilities: make([]float32, n*layers*r.Experts), embeddings: make([]float32, n*r.Hidden)}
	x, probs := make([]float32, n*r.Hidden), make([]float32, n*r.Experts)
	all.chosen = make([][][]int, n)
	for l, layer := range r.Layers {
		r.Inputs(l, at.from, x)
		if err := b.router.Probabilities(layer, x, probs); err != nil {
			return nil, err
		}
		for i := range n {
			copy(all.probabilities[i*all.width+l*r.Experts:], probs[i*r.Experts:(i+1)*r.Experts])
			ids := make([]int, r.TopK)
			r.Chosen(l, at.from+i, ids)
			all.chosen[i] = append(all.chosen[i], ids)
		}
	}
	var list []forward.Row
	for i := range n {
		row := r.Row(at.from + i)
		list = append(list, forward.Row{ID: row.Token, Position: row.Position})
	}
	b.embeddings.Fill(all.embeddings, list)
	if b.Embedding == Mean {
		all.decayed(n, r.Hidden)
	}
	return all, nil
}

// decayed fills means.
func (a *rows) decayed(n, d int) {
	mean := make([]float32, d)
	for i := range n {
		for j, v := range a.embeddings[i*d : (i+1)*d] {
			mean[j] = decay*mean[j] + (1-decay)*v
		}
		a.means = append(a.means, append([]float32(nil), mean...))
	}
}

// step is that of the rows [from, to).
func (b *builder) step(all *rows, from, to int, decode bool) *step {
	r := b.Recording
	st := &step{decode: decode, each: 1, needed: make([][]bool, len(r.Layers))}
	for l := range st.needed {
		st.needed[l] = make([]bool, r.Experts)
		for i := from; i < to; i++ {
			for _, e := range all.chosen[i][l] {
				st.needed[l][e] = true
			}
		}
	}
	switch {
	case decode, b.Prefill == Rows:
		for i := from; i < to; i++ {
			st.maps = append(st.maps, b.mapOf(all, i, i+1))
		}
	case b.Prefill == Mean:
		st.maps, st.each = []expertmap.Map{b.mapOf(all, from, to)}, to-from
	default:
		one := b.mapOf(all, to-1, to)
		one.Embedding = b.embedding(all, from, to)
		st.maps = []expertmap.Map{one}
	}
	return st
}

// mapOf is the mean map of rows, with what stands for their embeddings.
func (b *builder) mapOf(all *rows, from, to int) expertmap.Map {
	return expertmap.Map{Embedding: b.embedding(all, from, to), Probabilities: mean(all.probabilities, all.width, from, to)}
}

// embedding is what stands for the embeddings of rows.
func (b *builder) embedding(all *rows, from, to int) []float32 {
	d := b.Recording.Hidden
	switch {
	case b.Embedding == Mean && to-from > 1: // a prompt's
		return mean(all.embeddings, d, from, to)
	case b.Embedding == Mean:
		return all.means[to-1]
	case b.Embedding == Pair && to > 1:
		e := slices.Clone(all.embeddings[(to-1)*d : to*d])
		for j, v := range all.embeddings[(to-2)*d : (to-1)*d] {
			e[j] += before * v
		}
		return e
	}
	return all.embeddings[(to-1)*d : to*d]
}

// mean is of the rows [from, to) of values (R, width).
func mean(values []float32, width, from, to int) []float32 {
	if to-from == 1 {
		return values[from*width : to*width]
	}
	all := make([]float32, width)
	for i := from; i < to; i++ {
		for j, v := range values[i*width : (i+1)*width] {
			all[j] += v / float32(to-from)
		}
	}
	return all
}
