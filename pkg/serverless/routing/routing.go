// Package routing makes states of rows, and what gates choose by them.
package routing

import "fmt"

// Shape is what of a model routing depends on.
type Shape struct {
	Layers, Experts, TopK int
}

// The largest shape: choices are two bytes, and tables are made for all layers.
const (
	mostLayers  = 1024
	mostExperts = 1024
)

// Check says what is wrong with a shape.
func (s Shape) Check() error {
	switch {
	case s.Layers < 1 || s.Layers > mostLayers:
		return fmt.Errorf("a model has %d layers; it must have 1 to %d", s.Layers, mostLayers)
	case s.Experts < 1 || s.Experts > mostExperts:
		return fmt.Errorf("a layer has %d experts; it must have 1 to %d", s.Experts, mostExperts)
	case s.TopK < 1 || s.TopK > s.Experts:
		return fmt.Errorf("a row goes to %d of %d experts; it must be 1 or more, and no more than there are", s.TopK, s.Experts)
	}
	return nil
}

// Text is a request whose rows are routed.
type Text struct {
	ID     uint64 // tells it from other requests
	Domain int
	Rows   int
}
