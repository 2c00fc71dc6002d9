package forward

import (
	"fmt"

	"github.com/switchyard/switchyard/internal/reuse"
	"github.com/switchyard/switchyard/kernels/cpu"
	"github.com/switchyard/switchyard/pkg/compute/model"
)

// cross is a decoder layer's attention to what the encoder made of the prompt.
// Keys and values are computed once, when the encoder is through, and stay in the
// cache.
//
// Source: transformers, models/bert/modeling_bert.py, BertCrossAttention.
type cross struct {
	spec   model.MixerSpec
	place  int         // of the cache
	q      *cpu.Matrix // (H·C, D)
	qBias  []float32   // (H·C), or nil
	kv     *cpu.Matrix // (2G·C, D)
	kvBias []float32   // (2G·C), or nil
	o      *cpu.Matrix // (D, H·C)
	oBias  []float32   // (D), or nil
}

func loadCross(m *model.Model, l, place int) (_ *cross, err error) {
	c := &cross{spec: m.Spec.Layer[l].Mixer, place: place}
	if c.spec.Kind != model.GroupedQuery || c.spec.HeadDim != c.spec.ValueDim {
		return nil, fmt.Errorf("cross attention beside attention of kind %d is not computed", c.spec.Kind)
	}
	at := func(r model.Role) model.Ref { return model.Ref{Role: r, Layer: l} }
	if c.q, err = loadMatrix(m, at(model.CrossQ)); err != nil {
		return nil, err
	}
	if c.kv, err = loadMatrix(m, at(model.CrossK), at(model.CrossV)); err != nil {
		return nil, err
	}
	if c.o, err = loadMatrix(m, at(model.CrossO)); err != nil {
		return nil, err
	}
	return c, c.loadBiases(m, at)
}

func (c *cross) loadBiases(m *model.Model, at func(model.Role) model.Ref) (err error) {
	if c.spec.QKVBias {
		if c.qBias, err = loadFloats(m, at(model.CrossQBias)); err != nil {
			return err
		}
		if c.kvBias, err = loadFloats(m, at(model.CrossKBias), at(model.CrossVBias)); err != nil {
			return err
		}
	}
	if c.spec.OBias {
		c.oBias, err = loadFloats(m, at(model.CrossOBias))
	}
	return err
}

func (c *cross) bytes() int64 { return c.q.Bytes() + c.kv.Bytes() + c.o.Bytes() }

// remember writes the keys and values of the encoder's output x (R, D).
func (c *cross) remember(s *lane, x []float32) {
	n, width := len(s.rows), c.kv.N
	s.qkv = reuse.Slice(s.qkv, n*width)
	matMul(s.workers(), s.qkv, x, n, c.kv)
	addBias(s.qkv, c.kvBias, 0, n)
	eachRow(s.workers(), n, width, func(from, to int) {
		for i := from; i < to; i++ {
			k := s.qkv[i*width : (i+1)*width]
			s.rows[i].Table.Store(c.place, s.rows[i].Position, k, k[width/2:])
		}
	})
}

// mix is dst (R, D) of the decoder's rows x (R, D), without the residual.
func (c *cross) mix(s *lane, dst, x []float32) {
	n := len(s.rows)
	s.qkv, s.attn = reuse.Slice(s.qkv, n*c.q.N), reuse.Slice(s.attn, n*c.o.K)
	matMul(s.workers(), s.qkv, x, n, c.q)
	addBias(s.qkv, c.qBias, 0, n)
	nanos := c.o.K * s.rows[0].Source * 4 / flopsPerNano
	eachRow(s.workers(), n, nanos, func(from, to int) {
		scratch := s.scratches.get()
		for i := from; i < to; i++ {
			at := i * c.q.N
			attend(&c.spec, s.attn[at:], s.qkv[at:], nil, s.rows[i].Table, c.place, 0, s.rows[i].Source, scratch, nil)
		}
		s.scratches.put(scratch)
	})
	matMul(s.workers(), dst, s.attn, n, c.o)
	addBias(dst, c.oBias, 0, n)
}
