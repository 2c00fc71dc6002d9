package goldens

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/switchyard/switchyard/pkg/compute/safetensors"
)

// PositionsTensor names the positions of which golden outputs are kept: (1, n), I32. Without it
// all are.
const PositionsTensor = "positions"

// kept are these: the first, the last of the prefix, those before and behind the edge of windows
// and chunks of 16, the begin of the next chunk, and the last one.
var kept = []int{0, prefix - 1, 15, 16, 32}

// prefix is how many ids prefix_logits are of.
const prefix = 7

// Slice keeps of golden outputs those of few positions, so that they are small enough to be
// committed. What goes in stays whole: ids, and what an encoder tells a decoder. It returns the
// tensors of a sliced file as they are.
func Slice(f *safetensors.File) ([]safetensors.Tensor, error) {
	if _, sliced := f.Tensor(PositionsTensor); sliced {
		return nil, errors.New("the golden outputs are sliced already")
	}
	logits, ok := f.Tensor("logits")
	if !ok || len(logits.Shape) != 3 {
		return nil, errors.New("no logits of three dimensions")
	}
	n := logits.Shape[1]
	positions := slices.DeleteFunc(slices.Clone(kept), func(p int) bool { return p >= n-1 })
	positions = append(positions, n-1)
	var out []safetensors.Tensor
	for _, name := range f.Names() {
		t, _ := f.Tensor(name)
		switch name {
		case "logits", "hidden_states":
			t = pick(t, positions)
		case "prefix_logits":
			t = pick(t, slices.DeleteFunc(slices.Clone(positions), func(p int) bool { return p >= t.Shape[1] }))
		}
		out = append(out, t)
	}
	var data []byte
	for _, p := range positions {
		data = binary.LittleEndian.AppendUint32(data, uint32(p))
	}
	return append(out, safetensors.Tensor{Name: PositionsTensor, DType: safetensors.I32, Shape: []int{1, len(positions)}, Data: data}), nil
}

// pick takes rows of the second of three dimensions.
func pick(t safetensors.Tensor, rows []int) safetensors.Tensor {
	size := len(t.Data) / t.Shape[0] / t.Shape[1]
	var data []byte
	for i := range t.Shape[0] {
		for _, row := range rows {
			data = append(data, t.Data[(i*t.Shape[1]+row)*size:][:size]...)
		}
	}
	t.Shape, t.Data = []int{t.Shape[0], len(rows), t.Shape[2]}, data
	return t
}

// Positions returns the first n of those that golden outputs are of.
func Positions(f *safetensors.File, n int) ([]int, error) {
	positions := make([]int, n)
	t, sliced := f.Tensor(PositionsTensor)
	if !sliced {
		for i := range positions {
			positions[i] = i
		}
		return positions, nil
	}
	named, err := t.Ints()
	if err != nil {
		return nil, err
	}
	if len(named) < n {
		return nil, fmt.Errorf("golden outputs of %d positions, of which %d are named", n, len(named))
	}
	for i := range positions {
		positions[i] = int(named[i])
	}
	return positions, nil
}

// Rows takes the rows of what a model has computed at all positions.
func Rows(computed []float32, width int, positions []int) []float32 {
	out := make([]float32, 0, width*len(positions))
	for _, p := range positions {
		out = append(out, computed[p*width:][:width]...)
	}
	return out
}
