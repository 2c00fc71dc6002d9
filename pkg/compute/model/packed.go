package model

import (
	"fmt"

	"github.com/switchyard/switchyard/kernels/cpu"
	"github.com/switchyard/switchyard/pkg/compute/safetensors"
)

// Packed is a quantised matrix (N, K) as kernels take it.
type Packed struct {
	Tensor              // codes, row-major: F4 (two a byte, the first in the low half) or E4M3
	Exponents []byte    // of F4: (N, K/32) scales in E8M0
	Factors   []float32 // of E4M3: (N, K/128 rounded up)
}

// Packed returns a quantised matrix, with scales that are finite numbers.
func (m *Model) Packed(ref Ref) (Packed, error) {
	r, err := m.load(ref)
	if err != nil {
		return Packed{}, err
	}
	return m.pack(r, ref)
}

func (m *Model) pack(r *resolved, ref Ref) (Packed, error) {
	p, err := r.pack()
	if err != nil {
		return Packed{}, fmt.Errorf("model %s: tensor %q (%v): %w", m.Name, p.Name, ref, err)
	}
	return p, nil
}

func (r *resolved) pack() (p Packed, err error) {
	p.Tensor = r.tensor()
	switch r.at.Dequant {
	case MXFP4:
		p.Exponents = r.gather(r.scales.Data)
		err = cpu.CheckE8M0(p.Exponents)
	case FP8Blocks:
		if p.Factors, err = r.factors(); err == nil {
			err = cpu.CheckFP8(p.Data, p.Factors)
		}
	default:
		err = fmt.Errorf("not quantised, but %s", p.DType)
	}
	return p, err
}

// factors repeats the scales of blocks of rows for each row.
func (r *resolved) factors() ([]float32, error) {
	grid, err := r.scales.Floats()
	if err != nil {
		return nil, err
	}
	width := cpu.FP8Scales(r.shape[1])
	all := make([]float32, 0, r.shape[0]*width)
	for row := range r.shape[0] {
		all = append(all, grid[row/cpu.FP8Block*width:][:width]...)
	}
	return all, nil
}

func (p *Packed) floatsTo(out []float32) {
	if p.DType == safetensors.F4 {
		cpu.FromMXFP4(out, p.Data, p.Exponents)
		return
	}
	n, k := p.Shape[0], p.Shape[1]
	width := cpu.FP8Scales(k)
	for row := range n {
		cpu.FromFP8(out[row*k:(row+1)*k], p.Data[row*k:(row+1)*k], p.Factors[row*width:(row+1)*width])
	}
}
