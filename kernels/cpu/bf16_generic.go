package cpu

import (
	"encoding/binary"
	"math"
)

func toBF16Generic(dst []byte, src []float32) {
	for i, v := range src {
		binary.LittleEndian.PutUint16(dst[2*i:], bf16Bits(v))
	}
}

// bf16Bits rounds to nearest even. A NaN is made quiet, else one whose payload
// sits in the lower half would become infinity.
func bf16Bits(v float32) uint16 {
	b := math.Float32bits(v)
	if v != v {
		return uint16(b>>16) | 0x40
	}
	return uint16((b + 0x7fff + b>>16&1) >> 16)
}

func fromBF16Generic(dst []float32, src []byte) {
	for i := range dst {
		dst[i] = math.Float32frombits(uint32(binary.LittleEndian.Uint16(src[2*i:])) << 16)
	}
}
