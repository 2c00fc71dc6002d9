package cuda

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"slices"

	"github.com/switchyard/switchyard/kernels/cuda"
	"github.com/switchyard/switchyard/pkg/compute/kvcache"
	"github.com/switchyard/switchyard/pkg/compute/model"
)

// weight is a matrix on the GPU: its entry of the table, its sizes, and its format.
type weight struct {
	entry  cuda.Ptr
	n, k   int
	format format
}

type normWeights struct {
	weight, bias cuda.Ptr // bias 0: an RMS norm; both 0: none
	eps          float32
}

// network is a feed-forward network on the GPU.
type network struct {
	spec     *model.FFNSpec
	in, down weight
}

// backboneLayer is a layer's weights on the GPU, the gate and the routed experts aside.
type backboneLayer struct {
	spec          *model.LayerSpec
	place         int // of the cache
	norm, ffnNorm normWeights
	qkv, o        weight
	latent        *latentWeights // in the place of qkv; or nil
	cross         *crossWeights  // or nil
	qNorm, kNorm  cuda.Ptr       // 0: there is none, or it has no weight
	sinks         cuda.Ptr       // 0: none
	dense, shared *network       // or nil
	sharedGate    weight         // where shared is gated
	turn          int            // of the backbone's rotary embeddings; -1: none
	temperature   int            // of its temperatures; -1: none
}

// crossWeights are those of attention to what an encoder has read.
type crossWeights struct {
	place    int // of the cache
	norm     normWeights
	q, kv, o weight
}

// headWeights are the last norm's, those of what follows it, and the LM head's.
type headWeights struct {
	norm      normWeights
	dense     weight // n 0: there is none
	denseNorm normWeights
	matrix    weight
}

// placing puts the tensors of a backbone one behind the other, and behind them the table
// of matrices. With the address of both it says where everything is.
type placing struct {
	m           *model.Model
	base, table cuda.Ptr
	bytes       int64    // of tensors
	all         []part   // by address
	entries     []uint64 // addresses of matrices and biases
	needed      [formats]bool
	err         error
}

// part is a matrix, or what is made of one, or else a vector.
type part struct {
	matrix matrix
	made   made
	vector vector
}

func (p *placing) end() int64 { return p.bytes + 8*int64(len(p.entries)) }

func (p *placing) backbone() (layers []backboneLayer, h headWeights) {
	s := &p.m.Spec
	turns, temperatures, in := turnsOf(s), temperaturesOf(s), kvcache.PlacesOf(s)
	for l := range s.Layer {
		t := p.layer(l)
		if t.place = in.Self[l]; t.cross != nil {
			t.cross.place = in.Cross[l]
		}
		t.turn = turnOf(turns, &t.spec.Mixer.Rope)
		t.temperature = slices.Index(temperatures, t.spec.Mixer.Temperature)
		layers = append(layers, t)
	}
	return layers, p.head()
}

// matrices returns all tensors of those that are placed as they are.
func (p *placing) matrices() iter.Seq[model.Ref] {
	return func(yield func(model.Ref) bool) {
		for _, part := range p.all {
			for _, ref := range part.matrix.refs {
				if !yield(ref) {
					return
				}
			}
		}
	}
}

func (p *placing) head() (h headWeights) {
	s, role, bias := &p.m.Spec, model.Head, []model.Ref(nil)
	if s.TiedEmbeddings {
		role = model.Embed
	}
	if s.Head.Bias {
		bias = []model.Ref{{Role: model.HeadBias}}
	}
	h.norm = p.norm(s.FinalNorm, model.Ref{Role: model.FinalNorm})
	if s.Head.Dense {
		h.dense = p.matrix([]model.Ref{{Role: model.HeadDenseBias}}, model.Ref{Role: model.HeadDense})
		h.denseNorm = p.norm(model.NormSpec{Kind: model.LayerNorm, Eps: s.Head.DenseEps}, model.Ref{Role: model.HeadNorm})
	}
	h.matrix = p.matrix(bias, model.Ref{Role: role})
	return h
}

func (p *placing) layer(l int) backboneLayer {
	spec := &p.m.Spec.Layer[l]
	t := backboneLayer{spec: spec}
	at := func(roles ...model.Role) []model.Ref { return refsIn(l, roles...) }
	t.norm, t.ffnNorm = p.norm(spec.Norm, at(model.InputNorm)[0]), p.norm(spec.Norm, at(model.PostNorm)[0])
	if t.o = p.matrix(biases(spec.Mixer.OBias, l, model.OBias), at(model.O)...); spec.Mixer.Kind == model.MLA {
		t.latent = p.latent(l, &spec.Mixer)
	} else {
		t.qkv = p.matrix(biases(spec.Mixer.QKVBias, l, model.QBias, model.KBias, model.VBias), at(model.Q, model.K, model.V)...)
	}
	if spec.Cross {
		t.cross = p.cross(l, spec)
	}
	if k := spec.Mixer.QKNorm; k == model.QKNormHead || k == model.QKNormWhole {
		t.qNorm, t.kNorm = p.vector(at(model.QNorm)...), p.vector(at(model.KNorm)...)
	}
	if spec.Mixer.Sinks {
		t.sinks = p.vector(at(model.Sinks)...)
	}
	p.networks(&t, l)
	return t
}

func refsIn(l int, roles ...model.Role) (refs []model.Ref) {
	for _, r := range roles {
		refs = append(refs, model.Ref{Role: r, Layer: l})
	}
	return refs
}

func biases(some bool, l int, roles ...model.Role) []model.Ref {
	if !some {
		return nil
	}
	return refsIn(l, roles...)
}

func (p *placing) cross(l int, spec *model.LayerSpec) *crossWeights {
	at := func(roles ...model.Role) []model.Ref { return refsIn(l, roles...) }
	x := &spec.Mixer
	return &crossWeights{
		norm: p.norm(spec.Norm, at(model.CrossNorm)[0]),
		q:    p.matrix(biases(x.QKVBias, l, model.CrossQBias), at(model.CrossQ)...),
		kv:   p.matrix(biases(x.QKVBias, l, model.CrossKBias, model.CrossVBias), at(model.CrossK, model.CrossV)...),
		o:    p.matrix(biases(x.OBias, l, model.CrossOBias), at(model.CrossO)...),
	}
}

func (p *placing) networks(t *backboneLayer, l int) {
	switch spec := t.spec; {
	case !spec.MoE:
		t.dense = p.network(&spec.Dense, l, model.DenseRoles)
	case spec.Shared.Width > 0:
		t.shared = p.network(&spec.Shared.FFNSpec, l, model.SharedRoles)
		if spec.Shared.Gated {
			t.sharedGate = p.matrix(nil, model.Ref{Role: model.SharedRouter, Layer: l})
		}
	}
}

func (p *placing) network(spec *model.FFNSpec, l int, roles model.FFNRoles) *network {
	at := func(r model.Role) model.Ref { return model.Ref{Role: r, Layer: l} }
	in, inBias, downBias := []model.Ref{at(roles.Up)}, []model.Ref{at(roles.UpBias)}, []model.Ref{at(roles.DownBias)}
	if spec.Activation.Gated() {
		in, inBias = []model.Ref{at(roles.Gate), in[0]}, []model.Ref{at(roles.GateBias), inBias[0]}
	}
	if !spec.Bias {
		inBias, downBias = nil, nil
	}
	n := &network{spec: spec, in: p.matrix(inBias, in...), down: p.matrix(downBias, at(roles.Down))}
	if !spec.Activation.Gated() && n.in.format != bf16 {
		t, err := p.m.Stat(in[0])
		p.fail(cmp.Or(err, error(&MatrixError{in[0], t.DType})))
	}
	return n
}

// norm places a norm's weights, if there is one; the bias of a layer norm has the role
// after the weight's.
func (p *placing) norm(spec model.NormSpec, ref model.Ref) normWeights {
	if spec.Kind == model.NoNorm {
		return normWeights{}
	}
	n := normWeights{weight: p.vector(ref), eps: spec.Eps}
	if spec.Kind == model.LayerNorm {
		ref.Role++
		n.bias = p.vector(ref)
	}
	return n
}

func (p *placing) vector(refs ...model.Ref) cuda.Ptr {
	v := vector{refs: refs, at: p.bytes}
	for _, ref := range refs {
		t, err := p.m.Stat(ref)
		if err != nil {
			p.fail(fmt.Errorf("sizing %v: %w", ref, err))
			return 0
		}
		p.bytes += 4 * int64(elementsOf(t.Shape))
	}
	p.bytes = cuda.Aligned(p.bytes)
	p.all = append(p.all, part{vector: v})
	return p.base + cuda.Ptr(v.at)
}

// matrix places tensors of one type, one below the other, and their biases.
func (p *placing) matrix(bias []model.Ref, refs ...model.Ref) weight {
	w := matrix{refs: refs, at: p.bytes}
	for i, ref := range refs {
		t, err := p.m.Stat(ref)
		if err != nil {
			p.fail(fmt.Errorf("sizing %v: %w", ref, err))
			return weight{}
		}
		f, ok := formatOf[t.DType]
		if !ok || i > 0 && t.DType != w.dtype {
			p.fail(&MatrixError{ref, t.DType})
			return weight{}
		}
		w.n, w.k, w.dtype, w.format = w.n+t.Shape[0], t.Shape[1], t.DType, f
	}
	p.bytes = cuda.Aligned(p.bytes + w.bytes())
	p.all, p.needed[w.format] = append(p.all, part{matrix: w}), true
	out := weight{p.table + cuda.Ptr(8*len(p.entries)), w.n, w.k, w.format}
	p.entries = append(p.entries, uint64(p.base)+uint64(w.at), 0)
	if len(bias) > 0 {
		p.entries[len(p.entries)-1] = uint64(p.vector(bias...))
	}
	return out
}

func (p *placing) fail(err error) {
	if p.err == nil {
		p.err = err
	}
}

func elementsOf(shape []int) int {
	n := 1
	for _, s := range shape {
		n *= s
	}
	return n
}

func (p *placing) copy(ctx context.Context, driver cuda.Driver, h *health, r *random) error {
	m := p.m.With(ctx)
	return overWay(ctx, driver, p.end(), h, r, func(w *way) { p.write(w, m) })
}

func (p *placing) write(w *way, m *model.Model) {
	w.to = p.base
	for _, part := range p.all {
		p.writePart(w, m, part)
	}
	w.fillTo(p.table)
	w.write(entryBytes(p.entries))
}

func (p *placing) writePart(w *way, m *model.Model, of part) {
	switch {
	case w.err != nil:
	case of.made.of != nil:
		w.fillTo(p.base + cuda.Ptr(of.made.at))
		if t := w.weights(m, of.made.ref, of.made.format); w.err == nil {
			w.write(of.made.of(t))
		}
	case len(of.matrix.refs) == 0:
		w.fillTo(p.base + cuda.Ptr(of.vector.at))
		w.vector(m, of.vector)
	default:
		w.fillTo(p.base + cuda.Ptr(of.matrix.at))
		w.matrix(m, of.matrix)
	}
}
