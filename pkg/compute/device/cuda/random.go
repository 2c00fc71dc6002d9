package cuda

import (
	"context"
	"fmt"
	"iter"
	"unsafe"

	"github.com/switchyard/switchyard/kernels/cuda"
	"github.com/switchyard/switchyard/pkg/compute/model"
)

// random makes matrices on the GPU whose numbers follow from a seed, so that none of them
// is copied.
type random struct {
	kernel  cuda.Kernel
	numbers map[float64]cuda.Ptr // that elements are chosen from, by their deviation
}

// Of a launch: threads of a block, and how many elements these make.
const (
	randomThreads = 256
	randomShare   = 8 << 10
)

// numbersBytes are those of the numbers of one deviation.
const numbersBytes = 2 * 4096

// newRandom brings there what those tensors' elements are chosen from that are random; it
// is nil if none is.
func newRandom(ctx context.Context, m *model.Model, refs iter.Seq[model.Ref], k *kernels, a *cuda.Arena, driver cuda.Driver, h *health) (*random, error) {
	r := &random{numbers: map[float64]cuda.Ptr{}}
	var all []model.Random
	for ref := range refs {
		of, ok := m.Random(ref)
		if _, known := r.numbers[of.Deviation]; ok && !known {
			r.numbers[of.Deviation] = 0
			all = append(all, of)
		}
	}
	if len(all) == 0 {
		return nil, nil
	}
	var err error
	if r.kernel, err = k.module.Kernel("random_weights", 0); err != nil {
		return nil, err
	}
	bytes := numbersBytes * int64(len(all))
	base, err := a.Take(bytes, "the numbers of random weights")
	if err != nil {
		return nil, err
	}
	for i, of := range all {
		r.numbers[of.Deviation] = base + cuda.Ptr(numbersBytes*i)
	}
	err = overWay(ctx, driver, bytes, h, nil, func(w *way) {
		w.to = base
		for _, of := range all {
			w.write(numberBytes(of.Numbers()))
		}
	})
	if err != nil {
		return nil, fmt.Errorf("copying the numbers of random weights to the GPU: %w", err)
	}
	return r, nil
}

func numberBytes(n []uint16) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(n))), 2*len(n))
}

// of says how the tensors of a matrix are made; nil if they are not random, or what their
// elements are chosen from is not on the GPU.
func (r *random) of(m *model.Model, p matrix) []model.Random {
	if r == nil {
		return nil
	}
	var all []model.Random
	for _, ref := range p.refs {
		of, ok := m.Random(ref)
		if !ok || r.numbers[of.Deviation] == 0 {
			return nil
		}
		all = append(all, of)
	}
	return all
}

// launch makes tensor i of a matrix, above which there are so many rows of others.
func (r *random) launch(p matrix, at cuda.Ptr, of model.Random, i, above int) *cuda.Launch {
	kp, rows, tensors := padded(of.Columns), of.Rows, 0
	if p.format == tiled {
		rows, tensors = padded(rows), len(p.refs)
	} else {
		at += cuda.Ptr(int64(above) * p.format.rowBytes(kp))
	}
	return &cuda.Launch{
		Kernel: r.kernel, Grid: [3]uint32{uint32(ceil(rows*kp, randomShare)), 1, 1}, Block: [3]uint32{randomThreads, 1, 1},
		Args: []uint64{uint64(at), uint64(r.numbers[of.Deviation]), of.Stream, uint64(of.Rows), uint64(of.Columns), uint64(kp), uint64(tensors), uint64(i)},
	}
}

// generate lets the GPU make a matrix behind what was written before it. Whoever calls it
// looks whether it is one of random numbers.
func (w *way) generate(p matrix, all []model.Random) {
	w.send()
	above := 0
	for i, of := range all {
		w.launch(w.random.launch(p, w.to, of, i, above))
		above += of.Rows
	}
	w.to += cuda.Ptr(p.bytes())
}

// launch starts a kernel, for which over waits as it does for copies.
func (w *way) launch(l *cuda.Launch) {
	if w.fail(w.ctx.Err()); w.err != nil {
		return
	}
	b := &w.buffers[w.now]
	if err := w.stream.Launch(l); err != nil {
		w.fail(b.copied.health.judge(err))
		return
	}
	b.under = true
	w.fail(b.copied.record(w.stream))
}
