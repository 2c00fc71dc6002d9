package expertmap

import (
	"math"
	"math/rand/v2"
	"testing"
)

// qwen is the shape of Qwen1.5-MoE's maps.
var qwen = Shape{Layers: 24, Experts: 60, TopK: 4, Embedding: 2048}

// small is a shape whose maps are quick to make.
var small = Shape{Layers: 5, Experts: 7, TopK: 2, Embedding: 9}

func settings(shape Shape, capacity int) Settings {
	return Settings{Shape: shape, Model: "abc", Capacity: capacity, Distance: 3}
}

func mustNew(t testing.TB, s Settings) *Store {
	t.Helper()
	store, err := New(s)
	if err != nil {
		t.Fatal(err)
	}
	return store
}

// random makes maps of a shape.
type random struct {
	Shape
	*rand.Rand
}

func seeded(shape Shape, seed uint64) random {
	return random{shape, rand.New(rand.NewPCG(seed, 1))}
}

// row is a softmax of random logits.
func (r random) row() []float32 {
	row, sum := make([]float32, r.Experts), 0.0
	for e := range row {
		row[e] = float32(math.Exp(2 * r.NormFloat64()))
		sum += float64(row[e])
	}
	for e := range row {
		row[e] /= float32(sum)
	}
	return row
}

func (r random) one() Map {
	m := Map{Embedding: make([]float32, r.Embedding)}
	for i := range m.Embedding {
		m.Embedding[i] = float32(r.NormFloat64())
	}
	for range r.Layers {
		m.Probabilities = append(m.Probabilities, r.row()...)
	}
	return m
}

func (r random) many(n int) (list []Map) {
	for range n {
		list = append(list, r.one())
	}
	return list
}

// layer is a map's probabilities of a layer, from 1.
func (r random) layer(m Map, l int) []float32 {
	return m.Probabilities[(l-1)*r.Experts : l*r.Experts]
}

func mustAdd(t interface{ Fatal(...any) }, s *Store, tenant string, list ...Map) {
	if err := s.AddBatch(tenant, list); err != nil {
		t.Fatal(err)
	}
}
