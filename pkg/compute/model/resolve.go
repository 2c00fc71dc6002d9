package model

import (
	"fmt"
	"slices"
)

// lookUp finds a stored tensor by its name.
type lookUp func(name string) (Tensor, bool)

// resolve makes a role's tensor of what is stored, and checks its shape.
func resolve(at TensorRef, want []int, in lookUp) (Tensor, error) {
	t, ok := in(at.Name)
	if !ok {
		return Tensor{}, fmt.Errorf("tensor %q is missing", at.Name)
	}
	if !at.plain() {
		return Tensor{}, fmt.Errorf("tensor %q: parts of tensors are not read yet", at.Name)
	}
	if !slices.Equal(t.Shape, want) {
		return Tensor{}, fmt.Errorf("tensor %q has shape %v, config.json makes it %v", at.Name, t.Shape, want)
	}
	return t, nil
}
