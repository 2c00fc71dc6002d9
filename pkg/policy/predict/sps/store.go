package sps

import (
	"fmt"
	"math"
)

// Prompt is one of the past.
type Prompt struct {
	Vector     []float32 // (Width), of length 1
	Activation []float32 // (Layers, Experts), each layer's sum is 1
}

// Store keeps prompts in a tree.
type Store struct {
	Settings
	vectors     table
	activations table
	root        *node
	leaves      []*node // of each slot; nil is free
	added       int     // prompts so far: the next one has slot added mod Capacity
	draws       uint64
	centre      []float32 // (Width) what vectors are beside, where they are centred
	typical     []float32 // (Layers, Experts) the mean of prompts so far; later ones count as if all were there
}

// table has a row for each slot.
type table struct {
	data  []float32
	width int
}

func (t *table) row(slot int32) []float32 { return t.data[int(slot)*t.width : (int(slot)+1)*t.width] }

// set writes a row, which may be the one behind the last.
func (t *table) set(slot int32, row []float32) {
	if at := int(slot) * t.width; at == len(t.data) {
		t.data = append(t.data, row...)
	} else {
		copy(t.data[at:], row)
	}
}

// node is a leaf with prompts, or has children.
type node struct {
	parent   *node
	medoid   []float32 // what searches compare with; the root has none
	children []*node
	members  []int32
	size     int // prompts below
	alike    int // prompts that no medoid told apart; twice as many are tried again
}

// New is a store with prompts of the past, the oldest first.
func New(s Settings, past []Prompt) (*Store, error) {
	if err := s.Check(); err != nil {
		return nil, err
	}
	if s.Capacity > 0 {
		past = past[max(0, len(past)-s.Capacity):]
	}
	y := &Store{
		Settings: s, vectors: table{width: s.Width}, activations: table{width: s.Layers * s.Experts}, root: &node{}, draws: s.Seed,
	}
	y.vectors.data, y.activations.data = make([]float32, 0, len(past)*s.Width), make([]float32, 0, len(past)*s.Layers*s.Experts)
	y.centre, y.typical = make([]float32, s.Width), y.Even()
	for i, p := range past {
		if err := y.check(p); err != nil {
			return nil, fmt.Errorf("prompt %d: %w", i, err)
		}
		for at, v := range p.Vector {
			y.centre[at] += v / float32(len(past))
		}
	}
	for _, p := range past {
		y.root.members = append(y.root.members, y.keep(p, y.root))
	}
	y.root.size = len(past)
	return y, y.divide(y.root)
}

// Len is how many prompts there are.
func (s *Store) Len() int { return s.root.size }

// Add takes in a prompt whose rows have been routed. Where there is no room, the oldest goes.
func (s *Store) Add(p Prompt) error {
	if err := s.check(p); err != nil {
		return err
	}
	if s.Capacity > 0 && s.added >= s.Capacity {
		s.remove(int32(s.added % s.Capacity))
	}
	leaf := s.leaf(s.beside(p.Vector))
	leaf.members = append(leaf.members, s.keep(p, leaf))
	for n := leaf; n != nil; n = n.parent {
		n.size++
	}
	return s.divide(leaf)
}

// keep writes a prompt into the next slot.
func (s *Store) keep(p Prompt, leaf *node) int32 {
	slot := int32(s.added)
	if s.Capacity > 0 {
		slot = int32(s.added % s.Capacity)
	}
	s.added++
	s.vectors.set(slot, s.beside(p.Vector))
	s.activations.set(slot, p.Activation)
	some := float32(s.added)
	if s.Capacity > 0 {
		some = float32(min(s.added, s.Capacity))
	}
	for at, v := range p.Activation {
		s.typical[at] += (v - s.typical[at]) / some
	}
	if int(slot) == len(s.leaves) {
		s.leaves = append(s.leaves, nil)
	}
	s.leaves[slot] = leaf
	return slot
}

// beside is a vector as it is kept and compared: where they are centred, what it is beside the centre,
// brought to length 1; the centre itself stays as it is.
func (s *Store) beside(v []float32) []float32 {
	if !s.Centred {
		return v
	}
	out := make([]float32, len(v))
	for i := range v {
		out[i] = v[i] - s.centre[i]
	}
	norm := length(out)
	if !(norm > apart) {
		return v
	}
	for i := range out {
		out[i] = float32(float64(out[i]) / norm)
	}
	return out
}

// remove takes a slot's prompt out; a node without prompts leaves the tree.
func (s *Store) remove(slot int32) {
	leaf := s.leaves[slot]
	for i, m := range leaf.members {
		if m == slot {
			leaf.members = append(leaf.members[:i], leaf.members[i+1:]...)
			break
		}
	}
	for n := leaf; n != nil; n = n.parent {
		n.size--
		if up := n.parent; n.size == 0 && up != nil {
			up.drop(n)
		}
	}
	s.leaves[slot] = nil
}

func (n *node) drop(child *node) {
	kept := n.children[:0]
	for _, c := range n.children {
		if c != child {
			kept = append(kept, c)
		}
	}
	n.children = kept
}

// The slack of what should be 1.
const offOne = 1e-3

func (s *Store) check(p Prompt) error {
	if len(p.Vector) != s.Width || len(p.Activation) != s.Layers*s.Experts {
		return fmt.Errorf("%w: it has a vector of %d values and an activation of %d; this store's have %d and %d × %d",
			ErrPrompt, len(p.Vector), len(p.Activation), s.Width, s.Layers, s.Experts)
	}
	if n := length(p.Vector); !(math.Abs(n-1) <= offOne) {
		return fmt.Errorf("%w: its vector has length %v, not 1", ErrPrompt, n)
	}
	for l := range s.Layers {
		sum := 0.0
		for e, v := range p.Activation[l*s.Experts : (l+1)*s.Experts] {
			if !(v >= 0) {
				return fmt.Errorf("%w: the share of expert %d in layer %d is %v", ErrPrompt, e, l, v)
			}
			sum += float64(v)
		}
		if !(math.Abs(sum-1) <= offOne) {
			return fmt.Errorf("%w: the shares of layer %d sum to %v, not 1", ErrPrompt, l, sum)
		}
	}
	return nil
}

// Vector is what a prompt is compared by: the sum of its tokens' embeddings, each of length 1,
// brought to length 1. Embeddings are (tokens, width).
func Vector(embeddings []float32, width int) ([]float32, error) {
	if width < 1 || len(embeddings) == 0 || len(embeddings)%width != 0 {
		return nil, fmt.Errorf("%w: it has %d values of embeddings of width %d; it must have one token or more", ErrPrompt, len(embeddings), width)
	}
	sum := make([]float64, width)
	for at := 0; at < len(embeddings); at += width {
		token := embeddings[at : at+width]
		norm := length(token)
		if math.IsNaN(norm) || math.IsInf(norm, 0) {
			return nil, fmt.Errorf("%w: the embedding of token %d has a value that is no finite number", ErrPrompt, at/width)
		}
		for i, v := range token {
			if norm > 0 { // a token without a direction says nothing
				sum[i] += float64(v) / norm
			}
		}
	}
	out := make([]float32, width)
	norm := 0.0
	for _, v := range sum {
		norm += v * v
	}
	if norm == 0 {
		return nil, fmt.Errorf("%w: the embeddings of its tokens cancel each other", ErrPrompt)
	}
	for i, v := range sum {
		out[i] = float32(v / math.Sqrt(norm))
	}
	return out, nil
}

// product is the inner product, in four sums that do not wait for each other: predictions need no
// order of sums.
func product(a, b []float32) float32 {
	var s0, s1, s2, s3 float32
	b = b[:len(a)]
	i := 0
	for ; i+4 <= len(a); i += 4 {
		x, y := a[i:i+4:i+4], b[i:i+4:i+4]
		s0 += x[0] * y[0]
		s1 += x[1] * y[1]
		s2 += x[2] * y[2]
		s3 += x[3] * y[3]
	}
	for ; i < len(a); i++ {
		s0 += a[i] * b[i]
	}
	return s0 + s1 + (s2 + s3)
}

func length(v []float32) float64 {
	sum := 0.0
	for _, x := range v {
		sum += float64(x) * float64(x)
	}
	return math.Sqrt(sum)
}

// Divergence is the Jensen–Shannon divergence of two activations, in bits, in the mean of
// layers: 0 for equal ones, and 1 where no layer has an expert in common.
func Divergence(a, b []float32, experts int) (mean float64) {
	layers := float64(len(a) / experts)
	for i, x := range a {
		p, q := float64(x), float64(b[i])
		mean += (bits(p, (p+q)/2) + bits(q, (p+q)/2)) / 2 / layers
	}
	return max(0, mean)
}

func bits(p, of float64) float64 {
	if p <= 0 {
		return 0
	}
	return p * math.Log2(p/of)
}
