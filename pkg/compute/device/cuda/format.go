package cuda

import (
	"encoding/binary"
	"math"

	"github.com/switchyard/switchyard/kernels/cpu"
	"github.com/switchyard/switchyard/kernels/cuda"
	"github.com/switchyard/switchyard/pkg/compute/model"
	"github.com/switchyard/switchyard/pkg/compute/safetensors"
)

// format is how a matrix holds its weights on the GPU: as the checkpoint does. The
// list of kernels, section "Memory", has the layouts.
type format uint8

const (
	bf16 format = iota
	fp8
	mxfp4
	tiled   // bf16 in tiles, for wgmma
	formats // how many there are
)

// formatOf are the formats by the checkpoint's type.
var formatOf = map[safetensors.DType]format{safetensors.BF16: bf16, safetensors.E4M3: fp8, safetensors.F4: mxfp4}

// formatFor returns the format of a type's matrices for such kernels.
func formatFor(t safetensors.DType, k cuda.Kernels) (f format, ok bool) {
	if f, ok = formatOf[t]; f == bf16 && k == cuda.Wgmma {
		f = tiled
	}
	return f, ok
}

func (f format) quantised() bool { return f == fp8 || f == mxfp4 }

func (f format) bits() int { return [formats]int{16, 8, 4, 16}[f] }

// infix returns what the names of its kernels have of it.
func (f format) infix() string { return [formats]string{"", "fp8_", "mxfp4_", "wgmma_"}[f] }

func (f format) rowBytes(k int) int64 { return int64(k) * int64(f.bits()) / 8 }

// scaleBytes returns those of the scales behind a matrix (n, k).
func (f format) scaleBytes(n, k int) int64 {
	switch f {
	case fp8:
		return 4 * int64(n) * int64(cpu.FP8Scales(k))
	case mxfp4:
		return int64(n) * int64(padded(k)/cpu.MXBlock)
	}
	return 0
}

// putScales turns the scales of a tensor around, whose rows are those of a matrix of
// n rows from one on: a GPU reads those of many rows for the same columns.
func putScales(to []byte, p model.Packed, from, n int) {
	rows, k := p.Shape[0], p.Shape[1]
	width := cpu.FP8Scales(k)
	for i, v := range p.Factors {
		binary.LittleEndian.PutUint32(to[4*(i%width*n+from+i/width):], math.Float32bits(v))
	}
	width = len(p.Exponents) / rows
	for i, e := range p.Exponents {
		to[i%width*n+from+i/width] = e
	}
}
