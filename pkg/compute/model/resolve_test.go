package model

import (
	"slices"
	"strings"
	"testing"

	"github.com/switchyard/switchyard/pkg/compute/safetensors"
)

// A role's tensor may be a part of a stored one, and stored across.
func TestCut(t *testing.T) {
	element := func(n int) (data []byte) { // bytes 2i, 2i+1 are element i
		for i := range 2 * n {
			data = append(data, byte(i))
		}
		return data
	}
	for _, tt := range []struct {
		name   string
		at     TensorRef
		want   []int
		stored []int
		elems  []byte // halved
	}{
		{"whole", TensorRef{}, []int{2, 3}, []int{2, 3}, []byte{0, 1, 2, 3, 4, 5}},
		{"vector's part", TensorRef{Part: Part{Index: 1, Count: 3}}, []int{2}, []int{6}, []byte{2, 3}},
		{"part", TensorRef{Part: Part{Index: 1, Count: 2}}, []int{1, 3}, []int{2, 3}, []byte{3, 4, 5}},
		{"transposed", TensorRef{Transposed: true}, []int{3, 2}, []int{2, 3}, []byte{0, 3, 1, 4, 2, 5}},
		{"transposed part", TensorRef{Transposed: true, Part: Part{Index: 1, Count: 2}}, []int{2, 2}, []int{2, 4}, []byte{2, 6, 3, 7}},
	} {
		n := 1
		for _, d := range tt.stored {
			n *= d
		}
		stored, err := resolve(tt.at, tt.want, func(string) (Tensor, bool) {
			return Tensor{DType: safetensors.BF16, Shape: tt.stored, Data: element(n)}, true
		})
		if err != nil {
			t.Errorf("%s: %v", tt.name, err)
			continue
		}
		got := tt.at.cut(stored, tt.want)
		var elems []byte
		for i := 0; i < len(got.Data); i += 2 {
			elems = append(elems, got.Data[i]/2)
		}
		if !slices.Equal(got.Shape, tt.want) || !slices.Equal(elems, tt.elems) {
			t.Errorf("%s: %v of %v, want %v", tt.name, elems, got.Shape, tt.elems)
		}
	}
}

// What is stored in another shape is named with both shapes.
func TestResolveRefuses(t *testing.T) {
	in := func(string) (Tensor, bool) {
		return Tensor{DType: safetensors.BF16, Shape: []int{2, 3}}, true
	}
	for want, at := range map[string]TensorRef{
		"[2 3], config.json makes it [3 2]": {Name: "a"},
		"[2 3], config.json makes it [2 9]": {Name: "a", Transposed: true, Part: Part{Count: 3}},
		"not read yet":                      {Name: "a", Stacked: true},
	} {
		if _, err := resolve(at, []int{3, 2}, in); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}
