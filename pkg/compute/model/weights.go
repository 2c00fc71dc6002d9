package model

import (
	"fmt"
	"maps"
	"slices"
)

// Weights are the tensors of a folder, whatever they are of.
type Weights struct{ c *checkpoint }

// OpenWeights maps the safetensors files of a folder.
func OpenWeights(dir string) (*Weights, error) {
	c, err := openWeights(dir)
	if err != nil {
		return nil, fmt.Errorf("opening the weights of %s: %w", dir, err)
	}
	return &Weights{c}, nil
}

// Tensors lists them all by name. They are views that Close ends.
func (w *Weights) Tensors() []Tensor {
	var all []Tensor
	for _, name := range slices.Sorted(maps.Keys(w.c.home)) {
		t, _ := w.c.tensor(name)
		all = append(all, t)
	}
	return all
}

// Close gives the mappings back.
func (w *Weights) Close() error { return w.c.close() }
