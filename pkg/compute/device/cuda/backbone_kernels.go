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
	rope, store                  cuda.Kernel
	attend                       map[int]attendKernels // by a head's padded width
	some                         format                // one that the model needs
	latentStore                  cuda.Kernel
	latent                       map[int]attendKernels // by the most elements of a value
}

// tileFor is how many rows of so many a tile of matrices has at most.
func (k *backboneKernels) tileFor(rows int) int { return k.variantFor(k.some, rows).tile }

// attendKernels are those of one width.
type attendKernels struct {
	split, merge, tile      cuda.Kernel
	width                   int
	splitShared, tileShared uint32
}

// openBackboneKernels finds them in the image that fits the GPU.
func openBackboneKernels(d cuda.Driver, images cuda.Images, from *model.Model, parts int) (*backboneKernels, error) {
	m, err := images.Open(d)
	if err != nil {
		return nil, err
	}
	spec, p := &from.Spec, placing{m: from}
	p.backbone()
	of, err := kernelsIn(m, d.Info(), p.needed, parts)
	if err != nil {
		return nil, err
	}
	of.even()
	find := func(name string, shared int) (k cuda.Kernel) {
		if err == nil {
			k, err = m.Kernel(name, shared)
		}
		return k
	}
	k := &backboneKernels{
		kernels: of, some: format(slices.Index(p.needed[:], true)),
		rmsNorm: find("rms_norm", 0), headNorm: find("head_norm", 0), layerNorm: find("layer_norm", 0),
		addRows: find("add_rows", 0), gateRows: find("gate_rows", 0), scaleRows: find("scale_rows", 0),
		rope: find("rope", 0), store: find(fmt.Sprintf("kv_store_p%d", parts), 0), attend: map[int]attendKernels{},
	}
	k.latent = map[int]attendKernels{}
	for l := range spec.Layer {
		if x := &spec.Layer[l].Mixer; x.Kind == model.MLA {
			r, shared := latentRank(x.Latent.KVRank), 160*parts*paddedLine(x)+2048
			k.latentStore = find(fmt.Sprintf("latent_store_p%d", parts), 0)
			k.latent[r] = attendKernels{
				split: find(fmt.Sprintf("attend_latent_p%d_r%d", parts, r), shared),
				merge: find(fmt.Sprintf("attend_merge_w%d", r), 0), width: r, splitShared: uint32(shared),
			}
			continue
		}
		w := paddedHead(spec.Layer[l].Mixer.HeadDim)
		if _, ok := k.attend[w]; ok {
			continue
		}
		split, tile := 256*parts*w, 256*parts*w+256*w
		k.attend[w] = attendKernels{
			split: find(fmt.Sprintf("attend_split_p%d_w%d", parts, w), split),
			merge: find(fmt.Sprintf("attend_merge_w%d", w), 0),
			tile:  find(fmt.Sprintf("attend_tile_p%d_w%d", parts, w), tile),
			width: w, splitShared: uint32(split), tileShared: uint32(tile),
		}
	}
	return k, err
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

// paddedHead is the width that a head has in pages: W.
func paddedHead(c int) int {
	w := 32
	for w < c {
		w *= 2
	}
	return w
}

// block is the bytes that a page has of the layer.
func (t *backboneLayer) block(parts int) int64 {
	if t.latent != nil {
		return 64 * int64(parts) * int64(paddedLine(&t.spec.Mixer))
	}
	return 128 * int64(parts) * int64(paddedHead(t.spec.Mixer.HeadDim)) * int64(t.spec.Mixer.KVHeads)
}

// share is how many query heads share a KV head.
func (t *backboneLayer) share() int { return t.spec.Mixer.Heads / t.spec.Mixer.KVHeads }

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
