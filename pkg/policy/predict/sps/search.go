package sps

import (
	"cmp"
	"container/heap"
	"math"
	"slices"
)

// Match is a prompt that was found.
type Match struct {
	Slot  int32
	Score float64 // the soft cosine, up to 1
}

// Search finds prompts that are like a vector: at most α, the most similar first (algorithm 1).
// With more than one of Leaves it goes on to the next leaves, by their medoids.
func (s *Store) Search(v []float32) []Match {
	if s.Leaves > 1 {
		return s.searchLeaves(v)
	}
	v = s.beside(v)
	b := best{room: s.Alpha}
	n := s.leaf(v)
	s.scan(n, v, &b)
	for ; len(b.found) < s.Alpha && n.parent != nil; n = n.parent {
		siblings := slices.Clone(n.parent.children)
		slices.SortStableFunc(siblings, func(x, y *node) int {
			return cmp.Compare(product(v, y.medoid), product(v, x.medoid))
		})
		for _, other := range siblings {
			if missing := s.Alpha - len(b.found); other != n && missing > 0 {
				more := best{room: missing}
				s.scan(other, v, &more)
				b.found = append(b.found, more.found...)
			}
		}
	}
	slices.SortFunc(b.found, byScore)
	return b.found
}

// searchLeaves scans the nearest Leaves leaves, and as many more as α prompts need. Of all nodes it
// has seen, it goes on with the one whose medoid is the most similar, in whatever part of the tree.
func (s *Store) searchLeaves(v []float32) []Match {
	v = s.beside(v)
	b := best{room: s.Alpha}
	open := frontier{{s.root, 0}}
	for scanned := 0; len(open) > 0 && (scanned < s.Leaves || len(b.found) < s.Alpha); {
		n := heap.Pop(&open).(seen).node //nolint:errcheck // a frontier has nothing else
		if len(n.children) == 0 {
			s.scan(n, v, &b)
			scanned++
		}
		for _, c := range n.children {
			heap.Push(&open, seen{c, product(v, c.medoid)})
		}
	}
	return b.found
}

// seen is a node that a search has compared its vector with.
type seen struct {
	node  *node
	score float32
}

// frontier is a heap of nodes, the most similar on top.
type frontier []seen

func (f frontier) Len() int           { return len(f) }
func (f frontier) Less(i, j int) bool { return f[i].score > f[j].score }
func (f frontier) Swap(i, j int)      { f[i], f[j] = f[j], f[i] }
func (f *frontier) Push(n any)        { *f = append(*f, n.(seen)) } //nolint:errcheck // it gets nothing else
func (f *frontier) Pop() any {
	last := len(*f) - 1
	n := (*f)[last]
	*f = (*f)[:last]
	return n
}

// Scan finds the α most similar of all prompts: the baseline BF.
func (s *Store) Scan(v []float32) []Match {
	b := best{room: s.Alpha}
	s.scan(s.root, s.beside(v), &b)
	return b.found
}

// leaf is where a vector belongs.
func (s *Store) leaf(v []float32) *node {
	n := s.root
	for len(n.children) > 0 {
		at, score := 0, float32(math.Inf(-1))
		for i, c := range n.children {
			if like := product(v, c.medoid); like > score {
				at, score = i, like
			}
		}
		n = n.children[at]
	}
	return n
}

// scan offers all prompts below a node.
func (s *Store) scan(n *node, v []float32, to *best) {
	for _, slot := range n.members {
		to.offer(Match{slot, float64(product(v, s.vectors.row(slot)))})
	}
	for _, c := range n.children {
		s.scan(c, v, to)
	}
}

// best has the best of what it was offered, in order.
type best struct {
	found []Match
	room  int
}

func byScore(a, b Match) int {
	return cmp.Or(cmp.Compare(b.Score, a.Score), cmp.Compare(a.Slot, b.Slot))
}

func (b *best) offer(m Match) {
	if len(b.found) == b.room {
		if byScore(m, b.found[b.room-1]) >= 0 {
			return
		}
		b.found = b.found[:b.room-1]
	}
	at, _ := slices.BinarySearchFunc(b.found, m, byScore)
	b.found = slices.Insert(b.found, at, m)
}

// Mean is the activation that matches foretell: the mean of theirs, weighted by the softmax of
// their scores over a temperature; without matches each expert gets as much as the others.
func (s *Store) Mean(of []Match, temperature float64) []float32 {
	if len(of) == 0 {
		return s.Even()
	}
	mean, all := make([]float32, s.Layers*s.Experts), 0.0
	weights := make([]float64, len(of))
	for i, m := range of {
		weights[i] = math.Exp((m.Score - of[0].Score) / temperature)
		all += weights[i]
	}
	for i, m := range of {
		w := float32(weights[i] / all)
		for at, v := range s.activations.row(m.Slot) {
			mean[at] += w * v
		}
	}
	return mean
}

// Predict is the activation that a prompt with this vector will have.
func (s *Store) Predict(v []float32) []float32 { return s.Foretold(s.Search(v)) }

// Foretold is what matches foretell with the store's temperature, and with the part that all prompts
// have in it.
func (s *Store) Foretold(of []Match) []float32 {
	return s.blend(s.Mean(of, s.Temperature), s.Typical)
}

// blend gives the mean of prompts so far a part of an activation, in place.
func (s *Store) blend(a []float32, part float64) []float32 {
	if part == 0 {
		return a
	}
	for i := range a {
		a[i] += float32(part) * (s.typical[i] - a[i])
	}
	return a
}

// Even gives all experts as much (the baseline EF).
func (s *Store) Even() []float32 {
	even := make([]float32, s.Layers*s.Experts)
	for i := range even {
		even[i] = 1 / float32(s.Experts)
	}
	return even
}

// Average is the mean of all prompts (the baseline DOP).
func (s *Store) Average() []float32 {
	all := best{room: s.Len()}
	s.each(s.root, func(slot int32) { all.found = append(all.found, Match{Slot: slot}) })
	return s.Mean(all.found, 1)
}

func (s *Store) each(n *node, do func(slot int32)) {
	for _, slot := range n.members {
		do(slot)
	}
	for _, c := range n.children {
		s.each(c, do)
	}
}

// What Fit tries, the paper's first.
var (
	temperatures = []float64{1, 0.5, 0.2, 0.1, 0.05, 0.02, 0.01}
	parts        = []float64{0, 0.1, 0.25, 0.5, 0.75}
)

// Fit sets the temperature, and where predictions are blended the part of the mean of all, by which
// prompts that are not in the store would have been foretold with the least divergence.
func (s *Store) Fit(held []Prompt) {
	some := parts
	if !s.Blended {
		some = parts[:1]
	}
	found := make([][]Match, len(held))
	for i, p := range held {
		found[i] = s.Search(p.Vector)
	}
	least := math.Inf(1)
	for _, t := range temperatures {
		for _, part := range some {
			sum := 0.0
			for i, p := range held {
				sum += Divergence(s.blend(s.Mean(found[i], t), part), p.Activation, s.Experts)
			}
			if sum < least {
				least, s.Temperature, s.Typical = sum, t, part
			}
		}
	}
}
