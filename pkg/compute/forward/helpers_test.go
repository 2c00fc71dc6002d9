package forward

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/switchyard/switchyard/kernels/cpu"
	"github.com/switchyard/switchyard/kernels/pool"
	"github.com/switchyard/switchyard/pkg/compute/kvcache"
	"github.com/switchyard/switchyard/pkg/compute/model"
	"github.com/switchyard/switchyard/pkg/compute/tensor"
)

func threads(t testing.TB) *pool.Pool {
	t.Helper()
	p := pool.New(2)
	t.Cleanup(p.Close)
	return p
}

// rig is everything of a model in one place.
type rig struct {
	m        *model.Model
	backbone *Backbone
	router   *Router
	loaded   *loaded
	kv       *kvcache.Pool
}

func newRig(t testing.TB, m *model.Model) *rig {
	t.Helper()
	p := threads(t)
	r := &rig{m: m, loaded: warm(t, m, p)}
	var err error
	if r.backbone, err = LoadBackbone(m, p, 256); err != nil {
		t.Fatal(err)
	}
	if r.router, err = LoadRouter(m, p); err != nil {
		t.Fatal(err)
	}
	if r.kv, err = r.backbone.NewPool(0, 32<<20); err != nil {
		t.Fatal(err)
	}
	return r
}

// loaded are experts that stay; lent counts those that are borrowed.
type loaded struct {
	p       *pool.Pool
	spec    model.Spec
	experts map[ExpertID]*Expert
	lent    atomic.Int64
}

func (l *loaded) Borrow(id ExpertID) *Expert {
	e := l.experts[id]
	if e != nil {
		l.lent.Add(1)
	}
	return e
}

func (l *loaded) GiveBack(ExpertID) { l.lent.Add(-1) }

func (l *loaded) Compute(in Routed, out []float32, s *ExpertScratch) error {
	return ComputeExperts(l.p, l, in, out, s)
}

// warm loads all experts.
func warm(t testing.TB, m *model.Model, p *pool.Pool) *loaded {
	t.Helper()
	out := &loaded{p: p, spec: m.Spec, experts: map[ExpertID]*Expert{}}
	for l, spec := range m.Spec.Layer {
		for e := 0; spec.MoE && e < m.Spec.Experts; e++ {
			expert, err := loadExpert(t.Context(), m, ExpertID{l, e})
			if err != nil {
				t.Fatal(err)
			}
			out.experts[ExpertID{l, e}] = expert
		}
	}
	t.Cleanup(func() {
		if n := out.lent.Load(); n != 0 {
			t.Errorf("%d experts were not given back", n)
		}
	})
	return out
}

func (r *rig) step(w tensor.Wire) *Step {
	return &Step{Backbone: r.backbone, MoE: r.local(w)}
}

func (r *rig) local(w tensor.Wire) *Local {
	return &Local{Gates: r.router, Experts: r.loaded, Wire: w, Hidden: r.m.Spec.Hidden, Pool: r.router.p}
}

// lane is one for a step that a test looks into.
func (r *rig) lane(t testing.TB) *lane {
	t.Helper()
	w, ok := r.backbone.on.(*weights)
	if !ok {
		t.Fatalf("the backbone is computed on %T", r.backbone.on)
	}
	return &lane{weights: w}
}

func (r *rig) table(t testing.TB, positions int) *kvcache.Table {
	t.Helper()
	table, err := r.kv.Reserve(positions)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(table.Release)
	return table
}

// noise is n numbers that a seed always gives.
func noise(seed uint64, n int) []float32 {
	g := rand.New(rand.NewPCG(seed, 1))
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(g.NormFloat64())
	}
	return x
}

// same compares bit for bit.
func same(a, b []float32) bool {
	return slices.EqualFunc(a, b, func(x, y float32) bool { return math.Float32bits(x) == math.Float32bits(y) })
}

func loadExpert(ctx context.Context, m *model.Model, id ExpertID) (*Expert, error) {
	return LoadExpertBy(ctx, cpu.Packer{}, m, id)
}
