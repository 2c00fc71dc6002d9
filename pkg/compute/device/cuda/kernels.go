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
	variants []variant // that the GPU has room for, with ever larger tiles
}

// variant is the kernels for tiles of so many rows. All give the same bits.
type variant struct {
	tile          int
	in, up, down  cuda.Kernel
	features      int // of a block: B
	block, shared uint32
}

// variants have their shared memory by the number of parts.
var variants = [3]struct {
	tile, features int
	block          uint32
	sharedBytes    [2]uint32
}{
	{8, 64, 128, [2]uint32{36864, 40960}},
	{32, 64, 128, [2]uint32{49152, 65536}},
	{128, 128, 256, [2]uint32{98304, 147456}},
}

// openKernels finds them in the image that fits the GPU.
func openKernels(d cuda.Driver, images cuda.Images, s shape) (k *kernels, err error) {
	m, err := images.Open(d)
	if err != nil {
		return nil, err
	}
	fit, err := fitting(d.Info(), s.parts)
	if err != nil {
		return nil, err
	}
	find := func(name string, shared uint32) (k cuda.Kernel) {
		if err == nil {
			k, err = m.Kernel(name, int(shared))
		}
		return k
	}
	k = &kernels{split: find(fmt.Sprintf("rows_split_p%d", s.parts), 0)}
	for _, v := range variants[:fit] {
		of, shared := fmt.Sprintf("p%d_t%d", s.parts, v.tile), v.sharedBytes[s.parts-1]
		k.variants = append(k.variants, variant{
			tile: v.tile, features: v.features, block: v.block, shared: shared,
			in: find("experts_in_"+of, shared), up: find("experts_up_"+of, shared), down: find("project_"+of, shared),
		})
	}
	return k, err
}

// fitting is how many of the variants, smallest first, a block of the GPU has shared
// memory for.
func fitting(gpu cuda.Info, parts int) (n int, err error) {
	for n < len(variants) && int(variants[n].sharedBytes[parts-1]) <= gpu.Shared {
		n++
	}
	if n == 0 {
		return 0, &cuda.SharedError{Device: gpu.Name, Need: int(variants[0].sharedBytes[parts-1]), Have: gpu.Shared}
	}
	return n, nil
}

// variantFor is the fastest one for so many rows of the largest group.
func (k *kernels) variantFor(rows int) *variant {
	best := 2
	switch {
	case rows <= 8:
		best = 0
	case rows <= 64:
		best = 1
	}
	return &k.variants[min(best, len(k.variants)-1)]
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
	v, of := k.variantFor(c.longest), &s.layers[c.layer]
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
