package forward

import (
	"github.com/switchyard/switchyard/pkg/compute/kvcache"
	"github.com/switchyard/switchyard/pkg/compute/model"
)

// Backbone is everything of a model but its gates and routed experts.
type Backbone struct {
	spec      model.Spec
	on        Computer
	longAfter int // see model.Spec
}

// NewBackbone returns a model's, whose weights a computer holds.
func NewBackbone(spec *model.Spec, on Computer) *Backbone {
	return &Backbone{spec: *spec, on: on, longAfter: spec.LongAfter()}
}

// Bytes returns the memory of the weights that every step reads.
func (t *Backbone) Bytes() int64 { return t.on.Bytes() }

// NewPool makes pages for keys and values, where the backbone is computed. rows is the
// most of a sequence that a step computes; 0: any number. They take at most budget bytes.
func (t *Backbone) NewPool(rows int, budget int64) (*kvcache.Pool, error) {
	shape := kvcache.ShapeOf(&t.spec)
	shape.Rows = rows
	return t.on.NewPool(shape, budget)
}

// Long reports whether a sequence of so many tokens is a long one, see Row. When it
// becomes one, all of its positions have to be computed anew.
func (t *Backbone) Long(length int) bool { return t.longAfter > 0 && length > t.longAfter }

// answers says that the model is an encoder before a decoder.
func (t *Backbone) answers() bool { return t.spec.Task() == model.Answer }
