package model

import (
	"fmt"
	"slices"
)

// lookUp finds a stored tensor by its name.
type lookUp func(name string) (Tensor, bool)

// resolve finds what is stored of a role's tensor of shape want, and checks it.
func resolve(at TensorRef, want []int, in lookUp) (Tensor, error) {
	t, ok := in(at.Name)
	if !ok {
		return Tensor{}, fmt.Errorf("tensor %q is missing", at.Name)
	}
	if at.Stacked || at.Dequant != Plain || at.Part.Interleaved {
		return Tensor{}, fmt.Errorf("tensor %q: tensors of this layout are not read yet", at.Name)
	}
	if stored := at.storedShape(want); !slices.Equal(t.Shape, stored) {
		return Tensor{}, fmt.Errorf("tensor %q has shape %v, config.json makes it %v", at.Name, t.Shape, stored)
	}
	return t, nil
}

// storedShape is that of the whole stored tensor of which the role's has shape want.
func (t TensorRef) storedShape(want []int) []int {
	shape := slices.Clone(want)
	shape[0] *= max(1, t.Part.Count)
	if t.Transposed && len(shape) == 2 {
		shape[0], shape[1] = shape[1], shape[0]
	}
	return shape
}

// cut makes the role's tensor of the stored one, without a copy where its
// elements lie together.
func (t TensorRef) cut(stored Tensor, want []int) Tensor {
	size := stored.DType.Size()
	n := want[0]
	from := t.Part.Index * n
	out := stored
	out.Shape = want
	if t.Transposed && len(want) == 2 {
		out.Data = transpose(stored.Data, size, want[1], stored.Shape[1], from, n)
		return out
	}
	row := size
	for _, dim := range want[1:] {
		row *= dim
	}
	out.Data = stored.Data[from*row : (from+n)*row]
	out.Offset += int64(from * row)
	return out
}

// transpose is the columns [from, from+n) of a (rows, columns) matrix as rows.
func transpose(data []byte, size, rows, columns, from, n int) []byte {
	out := make([]byte, n*rows*size)
	for r := range rows {
		at := (r*columns + from) * size
		for c := range n {
			copy(out[(c*rows+r)*size:][:size], data[at+c*size:])
		}
	}
	return out
}
