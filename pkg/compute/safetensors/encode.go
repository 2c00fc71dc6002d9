package safetensors

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/switchyard/switchyard/kernels/cpu"
)

// Encode returns the bytes of x as elements of a float dtype, rounded to nearest,
// ties to even.
func Encode(x []float32, d DType) ([]byte, error) {
	if d == BF16 {
		out := make([]byte, 2*len(x))
		cpu.ToBF16(out, x)
		return out, nil
	}
	out := make([]byte, 0, len(x)*d.Size())
	for _, v := range x {
		switch d {
		case F64:
			out = binary.LittleEndian.AppendUint64(out, math.Float64bits(float64(v)))
		case F32:
			out = binary.LittleEndian.AppendUint32(out, math.Float32bits(v))
		case F16:
			out = binary.LittleEndian.AppendUint16(out, FloatToHalf(v))
		default:
			return nil, fmt.Errorf("float32 does not become %s: only F64, F32, F16 and BF16", d)
		}
	}
	return out, nil
}

// FloatToHalf rounds to IEEE 754 binary16, to infinity beyond its range.
func FloatToHalf(v float32) uint16 {
	sign := uint16(math.Float32bits(v) >> 16 & 0x8000)
	abs := math.Float32bits(v) &^ (1 << 31)
	switch {
	case abs > 0x7f800000: // NaN
		return sign | 0x7e00
	case abs >= 0x477ff000: // from 65520 on, halfway beyond the largest
		return sign | 0x7c00
	case abs < 0x38800000: // below 2^-14: units of 2^-24, by float32's own rounding
		return sign | uint16(math.Float32bits(math.Float32frombits(abs)+0.5)-math.Float32bits(0.5))
	}
	rounded := abs + 0xfff + abs>>13&1
	return sign | uint16((rounded-(127-15)<<23)>>13)
}
