package model

import (
	"fmt"
	"maps"
	"os"
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
	c.side = os.DirFS(dir)
	return &Weights{c}, nil
}

// SideNames returns the files beside the weights that services may need.
func (w *Weights) SideNames() ([]string, error) { return w.c.sideNames() }

// File returns a file of the model's folder, as Model's does.
func (w *Weights) File(name string) ([]byte, bool) { return w.c.file(name) }

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
