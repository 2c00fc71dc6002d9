package gguftest

import (
	"encoding/binary"
	"math/rand/v2"

	"github.com/switchyard/switchyard/pkg/compute/safetensors"
)

// Draw makes blocks of so many elements by chance: any codes, and scales that give numbers of
// at most 3.
func Draw(kind safetensors.DType, elements int, seed uint64) []byte {
	r := rand.New(rand.NewPCG(seed, 5))
	b := make([]byte, kind.Bytes(int64(elements)))
	for i := range b {
		b[i] = byte(r.UintN(256))
	}
	_, size := kind.Block()
	at, most := []int{0}, float32(0.01)
	switch kind {
	case safetensors.Q41, safetensors.Q51:
		at = []int{0, 2}
	case safetensors.Q4K, safetensors.Q5K:
		at, most = []int{0, 2}, 0.0007
	case safetensors.Q6K:
		at, most = []int{208}, 0.0007
	case safetensors.Q80:
		most = 0.001
	}
	for block := 0; block < len(b); block += size {
		for _, offset := range at {
			scale := safetensors.FloatToHalf(most * (0.1 + 0.9*r.Float32()))
			binary.LittleEndian.PutUint16(b[block+offset:], scale|uint16(r.IntN(2))<<15)
		}
	}
	return b
}
