// Package gguftest writes GGUF files for tests.
package gguftest

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"

	"github.com/switchyard/switchyard/kernels/cpu"
	"github.com/switchyard/switchyard/pkg/compute/safetensors"
)

// Numbers are GGML's of types.
var Numbers = map[safetensors.DType]uint32{
	safetensors.F32: 0, safetensors.F16: 1, safetensors.BF16: 30,
	safetensors.Q40: 2, safetensors.Q41: 3, safetensors.Q50: 6, safetensors.Q51: 7, safetensors.Q80: 8,
	safetensors.Q4K: 12, safetensors.Q5K: 13, safetensors.Q6K: 14,
}

const alignment = 32

// File returns a version 3 file of an architecture, or none, with these tensors, in this order. It has a
// value of each type, arrays of numbers and of strings, and more.
func File(architecture string, tensors []safetensors.Tensor, more ...[]byte) []byte {
	b := binary.LittleEndian.AppendUint32([]byte("GGUF"), 3)
	b = binary.LittleEndian.AppendUint64(b, uint64(len(tensors)))
	values := append(values(architecture), more...)
	b = binary.LittleEndian.AppendUint64(b, uint64(len(values)))
	for _, v := range values {
		b = append(b, v...)
	}
	at := uint64(0)
	for _, t := range tensors {
		b = text(b, t.Name)
		b = binary.LittleEndian.AppendUint32(b, uint32(len(t.Shape)))
		for _, n := range slices.Backward(t.Shape) {
			b = binary.LittleEndian.AppendUint64(b, uint64(n))
		}
		b = binary.LittleEndian.AppendUint32(b, Numbers[t.DType])
		b = binary.LittleEndian.AppendUint64(b, at)
		at = (at + uint64(len(t.Data)) + alignment - 1) / alignment * alignment
	}
	for _, t := range tensors {
		b = append(pad(b), t.Data...)
	}
	return b
}

func pad(b []byte) []byte { return append(b, make([]byte, -len(b)&(alignment-1))...) }

func text(b []byte, s string) []byte {
	return append(binary.LittleEndian.AppendUint64(b, uint64(len(s))), s...)
}

// Value returns a key with the type and the bytes of its value.
func Value(key string, kind uint32, value ...byte) []byte {
	return append(binary.LittleEndian.AppendUint32(text(nil, key), kind), value...)
}

// Text returns a string as the value of a key.
func Text(key, s string) []byte { return Value(key, 8, text(nil, s)...) }

// Split returns the values of a part of a model.
func Split(part, parts uint16, tensors int) [][]byte {
	return [][]byte{
		Value("split.no", 2, binary.LittleEndian.AppendUint16(nil, part)...),
		Value("split.count", 2, binary.LittleEndian.AppendUint16(nil, parts)...),
		Value("split.tensors.count", 5, binary.LittleEndian.AppendUint32(nil, uint32(tensors))...),
	}
}

func values(architecture string) [][]byte {
	all := [][]byte{Value("general.alignment", 4, alignment, 0, 0, 0)}
	if architecture != "" {
		all = append(all, Text("general.architecture", architecture))
	}
	for kind, size := range []int{0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8} {
		if size > 0 {
			all = append(all, Value(fmt.Sprintf("test.%d", kind), uint32(kind), make([]byte, size)...))
		}
	}
	words := binary.LittleEndian.AppendUint64([]byte{8, 0, 0, 0}, 2)
	words = text(text(words, "one"), "two")
	numbers := binary.LittleEndian.AppendUint64([]byte{6, 0, 0, 0}, 2)
	nested := append(binary.LittleEndian.AppendUint64([]byte{9, 0, 0, 0}, 1), words...)
	return append(all, Value("test.words", 9, words...), Value("test.nested", 9, nested...), Value("test.numbers", 9, append(numbers, make([]byte, 8)...)...))
}

// Quantise makes blocks of Q8_0 of rows whose lengths are multiples of 32.
func Quantise(x []float32) (b []byte) {
	for group := range slices.Chunk(x, 32) {
		most := float32(0)
		for _, v := range group {
			most = max(most, v, -v)
		}
		half := safetensors.FloatToHalf(most / 127)
		d := cpu.HalfToFloat(half)
		b = binary.LittleEndian.AppendUint16(b, half)
		for _, v := range group {
			b = append(b, byte(int8(min(127, math.RoundToEven(float64(v/d))))))
		}
	}
	return b
}
