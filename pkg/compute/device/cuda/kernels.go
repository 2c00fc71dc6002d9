package cuda

import (
	"fmt"
	"math"

	"github.com/switchyard/switchyard/kernels/cuda"
)

// kernels are those of experts, for one number of parts. The list of kernels in
// kernels/cuda/src/README.md has their parameters, blocks and shared memory.
type kernels struct {
	split    cuda.Kernel
	variants [formats][]variant // that the model needs and the GPU has room for, with ever larger tiles
}

// variant is the kernels for tiles of so many rows. All give the same bits.
type variant struct {
	cut
	in, up, down cuda.Kernel
	shared       uint32
}

// cut is what a block has of the work: so many rows and features, B, of which stages
// pieces of 64 columns lie in shared memory.
type cut struct {
	tile, features, stages int
	block                  uint32
}

var cuts = []cut{{8, 64, 4, 128}, {32, 64, 4, 128}, {128, 128, 3, 256}}

// sharedBytes is a block's shared memory.
func (c cut) sharedBytes(f format, parts int) int {
	const piece = 64
	return c.stages * (c.features*int(f.rowBytes(piece)) + parts*c.tile*2*piece)
}

// openKernels finds them in the image that fits the GPU.
func openKernels(d cuda.Driver, images cuda.Images, s shape) (*kernels, error) {
	m, err := images.Open(d)
	if err != nil {
		return nil, err
	}
	var needed [formats]bool
	for _, l := range s.layers {
		needed[l.format] = needed[l.format] || l.width > 0
	}
	return kernelsIn(m, d.Info(), needed, s.parts)
}

// kernelsIn finds those of the formats that are needed.
func kernelsIn(m cuda.Module, gpu cuda.Info, needed [formats]bool, parts int) (k *kernels, err error) {
	k = &kernels{}
	if k.split, err = m.Kernel(fmt.Sprintf("rows_split_p%d", parts), 0); err != nil {
		return nil, err
	}
	for f := range formats {
		if !needed[f] {
			continue
		}
		if k.variants[f], err = openVariants(m, gpu, f, parts); err != nil {
			return nil, err
		}
	}
	return k, nil
}

func openVariants(m cuda.Module, gpu cuda.Info, f format, parts int) (all []variant, err error) {
	fit, err := fitting(gpu, f, parts)
	if err != nil {
		return nil, err
	}
	for _, c := range cuts[:fit] {
		shared := c.sharedBytes(f, parts)
		find := func(kernel, infix string) (k cuda.Kernel) {
			if err == nil {
				k, err = m.Kernel(fmt.Sprintf("%s_%sp%d_t%d", kernel, infix, parts, c.tile), shared)
			}
			return k
		}
		v := variant{cut: c, shared: uint32(shared), in: find("experts_in", f.infix()), down: find("project", f.infix())}
		if f == bf16 {
			v.up = find("experts_up", "")
		}
		all = append(all, v)
	}
	return all, err
}

// fitting is how many of the cuts, smallest first, a block of the GPU has shared
// memory for.
func fitting(gpu cuda.Info, f format, parts int) (n int, err error) {
	for n < len(cuts) && cuts[n].sharedBytes(f, parts) <= gpu.Shared {
		n++
	}
	if n == 0 {
		return 0, &cuda.SharedError{Device: gpu.Name, Need: cuts[0].sharedBytes(f, parts), Have: gpu.Shared}
	}
	return n, nil
}

// variantFor is the fastest one for so many rows of the largest group.
func (k *kernels) variantFor(f format, rows int) *variant {
	best := 2
	switch {
	case rows <= 8:
		best = 0
	case rows <= 64:
		best = 1
	}
	return &k.variants[f][min(best, len(k.variants[f])-1)]
}

// ceil is a/b, rounded up.
func ceil(a, b int) int { return (a + b - 1) / b }

// launches are what a call gives to its stream. Their parameters are written over
// for each call, so that none allocates.
type launches struct {
	split, in, down cuda.Launch
	args            [3][13]uint64
}

// fill prepares the launches of one call.
func (l *launches) fill(k *kernels, s shape, b *buffers, c *call) {
	of := &s.layers[c.layer]
	v := k.variantFor(of.format, c.longest)
	rows, tiles := len(c.order), len(c.tiles)
	dp, fp, plane := padded(s.hidden), padded(of.width), uint64(s.rows)
	t := c.tables
	scaleIn, scaleOut := cuda.Ptr(0), b.at(t.weight)
	if of.onInput {
		scaleIn, scaleOut = scaleOut, scaleIn
	}
	l.split = cuda.Launch{
		Kernel: k.split, Grid: [3]uint32{uint32(rows), 1, 1}, Block: [3]uint32{128, 1, 1},
		Args: append(l.args[0][:0], uint64(b.x), uint64(b.at(t.x)), uint64(b.at(t.source)), uint64(scaleIn),
			uint64(s.hidden), uint64(dp), uint64(s.hidden), plane),
	}
	features, kernel := v.features, v.up
	if of.gated {
		features, kernel = v.features/2, v.in
	}
	l.in = cuda.Launch{
		Kernel: kernel, Grid: [3]uint32{uint32(ceil(fp, features) * tiles), 1, 1}, Block: [3]uint32{v.block, 1, 1}, Shared: v.shared,
		Args: append(l.args[1][:0], uint64(b.act), uint64(b.x), uint64(b.at(t.tiles)), uint64(b.at(t.in)),
			uint64(of.width), uint64(fp), uint64(dp), plane, plane, uint64(tiles),
			uint64(of.activation), uint64(math.Float32bits(of.limit))),
	}
	l.down = cuda.Launch{
		Kernel: v.down, Grid: [3]uint32{uint32(ceil(s.hidden, v.features) * tiles), 1, 1}, Block: [3]uint32{v.block, 1, 1}, Shared: v.shared,
		Args: append(l.args[2][:0], uint64(b.out), uint64(b.act), uint64(b.at(t.tiles)), uint64(b.at(t.down)), 0, uint64(scaleOut),
			uint64(s.hidden), uint64(fp), plane, uint64(s.hidden), uint64(tiles), 0),
	}
}
