package cuda

import (
	"fmt"
	"slices"

	"github.com/switchyard/switchyard/kernels/cuda"
	"github.com/switchyard/switchyard/pkg/compute/model"
)

// backboneKernels are those of attention, for one number of parts.
type backboneKernels struct {
	*kernels
	rmsNorm, headNorm, layerNorm cuda.Kernel
	addRows, gateRows, scaleRows cuda.Kernel
	activateRows                 cuda.Kernel
	rope, store                  cuda.Kernel
	attend                       map[int]attendKernels // by a head's padded width
	some                         format                // one that the model needs
	latentStore                  cuda.Kernel
	latent                       map[int]attendKernels // by the most elements of a value
	tiled                        bool                  // all of them have tiles
}

// tileFor returns how many rows of so many a tile of matrices has at most.
func (k *backboneKernels) tileFor(rows int) int { return k.variantFor(k.some, rows).tile }

type attendKernels struct {
	split, merge, tile        cuda.Kernel // tile: nil if a block has too little shared memory
	width                     int
	splitThreads, tileThreads uint32
	splitShared, tileShared   uint32
}

// openBackboneKernels finds them in the image that fits the GPU.
func openBackboneKernels(d cuda.Driver, images cuda.Images, from *model.Model, parts int) (*backboneKernels, error) {
	m, err := images.Open(d)
	if err != nil {
		return nil, err
	}
	p := placing{m: from}
	p.backbone()
	of, err := kernelsIn(m, d.Info(), p.needed, parts)
	if err != nil {
		return nil, err
	}
	of.even()
	f := finder{module: m, gpu: d.Info(), parts: parts}
	k := &backboneKernels{
		kernels: of, some: format(slices.Index(p.needed[:], true)),
		rmsNorm: f.find("rms_norm", 0), headNorm: f.find("head_norm", 0), layerNorm: f.find("layer_norm", 0),
		addRows: f.find("add_rows", 0), gateRows: f.find("gate_rows", 0), scaleRows: f.find("scale_rows", 0), activateRows: f.find("activate_rows", 0),
		rope: f.find("rope", 0), store: f.find(fmt.Sprintf("kv_store_p%d", parts), 0),
		attend: map[int]attendKernels{}, latent: map[int]attendKernels{}, tiled: true,
	}
	for l := range from.Spec.Layer {
		f.attention(k, &from.Spec.Layer[l].Mixer)
	}
	return k, f.err
}

// finder finds kernels until it does not find one.
type finder struct {
	module cuda.Module
	gpu    cuda.Info
	parts  int
	err    error
}

// find returns a kernel that uses so many bytes of dynamic shared memory, of which a block
// has to have as many.
func (f *finder) find(name string, shared int) (k cuda.Kernel) {
	switch {
	case f.err != nil:
	case shared > f.gpu.Shared:
		f.err = &cuda.SharedError{Device: f.gpu.Name, Need: shared, Have: f.gpu.Shared}
	default:
		k, f.err = f.module.Kernel(name, shared)
	}
	return k
}

// fitting is find, but nil where a block has too little.
func (f *finder) fitting(name string, shared uint32) cuda.Kernel {
	if int(shared) > f.gpu.Shared {
		return nil
	}
	return f.find(name, int(shared))
}

// attention finds the kernels of a layer's, unless they are there.
func (f *finder) attention(k *backboneKernels, x *model.MixerSpec) {
	all, width := k.attend, paddedHead(x.HeadDim)
	if x.Kind == model.MLA {
		all, width = k.latent, latentRank(x.Latent.KVRank)
	}
	if _, ok := all[width]; ok {
		return
	}
	if x.Kind == model.MLA {
		k.latentStore = f.find(fmt.Sprintf("latent_store_p%d", f.parts), 0)
		all[width] = f.latent(width, paddedLine(x))
	} else {
		all[width] = f.grouped(width)
	}
	k.tiled = k.tiled && all[width].tile != nil
}

// wideHead is the width from which four warps share what one does for smaller heads.
const wideHead = 256

// grouped returns the kernels of heads of w elements.
func (f *finder) grouped(w int) attendKernels {
	one := uint32(f.parts * w)
	k := attendKernels{width: w, splitThreads: 32, tileThreads: 128, splitShared: 256 * one, tileShared: 256*one + uint32(256*w)}
	if w == wideHead {
		k.splitThreads, k.tileThreads, k.splitShared, k.tileShared = 128, 256, 288*one+2048, 320*one+4096
	}
	k.split = f.find(fmt.Sprintf("attend_split_p%d_w%d", f.parts, w), int(k.splitShared))
	k.merge = f.find(fmt.Sprintf("attend_merge_w%d", w), 0)
	k.tile = f.fitting(fmt.Sprintf("attend_tile_p%d_w%d", f.parts, w), k.tileShared)
	return k
}

// latent returns the kernels of values of r elements at most, in lines of w.
func (f *finder) latent(r, w int) attendKernels {
	one := uint32(f.parts * w)
	k := attendKernels{width: r, splitThreads: 128, tileThreads: 256, splitShared: 160*one + 2048, tileShared: 192*one + 4096}
	k.split = f.find(fmt.Sprintf("attend_latent_p%d_r%d", f.parts, r), int(k.splitShared))
	k.merge = f.find(fmt.Sprintf("attend_merge_w%d", r), 0)
	k.tile = f.fitting(fmt.Sprintf("attend_latent_tile_p%d_r%d", f.parts, r), k.tileShared)
	return k
}

// even leaves all formats the same tiles: a step cuts its rows once.
func (k *kernels) even() {
	fit := len(cuts)
	for _, v := range k.variants {
		if v != nil {
			fit = min(fit, len(v))
		}
	}
	for f, v := range k.variants {
		k.variants[f] = v[:min(fit, len(v))]
	}
}

// paddedHead returns the width that a head has in pages: W.
func paddedHead(c int) int {
	w := 32
	for w < c {
		w *= 2
	}
	return w
}

func (t *backboneLayer) block(parts int) int64 {
	if t.latent != nil {
		return 64 * int64(parts) * int64(paddedLine(&t.spec.Mixer))
	}
	return 128 * int64(parts) * int64(paddedHead(t.spec.Mixer.HeadDim)) * int64(t.spec.Mixer.KVHeads)
}

// launcher gives launches to a stream until one fails. Their parameters are written
// over for each, so that none allocates.
type launcher struct {
	stream cuda.Stream
	health *health
	err    error
	one    cuda.Launch
	args   [16]uint64
}

// launch starts a kernel on grid (x, y, z); args were appended to l.args[:0].
func (l *launcher) launch(k cuda.Kernel, x, y, z int, threads, shared uint32, args []uint64) {
	if l.err != nil || x == 0 || y == 0 || z == 0 {
		return
	}
	l.one = cuda.Launch{
		Kernel: k, Grid: [3]uint32{uint32(x), uint32(y), uint32(z)}, Block: [3]uint32{threads, 1, 1}, Shared: shared, Args: args,
	}
	l.err = l.health.judge(l.stream.Launch(&l.one))
}

func (l *launcher) copyIn(to cuda.Ptr, from []byte) {
	if l.err == nil {
		l.err = l.health.judge(l.stream.CopyIn(to, from))
	}
}

func (l *launcher) copyOut(to []byte, from cuda.Ptr) {
	if l.err == nil {
		l.err = l.health.judge(l.stream.CopyOut(to, from))
	}
}

// settle waits until the GPU is behind what it was given, however much that was.
func (l *launcher) settle(done *waiter) {
	err := done.record(l.stream)
	if err == nil {
		err = done.wait()
	}
	if l.err == nil {
		l.err = err
	}
}
