package upcycle

import (
	"fmt"
	"hash/fnv"
	"math"

	"github.com/switchyard/switchyard/internal/splitmix"
	"github.com/switchyard/switchyard/pkg/compute/safetensors"
)

// piece is how many elements are made at a time.
const piece = 1 << 16

func deviation(t safetensors.Tensor) (float64, error) {
	var sum, squares float64
	for at := 0; at < t.Len(); at += piece {
		x, err := part(t, t.Data, at)
		if err != nil {
			return 0, err
		}
		for _, v := range x {
			sum += float64(v)
			squares += float64(v) * float64(v)
		}
	}
	n := float64(max(1, t.Len()))
	d := math.Sqrt(max(0, squares/n-sum/n*sum/n))
	if math.IsNaN(d) || math.IsInf(d, 0) {
		return 0, fmt.Errorf("tensor %q has elements that are not finite", t.Name)
	}
	return d, nil
}

// part is up to a piece's elements of a tensor with that data, from element at on.
func part(t safetensors.Tensor, data []byte, at int) ([]float32, error) {
	n, size := min(piece, t.Len()-at), t.DType.Size()
	if size == 0 {
		return nil, fmt.Errorf("tensor %q is %s, which has no noise", t.Name, t.DType)
	}
	t.Shape, t.Data = []int{n}, data[at*size:(at+n)*size]
	return t.Floats()
}

// make is the bytes of up to a piece's elements from element at on: what the
// output comes from, or zeros where it comes from nothing, and noise.
func (o *output) make(at int, seed uint64) ([]byte, error) {
	x := make([]float32, min(piece, o.Len()-at))
	if o.from != nil {
		var err error
		if x, err = part(o.Tensor, o.from, at); err != nil {
			return nil, err
		}
	}
	stream, normals := splitmix.Mix(seed^hash(o.Name)), splitmix.Normals()
	for i := range x {
		random := splitmix.Mix(stream + uint64(at+i)*splitmix.Gamma)
		x[i] += float32(o.noise * normals[random%uint64(len(normals))])
	}
	return safetensors.Encode(x, o.DType)
}

func hash(name string) uint64 {
	h := fnv.New64a()
	h.Write([]byte(name))
	return h.Sum64()
}
