package distill

import (
	"context"
	"fmt"
	"slices"

	"github.com/switchyard/switchyard/kernels/pool"
	"github.com/switchyard/switchyard/pkg/policy/brownout"
)

// The groupings.
const (
	ByID     = "id"     // experts with numbers that follow each other
	ByOutput = "output" // experts that give much the same for the rows of either
)

// experts are those of a group of the recording's layer i.
func (t *teacher) experts(i, way, group int) (list []int32) {
	experts := t.Model.Spec.Experts
	order := t.orders[[2]int{way, i}]
	for at := group * way; at < min((group+1)*way, experts); at++ {
		e := int32(at)
		if order != nil {
			e = order[at]
		}
		list = append(list, e)
	}
	return list
}

// group finds the orders of all layers and ways.
func (t *teacher) group(ctx context.Context) error {
	t.orders = map[[2]int][]int32{}
	if t.Group == ByID {
		return nil
	}
	p := pool.New(max(1, t.Threads))
	defer p.Close()
	from, err := t.newSource(p)
	if err != nil {
		return err
	}
	for i, l := range t.Recording.Layers {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		t.Progress("comparing what the experts of layer %d give…", l)
		apart, err := t.apart(from, i)
		if err != nil {
			return fmt.Errorf("grouping the experts of layer %d: %w", l, err)
		}
		for _, way := range t.Ways {
			t.orders[[2]int{way, i}] = alike(apart, way)
		}
	}
	return nil
}

// A layer's experts are compared on so many rows of each of so many sequences.
const (
	comparedSequences = 256
	comparedRows      = 8
)

// apart says for each two experts of a layer what is lost if one network stands in for both and
// lies between their outputs: their squared distance on the rows of either, and of two shares of
// unequal weight the product by the sum (as Ward's clustering has it).
func (t *teacher) apart(from *source, i int) ([][]float64, error) {
	n, d := t.Model.Spec.Experts, t.Recording.Hidden
	u := unit{layer: t.Recording.Layers[i], index: i}
	for e := range n {
		u.experts = append(u.experts, int32(e))
	}
	var some []span
	for _, s := range t.parts.learn[:min(comparedSequences, len(t.parts.learn))] {
		for k := range comparedRows {
			at := s.from + (s.to-s.from)*k/comparedRows
			some = append(some, span{at, min(at+1, s.to)})
		}
	}
	r, err := from.gather(u, some, len(some), false)
	if err != nil {
		return nil, err
	}
	members, err := t.members(u)
	if err != nil {
		return nil, err
	}
	out, mem := make([][]float32, n), scratch{}
	for e, m := range members {
		out[e] = make([]float32, r.n*d)
		m.run(out[e], r.x, &mem)
	}
	apart := make([][]float64, n)
	for a := range apart {
		apart[a] = make([]float64, n)
	}
	for a := range n {
		for b := range a {
			v := r.between(a, b, out[a], out[b])
			apart[a][b], apart[b][a] = v, v
		}
	}
	return apart, nil
}

// between is what two experts with these outputs are apart.
func (r *rows) between(a, b int, x, y []float32) float64 {
	var part [2]float64 // Σg² of each
	distance := 0.0
	for row := range r.n {
		w := [2]float64{float64(r.w[row*r.way+a]), float64(r.w[row*r.way+b])}
		if w[0] == 0 && w[1] == 0 {
			continue
		}
		sum := 0.0
		for k := row * r.d; k < (row+1)*r.d; k++ {
			sum += float64(x[k]-y[k]) * float64(x[k]-y[k])
		}
		square := w[0]*w[0] + w[1]*w[1]
		distance += square * sum
		part[0], part[1] = part[0]+w[0]*w[0], part[1]+w[1]*w[1]
	}
	all := part[0] + part[1]
	return share(part[0]*part[1]*distance, all*all)
}

// alike is an order of experts whose groups of a way have little between their members: from that
// of the numbers on, the two experts change places that gain most, until none gain.
func alike(apart [][]float64, way int) []int32 {
	order := make([]int32, len(apart))
	for e := range order {
		order[e] = int32(e)
	}
	for range 100 * len(order) { // each gains, so that it ends sooner
		best, most := [2]int{}, 1e-12
		for a := range order {
			for b := a + 1; b < len(order); b++ {
				if a/way == b/way {
					continue
				}
				if gain := within(apart, order, way, a) + within(apart, order, way, b) - swapped(apart, order, way, a, b); gain > most {
					best, most = [2]int{a, b}, gain
				}
			}
		}
		if best[0] == best[1] {
			break
		}
		order[best[0]], order[best[1]] = order[best[1]], order[best[0]]
	}
	for group := range slices.Chunk(order, way) {
		slices.Sort(group)
	}
	return order
}

// within is what the expert at a place has between it and the others of its group.
func within(apart [][]float64, order []int32, way, at int) (sum float64) {
	for k := at / way * way; k < min(at/way*way+way, len(order)); k++ {
		sum += apart[order[at]][order[k]]
	}
	return sum
}

// swapped is the same of two experts that have changed places.
func swapped(apart [][]float64, order []int32, way, a, b int) float64 {
	order[a], order[b] = order[b], order[a]
	sum := within(apart, order, way, a) + within(apart, order, way, b)
	order[a], order[b] = order[b], order[a]
	return sum
}

// groupingOf is how a unit's table names its experts; none: by their numbers.
func (t *teacher) groupingOf(u unit) []int32 {
	order := t.orders[[2]int{u.way, u.index}]
	if by, err := brownout.NewGrouping(order); err != nil || by == nil {
		return nil
	}
	return u.experts
}
