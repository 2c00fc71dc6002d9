package distill

import (
	"cmp"
	"fmt"
	"math"
	"slices"
)

// The starts of a student.
const (
	Busiest = "busiest" // the member with most rows
	Mean    = "mean"    // of the members' weights
	Matched = "matched" // their mean, each one's neurons in the order of the busiest's
	Best    = "best"    // which of these has the least loss on the validation rows
)

var starts = []string{Busiest, Mean, Matched}

// start is a student's first network.
func start(name string, members []*net, count []int) (*net, error) {
	busiest := 0
	for m, n := range count {
		if n > count[busiest] {
			busiest = m
		}
	}
	first := members[busiest]
	switch name {
	case Busiest:
		return newNet(first.d, first.f, slices.Clone(first.in.W), slices.Clone(first.down.W)), nil
	case Mean, Matched:
		sum := newNet(first.d, first.f, make([]float32, len(first.in.W)), make([]float32, len(first.down.W)))
		for _, m := range members {
			sum.add(m, order(name, first, m), 1/float32(len(members)))
		}
		sum.pack()
		return sum, nil
	}
	return nil, fmt.Errorf("a student cannot start as %q; it can as %v, or as the %s of them", name, starts, Best)
}

// order says which neuron of m takes each place.
func order(name string, first, m *net) []int {
	if name == Mean || first == m {
		all := make([]int, m.f)
		for i := range all {
			all[i] = i
		}
		return all
	}
	return match(first, m)
}

// add adds a share of m's neurons, each in its place.
func (n *net) add(m *net, order []int, share float32) {
	for to, from := range order {
		for half := range 2 {
			dst, src := n.in.W[(half*n.f+to)*n.d:][:n.d], m.in.W[(half*n.f+from)*n.d:][:n.d]
			for i, v := range src {
				dst[i] += share * v
			}
		}
		for i := range n.d {
			n.down.W[i*n.f+to] += share * m.down.W[i*n.f+from]
		}
	}
}

// match gives each neuron of first the one of m that is most like it and still free: pairs by
// cosine similarity, the most similar first.
func match(first, m *net) []int {
	type pair struct {
		a, b int
		cos  float64
	}
	x, y := first.neurons(), m.neurons()
	pairs := make([]pair, 0, first.f*m.f)
	for a := range x {
		for b := range y {
			dot := 0.0
			for i, v := range x[a] {
				dot += v * y[b][i]
			}
			pairs = append(pairs, pair{a, b, dot})
		}
	}
	slices.SortFunc(pairs, func(p, q pair) int { return cmp.Or(cmp.Compare(q.cos, p.cos), p.a-q.a, p.b-q.b) })
	out, taken := make([]int, first.f), make([]bool, m.f)
	for i := range out {
		out[i] = -1
	}
	for _, p := range pairs {
		if out[p.a] < 0 && !taken[p.b] {
			out[p.a], taken[p.b] = p.b, true
		}
	}
	return out
}

// neurons are the weights of each, as vectors of length 1.
func (n *net) neurons() [][]float64 {
	all := make([][]float64, n.f)
	for i := range all {
		v := make([]float64, 0, 3*n.d)
		for half := range 2 {
			for _, w := range n.in.W[(half*n.f+i)*n.d:][:n.d] {
				v = append(v, float64(w))
			}
		}
		for k := range n.d {
			v = append(v, float64(n.down.W[k*n.f+i]))
		}
		length := 0.0
		for _, w := range v {
			length += w * w
		}
		for k := range v {
			v[k] /= math.Sqrt(max(length, 1e-30))
		}
		all[i] = v
	}
	return all
}
