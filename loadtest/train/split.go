package train

import (
	"errors"
	"math/rand/v2"

	"github.com/switchyard/switchyard/kernels/cpu"
	"github.com/switchyard/switchyard/loadtest/train/networks"
	"github.com/switchyard/switchyard/pkg/compute/recording"
	"github.com/switchyard/switchyard/pkg/policy/predict"
)

// span are the rows [from, to) of one sequence.
type span struct{ from, to int }

// split are the sequences that predictors learn from, those that choose among
// them, and those that they are measured by: 6:1:3, so that training and test are
// 7:3 as in the paper (§5), each domain by itself.
type split struct{ learn, validation, test []span }

func splitSequences(r *recording.Recording, seed uint64) (s split) {
	domains := make([][]span, len(r.Domains))
	first := r.Sequences()
	for i := range len(first) - 1 {
		d := r.Row(first[i]).Domain
		domains[d] = append(domains[d], span{first[i], first[i+1]})
	}
	order := rand.New(rand.NewPCG(seed, 3))
	for _, list := range domains {
		order.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
		learn, test := len(list)*6/10, len(list)*7/10
		s.learn = append(s.learn, list[:learn]...)
		s.validation = append(s.validation, list[learn:test]...)
		s.test = append(s.test, list[test:]...)
	}
	return s
}

func (s split) check() error {
	if len(s.learn) == 0 || len(s.validation) == 0 || len(s.test) == 0 {
		return errors.New("the recording has too few sequences to be divided 7:3; record more texts or more of each")
	}
	return nil
}

// unit is one predictor: of a target layer from distance layers before it.
type unit struct{ distance, source, target int }

// examples are those of a unit in some sequences.
func (t *trainer) examples(u unit, spans []span) *networks.Examples {
	e := &networks.Examples{Hidden: t.gates.Hidden, Experts: t.gates.Experts, TopK: t.gates.TopK}
	source, target := t.index(u.source), t.index(u.target)
	routes := predict.NewSource(t.gates, u.source)
	ids := make([]int, e.TopK)
	for _, s := range spans {
		x := make([]float32, (s.to-s.from)*e.Hidden)
		t.Recording.Inputs(source, s.from, x)
		e.X, e.Wide = append(e.X, x...), append(e.Wide, routes.Wide(x, s.to-s.from)...)
		t.Recording.Inputs(target, s.from, x)
		e.Soft = append(e.Soft, probabilities(t.gates, u.target, x)...)
		for i := s.from; i < s.to; i++ {
			t.Recording.Chosen(target, i, ids)
			for _, id := range ids {
				e.Chosen = append(e.Chosen, int32(id))
			}
		}
	}
	return e
}

// index is the place of a layer among those with experts.
func (t *trainer) index(layer int) int {
	for i, l := range t.Recording.Layers {
		if l == layer {
			return i
		}
	}
	return -1
}

// probabilities are a gate's for its inputs x (rows, D).
func probabilities(g predict.Gates, layer int, x []float32) []float32 {
	rows := len(x) / g.Hidden
	out := make([]float32, rows*g.Experts)
	w := cpu.PackF32(g.Layers[layer], g.Experts, g.Hidden)
	cpu.MatMul(out, w.N, x, w.K, rows, w, 0, w.Panels())
	for r := range rows {
		cpu.Softmax(out[r*g.Experts : (r+1)*g.Experts])
	}
	return out
}
