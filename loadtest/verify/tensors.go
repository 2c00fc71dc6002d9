package verify

import (
	"fmt"
	"math"
	"slices"

	"github.com/switchyard/switchyard/pkg/compute/safetensors"
)

// series is a tensor of rows.
type series[T any] struct {
	shape []int
	data  []T
}

func (s series[T]) row(i int) []T {
	n := len(s.data) / s.shape[0]
	return s.data[i*n : (i+1)*n]
}

// tensors reads a file's tensors, and keeps the first error.
type tensors struct {
	f         *safetensors.File
	positions []uint32 // that logits are of; nil: all
	err       error
}

func (t *tensors) fail(format string, args ...any) {
	if t.err == nil {
		t.err = fmt.Errorf(format, args...)
	}
}

func (t *tensors) has(name string) bool {
	_, ok := t.f.Tensor(name)
	return ok
}

// find is a tensor of so many dimensions that has elements.
func (t *tensors) find(name string, dims int) (found safetensors.Tensor, ok bool) {
	found, ok = t.f.Tensor(name)
	if !ok || len(found.Shape) != dims || found.Len() == 0 {
		t.fail("no tensor %s of %d dimensions, with elements", name, dims)
		return found, false
	}
	return found, true
}

func (t *tensors) floats(name string, dims int) (s series[float32]) {
	x, ok := t.find(name, dims)
	if !ok {
		return s
	}
	data, err := x.Floats()
	if err != nil {
		t.fail("%w", err)
	}
	if at := slices.IndexFunc(data, func(v float32) bool { return math.IsNaN(float64(v)) || math.IsInf(float64(v), 0) }); at >= 0 {
		t.fail("%s has %v at element %d: nothing compares with it", name, data[at], at)
	}
	return series[float32]{x.Shape, data}
}

// ints is a tensor of ids or segments, a row a sequence.
func (t *tensors) ints(name string) (s series[uint32]) {
	x, ok := t.find(name, 2)
	if !ok {
		return s
	}
	wide, err := x.Ints()
	if err != nil {
		t.fail("%w", err)
		return s
	}
	s = series[uint32]{x.Shape, make([]uint32, len(wide))}
	for i, v := range wide {
		s.data[i] = uint32(v)
	}
	return s
}

// allPositions are those of all sequences' logits, up to their last id.
func (t *tensors) allPositions(shape []int, name string, ids []int) []uint32 {
	at := t.positionsOf("logits", shape, ids[1])
	if t.err == nil && (shape[0] != ids[0] || int(at[len(at)-1]) != ids[1]-1) {
		t.fail("logits %v do not belong to %s %v", shape, name, ids)
	}
	return at
}

// positionsOf are those that logits of a shape are of, in sequences of so many ids.
func (t *tensors) positionsOf(name string, shape []int, ids int) (at []uint32) {
	if t.err != nil {
		return nil
	}
	at = t.positions
	if at == nil {
		for i := range shape[1] {
			at = append(at, uint32(i))
		}
	}
	if len(at) < shape[1] {
		t.fail("%s %v are of more than %d positions", name, shape, len(at))
		return nil
	}
	at = at[:shape[1]]
	if !slices.IsSorted(at) || int(at[len(at)-1]) >= ids {
		t.fail("%s %v are of the positions %v of %d ids", name, shape, at, ids)
	}
	return at
}

func (t *tensors) alike(a string, shape []int, b string, want []int) {
	if t.err == nil && !slices.Equal(shape, want) {
		t.fail("%s %v do not belong to %s %v", a, shape, b, want)
	}
}
