package cuda

import (
	"errors"
	"fmt"
	"math"

	"github.com/switchyard/switchyard/kernels/cuda"
)

// kernels are those of experts, for one number of parts. The list of kernels in
// kernels/cuda/src/README.md has their parameters, blocks and shared memory.
type kernels struct {
	module   cuda.Module
	split    cuda.Kernel
	sum      cuda.Kernel
	pieces   cuda.Kernel        // split, for wgmma; nil: not needed
	variants [formats][]variant // that the model needs and the GPU has room for, with ever larger tiles
}

// variant is the kernels for tiles of so many rows. All give the same bits.
type variant struct {
	cut
	in, up, down cuda.Kernel
	shared, most uint32 // most: blocks at a time, if they take turns
}

// grid returns the blocks for so many shares of the work.
func (v *variant) grid(shares int) [3]uint32 {
	if v.most > 0 {
		shares = min(shares, int(v.most))
	}
	return [3]uint32{uint32(shares), 1, 1}
}

// cut is what a block has of the work: so many rows and features, B, of which stages
// pieces of 64 columns lie in shared memory.
type cut struct {
	tile, features, stages int
	block                  uint32
	atOnce                 int // blocks of a processor, if they take turns with the work
}

var cuts = []cut{{8, 64, 4, 128, 0}, {32, 64, 4, 128, 0}, {128, 128, 3, 256, 0}}

// cutsFor returns the cuts of a format's kernels, smallest first.
func cutsFor(f format, parts int) []cut {
	if f != tiled {
		return cuts
	}
	return []cut{{8, 64, 8, 160, 2}, {32, 128, 4, 288, 2}, {128, 256, 5 - parts, 384, 1}}
}

// sharedBytes returns a block's shared memory. By wgmma a stage has 8 rows more, and two signals.
func (c cut) sharedBytes(f format, parts int) int {
	const piece = 64
	rows, signals := c.tile, 0
	if f == tiled {
		rows, signals = rows+8, 2*8
	}
	return c.stages * (c.features*int(f.rowBytes(piece)) + parts*rows*2*piece + signals)
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
	k, err := kernelsIn(m, d.Info(), needed, s.parts)
	if err == nil {
		k.sum, err = m.Kernel("sum_slots", 0)
	}
	return k, err
}

func kernelsIn(m cuda.Module, gpu cuda.Info, needed [formats]bool, parts int) (k *kernels, err error) {
	k = &kernels{module: m}
	if k.split, err = m.Kernel(fmt.Sprintf("rows_split_p%d", parts), 0); err != nil {
		return nil, err
	}
	for f := range formats {
		if !needed[f] {
			continue
		}
		if err := k.open(m, gpu, f, parts); err != nil {
			return nil, err
		}
	}
	return k, nil
}

// open finds those of a format. An image may lack what only some GPUs have.
func (k *kernels) open(m cuda.Module, gpu cuda.Info, f format, parts int) (err error) {
	if f == tiled {
		k.pieces, err = m.Kernel(fmt.Sprintf("rows_pieces_p%d", parts), 0)
	}
	if err == nil {
		k.variants[f], err = openVariants(m, gpu, f, parts)
	}
	if lacks := (*cuda.Error)(nil); f == tiled && errors.As(err, &lacks) && lacks.Code == cuda.CodeNotFound {
		return &cuda.KernelsError{Kernels: cuda.Wgmma, Device: gpu.Name, Why: err.Error()}
	}
	return err
}

func openVariants(m cuda.Module, gpu cuda.Info, f format, parts int) (all []variant, err error) {
	fit, err := fitting(gpu, f, parts)
	if err != nil {
		return nil, err
	}
	for _, c := range cutsFor(f, parts)[:fit] {
		shared := c.sharedBytes(f, parts)
		find := func(kernel string) (k cuda.Kernel) {
			if err == nil {
				k, err = m.Kernel(fmt.Sprintf("%s_%sp%d_t%d", kernel, f.infix(), parts, c.tile), shared)
			}
			return k
		}
		v := variant{cut: c, shared: uint32(shared), most: uint32(c.atOnce * gpu.Processors), in: find("experts_in"), down: find("project")}
		if !f.quantised() {
			v.up = find("experts_up")
		}
		all = append(all, v)
	}
	return all, err
}

// fitting returns how many of the cuts, smallest first, a block of the GPU has shared
// memory for.
func fitting(gpu cuda.Info, f format, parts int) (n int, err error) {
	all := cutsFor(f, parts)
	for n < len(all) && all[n].sharedBytes(f, parts) <= gpu.Shared {
		n++
	}
	if n == 0 {
		return 0, &cuda.SharedError{Device: gpu.Name, Need: all[0].sharedBytes(f, parts), Have: gpu.Shared}
	}
	return n, nil
}

// variantFor returns the fastest one for so many rows of the largest group.
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

func ceil(a, b int) int { return (a + b - 1) / b }

// launches are what a call gives to its stream. Their parameters are written over
// for each call, so that none allocates.
type launches struct {
	split, in, down, sum cuda.Launch
	args                 [4][13]uint64
}

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
	if of.format == tiled {
		l.split.Kernel = k.pieces
	}
	features, kernel := v.features, v.up
	if of.gated {
		features, kernel = v.features/2, v.in
	}
	l.in = cuda.Launch{
		Kernel: kernel, Grid: v.grid(ceil(fp, features) * tiles), Block: [3]uint32{v.block, 1, 1}, Shared: v.shared,
		Args: append(l.args[1][:0], uint64(b.act), uint64(b.x), uint64(b.at(t.tiles)), uint64(b.at(t.in)),
			uint64(of.width), uint64(fp), uint64(dp), plane, plane, uint64(tiles),
			uint64(of.activation), uint64(math.Float32bits(of.limit))),
	}
	l.down = cuda.Launch{
		Kernel: v.down, Grid: v.grid(ceil(s.hidden, v.features) * tiles), Block: [3]uint32{v.block, 1, 1}, Shared: v.shared,
		Args: append(l.args[2][:0], uint64(b.out), uint64(b.act), uint64(b.at(t.tiles)), uint64(b.at(t.down)), 0, uint64(scaleOut),
			uint64(s.hidden), uint64(fp), plane, uint64(s.hidden), uint64(tiles), 0),
	}
	if !c.sums {
		return
	}
	// What went over of the rows has been read by then, and is as large as their sums.
	l.sum = cuda.Launch{
		Kernel: k.sum, Grid: [3]uint32{uint32(len(c.rows)), uint32(ceil(s.hidden, 256)), 1}, Block: [3]uint32{256, 1, 1},
		Args: append(l.args[3][:0], uint64(b.at(t.x)), uint64(b.out), uint64(b.at(t.first)), uint64(b.at(t.at)), uint64(s.hidden), flag(s.parts == 1)),
	}
}
