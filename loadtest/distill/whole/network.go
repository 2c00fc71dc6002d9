package whole

import (
	"fmt"
	"math"

	"github.com/switchyard/switchyard/pkg/compute/model"
)

// Network is a model whose weights are frozen. It is safe for concurrent use.
type Network struct {
	spec   *model.Spec
	embed  []float32 // (V, D)
	head   linear    // (V, D)
	final  []float32 // (D), the last norm's
	layers []layer
}

// layer is one of a network's.
type layer struct {
	spec          *model.LayerSpec
	before, after []float32 // (D): the mixer's norm, and that of what follows
	qkv, o        linear
	bias          []float32 // of qkv, or nil
	frequencies   []float64 // of the rotary embedding
	dense         *ffn      // where it has no experts
	router        linear
	experts       []*ffn
	shared        *ffn // or nil
	sharedGate    []float32
}

// Check reports whether students of a model can learn from the whole of it.
func Check(s *model.Spec) error {
	if what := beside(s); what != "" {
		return fmt.Errorf("students cannot learn from the whole model: it has %s, of which no gradient is computed; let them learn from its experts alone", what)
	}
	for l := range s.Layer {
		if what := besideIn(&s.Layer[l]); what != "" {
			return fmt.Errorf("students cannot learn from the whole model: layer %d has %s, of which no gradient is computed; let them learn from its experts alone", l, what)
		}
	}
	return nil
}

// beside is what a model has that is not computed here.
func beside(s *model.Spec) string {
	switch {
	case s.Task() != model.Continue:
		return "an encoder"
	case s.Embedding.Positions > 0 || s.Embedding.Types > 0 || s.Embedding.Norm.Kind != model.NoNorm:
		return "embeddings of positions or segments, or a norm behind them"
	case s.FinalNorm.Kind != model.RMSNorm:
		return "a last norm that is no RMS norm"
	case s.Head.Bias || s.Head.Dense:
		return "a head with a bias or a matrix before it"
	}
	return ""
}

func besideIn(l *model.LayerSpec) string {
	m, r := &l.Mixer, &l.Router
	switch {
	case l.Order != model.NormBefore || l.Norm.Kind != model.RMSNorm || l.Cross:
		return "norms that are no RMS norms before its parts, or a cross attention"
	case m.Kind != model.GroupedQuery || m.HeadDim != m.ValueDim || m.Bidirectional || m.Window > 0 || m.Chunk > 0:
		return "an attention that is no grouped-query attention of all positions before"
	case m.OBias || m.QKNorm != model.NoQKNorm || m.Clip > 0 || m.Sinks || m.Temperature.Floor > 0:
		return "an attention with norms, sinks, limits or temperatures, or with a bias behind it"
	case m.Rope.Kind != model.HalfSplit || m.Rope.Dim != m.HeadDim || m.Rope.Scaling.Kind != model.NoScaling:
		return "a rotary embedding that is stretched, interleaved or of a part of each head"
	case !plain(&l.Dense) || !plain(&l.Expert) || !plain(&l.Shared.FFNSpec):
		return "networks that are no SwiGLU without biases"
	case l.MoE && (r.Kind != model.SoftmaxTopK || r.Groups > 1 || r.Bias || r.Correction || r.OnInput || r.Scale != 0 && r.Scale != 1):
		return "a gate that is no softmax with the best experts, or groups, biases or scales them"
	}
	return ""
}

func plain(f *model.FFNSpec) bool {
	return f.Width == 0 || f.Activation == model.SwiGLU && !f.Bias
}

// Open reads a model that Check accepts.
func Open(m *model.Model) (*Network, error) {
	if err := Check(&m.Spec); err != nil {
		return nil, err
	}
	n := &Network{spec: &m.Spec, layers: make([]layer, m.Spec.Layers)}
	r := reader{m: m}
	n.embed = r.floats(model.Embed, 0)
	head := n.embed
	if !m.Spec.TiedEmbeddings {
		head = r.floats(model.Head, 0)
	}
	n.final = r.floats(model.FinalNorm, 0)
	for l := range n.layers {
		n.layers[l] = r.layer(l)
	}
	if r.err != nil {
		return nil, fmt.Errorf("reading the whole model: %w", r.err)
	}
	n.head = newLinear(head, m.Spec.Vocab, m.Spec.Hidden)
	return n, nil
}

// reader reads tensors until one cannot be read.
type reader struct {
	m   *model.Model
	err error
}

func (r *reader) floats(role model.Role, layer int) []float32 {
	return r.tensor(model.Ref{Role: role, Layer: layer})
}

func (r *reader) tensor(ref model.Ref) []float32 {
	if r.err != nil {
		return nil
	}
	w, err := r.m.Floats(ref)
	r.err = err
	return w
}

func (r *reader) join(l int, roles ...model.Role) (all []float32) {
	for _, role := range roles {
		all = append(all, r.floats(role, l)...)
	}
	return all
}

func (r *reader) layer(l int) layer {
	spec, d := &r.m.Spec.Layer[l], r.m.Spec.Hidden
	x := &spec.Mixer
	out := layer{spec: spec, before: r.floats(model.InputNorm, l), after: r.floats(model.PostNorm, l)}
	qkv, o := r.join(l, model.Q, model.K, model.V), r.floats(model.O, l)
	if x.QKVBias {
		out.bias = r.join(l, model.QBias, model.KBias, model.VBias)
	}
	for i := range x.HeadDim / 2 {
		out.frequencies = append(out.frequencies, 1/math.Pow(x.Rope.Theta, float64(2*i)/float64(x.HeadDim)))
	}
	if r.err != nil {
		return out
	}
	out.qkv, out.o = newLinear(qkv, (x.Heads+2*x.KVHeads)*x.HeadDim, d), newLinear(o, d, x.Heads*x.HeadDim)
	if !spec.MoE {
		out.dense = r.ffn(spec.Dense.Width, l, 0, model.DenseRoles)
		return out
	}
	if router := r.floats(model.Router, l); r.err == nil {
		out.router = newLinear(router, r.m.Spec.Experts, d)
	}
	for e := range r.m.Spec.Experts {
		out.experts = append(out.experts, r.ffn(spec.Expert.Width, l, e, model.FFNRoles{Gate: model.ExpertGate, Up: model.ExpertUp, Down: model.ExpertDown}))
	}
	if spec.Shared.Width > 0 {
		out.shared = r.ffn(spec.Shared.Width, l, 0, model.SharedRoles)
		if spec.Shared.Gated {
			out.sharedGate = r.floats(model.SharedRouter, l)
		}
	}
	return out
}

func (r *reader) ffn(width, l, e int, roles model.FFNRoles) *ffn {
	var all [3][]float32
	for i, role := range []model.Role{roles.Gate, roles.Up, roles.Down} {
		all[i] = r.tensor(model.Ref{Role: role, Layer: l, Expert: e})
	}
	if r.err != nil {
		return nil
	}
	return newFFN(r.m.Spec.Hidden, width, append(append([]float32{}, all[0]...), all[1]...), all[2])
}
