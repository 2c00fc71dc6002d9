package forward

import (
	"context"
	"fmt"
	"math"

	"github.com/switchyard/switchyard/kernels/cpu"
	"github.com/switchyard/switchyard/kernels/pool"
	"github.com/switchyard/switchyard/pkg/compute/kvcache"
	"github.com/switchyard/switchyard/pkg/compute/model"
	"github.com/switchyard/switchyard/pkg/compute/safetensors"
)

// Backbone is everything of a model but its gates and routed experts.
type Backbone struct {
	spec      model.Spec
	p         *pool.Pool
	embed     embedding
	layers    []backboneLayer
	finalNorm []float32
	head      *cpu.Matrix // (V, D)
	cos, sin  []float32   // (positions, C/2)
	scratches scratchPool
}

type backboneLayer struct {
	inputNorm, postNorm []float32   // (D)
	qkv                 *cpu.Matrix // ((H+2G)·C, D)
	qkvBias             []float32   // ((H+2G)·C), or nil
	o                   *cpu.Matrix // (D, H·C)
	window              int
	dense, shared       *ffn
	sharedGate          *cpu.Matrix // (1, D), or nil
}

// LoadBackbone reads and packs the backbone's weights. maxPositions bounds the
// length of a sequence.
func LoadBackbone(m *model.Model, p *pool.Pool, maxPositions int) (*Backbone, error) {
	t := &Backbone{spec: m.Spec, p: p, layers: make([]backboneLayer, m.Spec.Layers)}
	for l := range t.layers {
		if err := t.layers[l].load(m, l); err != nil {
			return nil, fmt.Errorf("layer %d: %w", l, err)
		}
	}
	if err := t.loadEnds(m); err != nil {
		return nil, err
	}
	t.makeRotations(maxPositions)
	return t, nil
}

func (t *Backbone) loadEnds(m *model.Model) (err error) {
	if t.embed, err = loadEmbedding(m); err != nil {
		return err
	}
	if t.finalNorm, err = m.Floats(model.Ref{Role: model.FinalNorm}); err != nil {
		return fmt.Errorf("loading weights: %w", err)
	}
	role := model.Head
	if m.Spec.TiedEmbeddings {
		role = model.Embed
	}
	t.head, err = loadMatrix(m, model.Ref{Role: role})
	return err
}

// Bytes is the memory of the weights that every step reads.
func (t *Backbone) Bytes() int64 {
	n := t.head.Bytes()
	for i := range t.layers {
		tl := &t.layers[i]
		n += tl.qkv.Bytes() + tl.o.Bytes()
		for _, f := range []*ffn{tl.dense, tl.shared} {
			if f != nil {
				n += f.bytes()
			}
		}
	}
	return n
}

// Shape is what a position needs of the KV cache.
func (t *Backbone) Shape() kvcache.Shape {
	return CacheShape(&t.spec)
}

// CacheShape is what a model's KV cache needs for a position.
func CacheShape(s *model.Spec) kvcache.Shape {
	return kvcache.Shape{Layers: s.Layers, KVHeads: s.KVHeads, HeadDim: s.HeadDim}
}

func (tl *backboneLayer) load(m *model.Model, l int) (err error) {
	at := func(r model.Role) model.Ref { return model.Ref{Role: r, Layer: l} }
	if tl.inputNorm, err = m.Floats(at(model.InputNorm)); err != nil {
		return err
	}
	if tl.postNorm, err = m.Floats(at(model.PostNorm)); err != nil {
		return err
	}
	if tl.qkv, err = loadMatrix(m, at(model.Q), at(model.K), at(model.V)); err != nil {
		return err
	}
	if tl.o, err = loadMatrix(m, at(model.O)); err != nil {
		return err
	}
	tl.window = m.Spec.Layer[l].Window
	if m.Spec.QKVBias {
		if err = tl.loadBias(m, at); err != nil {
			return err
		}
	}
	return tl.loadFFNs(m, l)
}

func (tl *backboneLayer) loadBias(m *model.Model, at func(model.Role) model.Ref) error {
	for _, role := range []model.Role{model.QBias, model.KBias, model.VBias} {
		b, err := m.Floats(at(role))
		if err != nil {
			return err
		}
		tl.qkvBias = append(tl.qkvBias, b...)
	}
	return nil
}

//nolint:contextcheck,nolintlint // the backbone is loaded whole, before anybody waits for a request
func (tl *backboneLayer) loadFFNs(m *model.Model, l int) (err error) {
	if !m.Spec.Layer[l].MoE {
		tl.dense, err = loadFFN(context.Background(), m, refsOf(l, 0, model.DenseGate, model.DenseUp, model.DenseDown))
		return err
	}
	if m.Spec.SharedWidth == 0 {
		return nil
	}
	if tl.shared, err = loadFFN(context.Background(), m, refsOf(l, 0, model.SharedGate, model.SharedUp, model.SharedDown)); err != nil {
		return err
	}
	tl.sharedGate, err = loadMatrix(m, model.Ref{Role: model.SharedRouter, Layer: l})
	return err
}

// makeRotations fills the rotary tables. Frequencies and angles are rounded to
// float32 as transformers computes them.
func (t *Backbone) makeRotations(positions int) {
	half := t.spec.HeadDim / 2
	t.cos, t.sin = make([]float32, positions*half), make([]float32, positions*half)
	for i := range half {
		inv := float32(1 / math.Pow(t.spec.RopeTheta, float64(2*i)/float64(t.spec.HeadDim)))
		for pos := range positions {
			angle := float64(float32(pos) * inv)
			t.cos[pos*half+i], t.sin[pos*half+i] = float32(math.Cos(angle)), float32(math.Sin(angle))
		}
	}
}

// embedding looks rows up in the checkpoint itself, without a copy where it is bf16.
type embedding struct {
	d      int
	raw    []byte
	floats []float32
}

func loadEmbedding(m *model.Model) (embedding, error) {
	e := embedding{d: m.Spec.Hidden}
	ref := model.Ref{Role: model.Embed}
	t, err := m.Tensor(ref)
	if err != nil {
		return e, fmt.Errorf("loading weights: %w", err)
	}
	if t.DType == safetensors.BF16 {
		e.raw = t.Data
		return e, nil
	}
	e.floats, err = m.Floats(ref)
	return e, err
}

func (e embedding) row(dst []float32, id uint32) {
	at := int(id) * e.d
	if e.raw != nil {
		cpu.FromBF16(dst, e.raw[at*2:(at+e.d)*2])
		return
	}
	copy(dst, e.floats[at:at+e.d])
}
