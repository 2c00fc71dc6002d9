package forward

import (
	"fmt"

	"github.com/switchyard/switchyard/kernels/pool"
	"github.com/switchyard/switchyard/pkg/compute/kvcache"
	"github.com/switchyard/switchyard/pkg/compute/model"
)

// Backbone is everything of a model but its gates and routed experts.
type Backbone struct {
	spec      model.Spec
	p         *pool.Pool
	embed     embedding
	encoder   *embedding // what an encoder before a decoder begins with, or nil
	layers    []*layer
	head      head
	scratches scratchPool
	longAfter int // see model.Spec
}

// LoadBackbone reads and packs the backbone's weights. maxPositions bounds the
// length of a sequence.
func LoadBackbone(m *model.Model, p *pool.Pool, maxPositions int) (_ *Backbone, err error) {
	t := &Backbone{spec: m.Spec, p: p, longAfter: m.Spec.LongAfter(), layers: make([]*layer, m.Spec.Layers)}
	tables := &ropes{positions: maxPositions}
	in := kvcache.PlacesOf(&m.Spec)
	for l := range t.layers {
		if t.layers[l], err = loadLayer(m, l, tables, in); err != nil {
			return nil, fmt.Errorf("layer %d: %w", l, err)
		}
	}
	if t.embed, err = loadEmbedding(m, m.Spec.Embedding, model.Embed); err != nil {
		return nil, err
	}
	if m.Spec.Task() == model.Answer {
		e, err := loadEmbedding(m, m.Spec.Encoder, model.EncoderEmbed)
		if err != nil {
			return nil, err
		}
		t.encoder = &e
	}
	t.head, err = loadHead(m)
	return t, err
}

// Bytes is the memory of the weights that every step reads.
func (t *Backbone) Bytes() int64 {
	n := t.head.matrix.Bytes()
	for _, tl := range t.layers {
		n += tl.bytes()
	}
	return n
}

// Shape is what a position needs of the KV cache.
func (t *Backbone) Shape() kvcache.Shape { return kvcache.ShapeOf(&t.spec) }

// Long reports whether a sequence of so many tokens is a long one, see Row. When it
// becomes one, all of its positions have to be computed anew.
func (t *Backbone) Long(length int) bool { return t.longAfter > 0 && length > t.longAfter }
