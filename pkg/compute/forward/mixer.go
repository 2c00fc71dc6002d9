package forward

import (
	"fmt"
	"sync"

	"github.com/switchyard/switchyard/pkg/compute/model"
)

type mixer interface {
	// mix is dst (R, D) of the step's rows x (R, D), without the residual. It writes
	// the rows' keys and values into that place of the cache. Then it narrows the lane, which may leave no row.
	mix(s *lane, place int, dst, x []float32)
	bytes() int64
	// nanos is about what a row takes on one thread.
	nanos(r *Row) int
}

// mixBuffers are a step's scratch for mixers, which resize what they use.
type mixBuffers struct{ qkv, attn, queries, lines, sums []float32 }

func loadMixer(m *model.Model, l int, t *ropes) (mixer, error) {
	spec := &m.Spec.Layer[l].Mixer
	r, err := t.of(spec.Rope)
	if err != nil {
		return nil, err
	}
	switch spec.Kind {
	case model.GroupedQuery:
		return loadGroupedQuery(m, l, r)
	case model.MLA:
		return loadLatent(m, l, r)
	}
	return nil, fmt.Errorf("attention of kind %d is not computed", spec.Kind)
}

type attendScratch struct {
	pages   [][]float32
	floats  []float32
	weights []float32
}

type scratchPool struct{ pool sync.Pool }

func (p *scratchPool) get() *attendScratch {
	if s, ok := p.pool.Get().(*attendScratch); ok {
		return s
	}
	return &attendScratch{}
}

func (p *scratchPool) put(s *attendScratch) { p.pool.Put(s) }
