package safetensors

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/switchyard/switchyard/kernels/cpu"
)

// Floats converts a float tensor to float32, copying it. F64 is rounded; other
// dtypes are refused.
func (t Tensor) Floats() ([]float32, error) {
	out := make([]float32, t.Len())
	if err := t.FloatsTo(out); err != nil {
		return nil, err
	}
	return out, nil
}

// FloatsTo is Floats into memory that is there: out has Len elements.
func (t Tensor) FloatsTo(out []float32) error {
	if len(out) != t.Len() {
		panic(fmt.Sprintf("safetensors.FloatsTo: %d elements for tensor %q of %d", len(out), t.Name, t.Len()))
	}
	b := t.Data
	switch t.DType {
	case F64:
		for i := range out {
			out[i] = float32(math.Float64frombits(binary.LittleEndian.Uint64(b[8*i:])))
		}
	case F32:
		for i := range out {
			out[i] = math.Float32frombits(binary.LittleEndian.Uint32(b[4*i:]))
		}
	case F16:
		for i := range out {
			out[i] = cpu.HalfToFloat(binary.LittleEndian.Uint16(b[2*i:]))
		}
	case BF16:
		cpu.FromBF16(out, b)
	default:
		k, ok := blocks[t.DType]
		if !ok {
			return fmt.Errorf("tensor %q is %s: only F64, F32, F16, BF16 and blocks of GGUF convert to float32", t.Name, t.DType)
		}
		if err := k.decode(out, b); err != nil {
			return fmt.Errorf("tensor %q (%s): %w", t.Name, t.DType, err)
		}
	}
	return nil
}

// Ints converts an integer tensor (I64, I32, U8) to int64, copying it.
func (t Tensor) Ints() ([]int64, error) {
	out := make([]int64, t.Len())
	for i := range out {
		switch t.DType {
		case I64:
			out[i] = int64(binary.LittleEndian.Uint64(t.Data[8*i:]))
		case I32:
			out[i] = int64(int32(binary.LittleEndian.Uint32(t.Data[4*i:])))
		case U8:
			out[i] = int64(t.Data[i])
		default:
			return nil, fmt.Errorf("tensor %q is %s: only I64, I32 and U8 convert to integers", t.Name, t.DType)
		}
	}
	return out, nil
}
